"""Process: a real daemon of its own, its events as a client sees them, and what it takes of the
machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parachuted.processes.presence import running_daemon

PATIENCE_S = 120.0


@dataclass
class Client:
    """An SSE client: each event with the moment (perf_counter) at which it was read."""

    connection: socket.socket
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def read(self) -> None:
        """Read until the connection ends."""
        with contextlib.suppress(OSError), self.connection.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b'data: {"event"'):
                    self.events.append((time.perf_counter(), json.loads(line[6:])))

    def changes(self) -> list[tuple[float, dict[str, Any]]]:
        """The file events so far."""
        return [
            (at, event["data"]) for at, event in self.events if event["event"].startswith("file.")
        ]


@dataclass
class Process:
    """A running daemon. `started_s`: from the command to its being announced."""

    process: subprocess.Popen[bytes]
    vault: Path
    home: Path
    host: str
    port: int
    started_s: float

    def memory_mb(self) -> float:
        """Resident memory of the daemon alone, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return (
            int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
            / 1024
        )

    def processor_s(self) -> float:
        """Processor time so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """An SSE client that reads in a thread."""
        with socket.create_connection((self.host, self.port)) as connection:
            connection.sendall(
                f"GET /api/events HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n".encode()
            )
            client = Client(connection)
            reader = threading.Thread(target=client.read, daemon=True)
            reader.start()
            time.sleep(0.3)
            yield client
            connection.shutdown(socket.SHUT_RDWR)
            reader.join(5)


def wait(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Until the condition holds; TimeoutError when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waited in vain")
        time.sleep(0.002)


@contextlib.contextmanager
def daemon(
    vault: Path, home: Path, *, command: Sequence[str] = (), **variables: str
) -> Iterator[Process]:
    """A daemon for the vault, on a free port, offline; ended afterwards. `command`: what starts it
    otherwise, after the name of Python.
    """
    foreign = (
        "PARACHUTE_",
        "ANTHROPIC_",
        "CLAUDE_",
        "PYTHONDONTWRITEBYTECODE",
    )  # the last: a warm start finds its modules compiled
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    environment = {
        **kept,
        "PARACHUTE_HOME": str(home),
        "HOME": str(home),
        "PARACHUTE_AGENT_BACKEND": "offline",
        **variables,
    }
    start = ("-m", "parachuted", "start", "--foreground", "--vault", str(vault), "--port", "0")
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *(command or start)], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        record: dict[str, object] | None = None
        while record is None:
            if process.poll() is not None:
                raise RuntimeError("the daemon did not start")
            time.sleep(0.002)
            record = running_daemon(str(home))
        span = time.perf_counter() - began
        yield Process(process, vault, home, str(record["host"]), int(str(record["port"])), span)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def temporary_home() -> Iterator[Path]:
    """A fresh machine-local home."""
    with tempfile.TemporaryDirectory(prefix="parachute-bench-") as folder:
        yield Path(folder)
