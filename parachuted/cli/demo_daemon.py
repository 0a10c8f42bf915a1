"""The daemon of a demo, in a process and a home of its own, and its events."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parachuted.cli.commands import Json
from parachuted.errors import DaemonError
from parachuted.presence import running_daemon

PATIENCE_S = 20.0


def save_note(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


@contextmanager
def demo_daemon(vault: Path, home: Path) -> Iterator[dict[str, object]]:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PARACHUTE_")},
        "PARACHUTE_HOME": os.fspath(home),
        "PARACHUTE_AGENT_BACKEND": "offline",
        "PARACHUTE_BUBBLE_QUIET_S": "1",
    }
    start = [sys.executable, "-P", "-m", "parachuted", "start", "--foreground", "--port", "0"]
    process = subprocess.Popen(  # noqa: S603  our own program
        [*start, "--vault", os.fspath(vault)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield _wait_for_daemon(home, process)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_daemon(home: Path, process: subprocess.Popen[bytes]) -> dict[str, object]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        record = running_daemon(os.fspath(home))
        if record is not None:
            return record
        if process.poll() is not None:
            break
        time.sleep(0.02)
    said = process.communicate()[1].decode("utf-8", "replace").strip()
    raise DaemonError(f"the demo's daemon did not start: {said or 'it said nothing'}")


class DemoEvents:
    """The daemon's events, read by a thread from a raw socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def wait(self, event: str) -> Json:
        """The data of the next such event."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                happened = self._arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise DaemonError(f"the demo waited in vain for {event}") from None
            if happened["event"] == event:
                return happened["data"]

    def _read(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b'data: {"event"'):
                    self._arrived.put(json.loads(line[6:]))


@contextmanager
def demo_events(record: dict[str, object]) -> Iterator[DemoEvents]:
    address = (str(record["host"]), int(str(record["port"])))
    with socket.create_connection(address) as connection:
        connection.sendall(
            f"GET /api/events HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n".encode()
        )
        yield DemoEvents(connection)
        connection.shutdown(socket.SHUT_RDWR)
