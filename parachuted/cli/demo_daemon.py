"""Demo daemon: a daemon in the demo's own vault and home, its events, and waiting for them."""

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

from parachuted.cli.client import ask
from parachuted.cli.commands import Json
from parachuted.errors import DaemonError
from parachuted.processes.presence import running_daemon

PATIENCE_S = 60.0


def save_note(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def demo_environment(home: Path, **more: str) -> dict[str, str]:
    """The person's, without their settings."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("PARACHUTE_")},
        "PARACHUTE_HOME": os.fspath(home),
        "PARACHUTE_AGENT_BACKEND": "offline",
        "PARACHUTE_BUBBLE_QUIET_S": "1",
        **more,
    }


@contextmanager
def demo_daemon(
    vault: Path, home: Path, environment: dict[str, str] | None = None
) -> Iterator[dict[str, object]]:
    start = [sys.executable, "-P", "-m", "parachuted", "start", "--foreground", "--port", "0"]
    process = subprocess.Popen(  # noqa: S603  our own program
        [*start, "--vault", os.fspath(vault)],
        env=environment or demo_environment(home),
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
    process.terminate()  # one that runs and does not answer would keep its words until it ends
    said = process.communicate()[1].decode("utf-8", "replace").strip()
    raise DaemonError(f"the demo's daemon did not start: {said or 'it said nothing'}")


class DemoEvents:
    """The daemon's events, read by a thread from a raw socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def wait(self, event: str) -> Json:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                happened = self._arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise DaemonError(f"the demo waited for {event}, which did not come") from None
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


def wait_for_modules() -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(one["status"] == "starting" for one in ask("GET", "/api/modules")["modules"]):
        if time.monotonic() > deadline:
            raise DaemonError("the demo's modules did not start")
        time.sleep(0.05)
