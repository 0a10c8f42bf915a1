"""Power, over real daemons of their own: one that ends as asked, and one that is back under the
same process id.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from parachuted.processes.presence import running_daemon


@contextlib.contextmanager
def daemon(vault: Path, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "parachuted",
        "start",
        "--foreground",
        "--quiet",
        "--vault",
        str(vault),
        "--port",
        "0",
    ]
    process = subprocess.Popen(
        command, env={**os.environ, "PARACHUTE_HOME": str(home)}, stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def announced(home: Path, *, but: object = None) -> dict[str, object]:
    """What the running daemon says of itself, once it is another than `but`."""
    deadline = time.monotonic() + 120
    while (record := running_daemon(str(home))) is None or record["started"] == but:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return record


def asked(record: dict[str, object], act: str) -> object:
    request = urllib.request.Request(
        f"http://127.0.0.1:{record['port']}/supervisor/server/{act}", method="POST"
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return json.load(answer)


def test_a_daemon_begins_again_as_the_same_process_and_ends_when_asked(vault, home):
    with daemon(vault, home) as process:
        first = announced(home)
        assert asked(first, "start") == {"status": "running"}
        assert asked(first, "restart") == {"status": "restarting"}
        second = announced(home, but=first["started"])
        assert (second["pid"], second["vault"]) == (first["pid"], first["vault"])

        assert asked(second, "stop") == {"status": "stopping"}
        assert process.wait(20) == 0
        assert running_daemon(str(home)) is None
