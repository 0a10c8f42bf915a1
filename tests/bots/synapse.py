"""A real Matrix server for the tests: Synapse on loopback with SQLite, started once."""

from __future__ import annotations

import base64
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_S = 120.0
REGISTRATION_SECRET = "shared"  # noqa: S105  of a server that this file starts
_LIMITS = (
    "rc_registration",
    "rc_admin_redaction",
    "rc_presence",
    "rc_room_creation",
    "rc_delayed_event_mgmt",
    "rc_reports",
)
_CONFIG = """\
server_name: localhost
listeners:
  - {{port: {port}, bind_addresses: ["127.0.0.1"], type: http, tls: false,
      resources: [{{names: [client]}}]}}
database: {{name: sqlite3, args: {{database: "{folder}/home.db"}}}}
log_config: "{folder}/log.yaml"
media_store_path: "{folder}/media"
signing_key_path: "{folder}/signing.key"
pid_file: "{folder}/pid"
registration_shared_secret: "{secret}"
macaroon_secret_key: "macaroon"
form_secret: "form"
report_stats: false
enable_registration: true
enable_registration_without_verification: true
trusted_key_servers: []
presence: {{enabled: false}}
federation_domain_whitelist: []
rc_message: &all {{per_second: 9999, burst_count: 9999}}
rc_joins: {{local: *all}}
rc_login: {{address: *all, account: *all}}
rc_invites: {{per_room: *all, per_user: *all}}
"""
_LOG = """\
version: 1
handlers: {{file: {{class: logging.FileHandler, filename: "{folder}/log", level: WARNING}}}}
root: {{level: WARNING, handlers: [file]}}
"""


@contextmanager
def running_synapse(folder: Path) -> Iterator[str]:
    """Its address, while the block lasts."""
    port = _free_port()
    limits = "".join(f"{limit}: {{per_second: 9999, burst_count: 9999}}\n" for limit in _LIMITS)
    config = folder / "synapse.yaml"
    config.write_text(
        _CONFIG.format(folder=folder, port=port, secret=REGISTRATION_SECRET) + limits, "utf-8"
    )
    (folder / "log.yaml").write_text(_LOG.format(folder=folder), "utf-8")
    start = [sys.executable, "-m", "synapse.app.homeserver", "--config-path", str(config)]
    seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
    (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n", "utf-8")
    with (folder / "output").open("ab") as output:
        server = subprocess.Popen(start, stdout=output, stderr=output, cwd=folder)
    try:
        _wait(server, f"http://127.0.0.1:{port}/_matrix/client/versions", folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310  loopback
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                said = (folder / "output").read_text("utf-8")[-3_000:]
                raise AssertionError(f"Synapse did not start: {said}") from None
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
