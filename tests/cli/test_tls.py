"""`parachute tls`: an authority is made, the daemon serves with it, and both can be ended."""

from __future__ import annotations

import json
import socket
import ssl
import stat
import urllib.request

import pytest

from tests.cli.command_line import CommandLine


@pytest.fixture
def port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def test_the_daemon_serves_encrypted_for_devices_that_trust_the_authority(
    command_line: CommandLine, port: str
):
    command_line.does("init", str(command_line.vault))
    command_line.does("config", "set", "tls.host", "127.0.0.1")
    command_line.does("start", "--port", "0")
    said = command_line.does("tls", "--port", port, "--name", "notes.local")
    reported = command_line.json("tls")
    folder = command_line.home / "tls"

    assert f"https://notes.local:{port}/tls/authority.crt" in said
    assert reported["fingerprint"] in said
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    trusting = ssl.create_default_context(cafile=str(folder / "authority.crt"))

    def version() -> str:
        try:
            with urllib.request.urlopen(
                f"https://localhost:{port}/api/health", context=trusting, timeout=20
            ) as answer:
                return str(json.load(answer)["version"])
        except OSError:
            return ""  # it restarts

    command_line.until(version)
    assert command_line.json("tls")["fingerprint"] == reported["fingerprint"], (
        "asking makes no other"
    )
    command_line.does("tls", "--off")
    command_line.until(lambda: not version())
    assert "PRIVATE" not in (command_line.home / "logs/daemon.log").read_text()
