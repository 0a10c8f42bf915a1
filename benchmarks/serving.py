"""Serving: the API under load: listings, one note asked for by many, many listeners, many
writers.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from benchmarks.process import Process, daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.vaults import make_vault

_LISTENERS, _CHANGES = 200, 60
_WRITERS, _WRITES = 64, 8
_ASKERS, _ROUNDS, _ROUND_S = 16, 5, 2.0


def api(folder: Path) -> Iterator[Figure]:
    """All of it, on 10,000 notes of which 2,000 are context files."""
    vault = make_vault(folder / "api", 10_000, folder_size=5)
    note = vault / "Area00/project00000/one.md"
    note.write_text(
        "# One\n\n## Facts\n" + "- A line of some length about the garden.\n" * 18, "utf-8"
    )
    with temporary_home() as home, daemon(vault, home, PARACHUTE_BUBBLE_QUIET_S="60") as process:
        time.sleep(3)  # what a first start does in the background
        yield _listing(process, "/api/contexts/folders", 15)
        yield _throughput(process, f"/api/notes/{note.relative_to(vault)}", folder)
        yield _told_last(process, vault)
        yield from _written(process, vault)


def percentile(values: list[float], part: float) -> float:
    """The value below which that part of all values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def asked(port: int, path: str, clients: int, seconds: float) -> dict[str, list[float]]:
    """What clients in a process of their own saw."""
    spoken = json.dumps({"port": port, "path": path, "clients": clients, "seconds": seconds})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", spoken], check=True, capture_output=True
    )
    answer: dict[str, list[float]] = json.loads(done.stdout)
    if answer["refused"]:
        raise RuntimeError(f"{answer['refused']} answers to {path} were not 200")
    return answer


def _listing(process: Process, path: str, bound: float) -> Figure:
    spans = asked(process.port, path, 1, 3.0)["spans_ms"]
    return Figure(name=f"GET {path}, p95", value=percentile(spans, 0.95), unit="ms", bound=bound)


def _throughput(process: Process, path: str, folder: Path) -> Figure:
    """Rounds in turn, so that what else the machine does meets both alike."""
    connection = http.client.HTTPConnection("127.0.0.1", process.port)
    connection.request("GET", path, headers={"Accept": "application/json"})
    body = connection.getresponse().read()
    connection.close()
    (folder / "answer.json").write_bytes(body)
    rates: dict[int, list[float]] = {}
    with _bare(folder / "answer.json") as port:
        for _ in range(_ROUNDS):
            for where, what in ((port, "/"), (process.port, path)):
                rates.setdefault(where, []).append(
                    len(asked(where, what, _ASKERS, _ROUND_S)["spans_ms"]) / _ROUND_S
                )
    bare, ours = statistics.median(rates[port]), statistics.median(rates[process.port])
    note = (
        f"{ours:.0f} a second, {100 * ours / bare:.0f} % of a bare handler's {bare:.0f}, "
        f"{len(body)} bytes"
    )
    return Figure(
        name="GET of a note by 16 clients, time an answer",
        value=1e3 / ours,
        unit="ms",
        reference=1e3 / bare,
        bound=1 / 0.4,
        note=note,
    )


@contextlib.contextmanager
def _bare(answer: Path) -> Iterator[int]:
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare", str(answer)], stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None  # noqa: S101  for the types
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.wait(10)


def _told_last(process: Process, vault: Path) -> Figure:
    """From a save to the last of all listeners having its event."""
    note, spans = vault / "Area00/project00000/one.md", []
    text = note.read_bytes()
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(_LISTENERS):
            listener = stack.enter_context(socket.create_connection(("127.0.0.1", process.port)))
            listener.sendall(
                f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{process.port}\r\n\r\n".encode()
            )
            listener.setblocking(False)  # noqa: FBT003
            selector.register(listener, selectors.EVENT_READ)
        time.sleep(1)
        for number in range(_CHANGES):
            _drained(selector, seconds=0.05)
            began = time.perf_counter()
            temporary = note.with_name(".one.md.tmp")
            temporary.write_bytes(text + b"- %d\n" % number)
            temporary.replace(note)
            spans.append((_all_told(selector, b"one.md") - began) * 1e3)
    return Figure(
        name=f"one save, the last of {_LISTENERS} SSE clients told, p99",
        value=percentile(spans, 0.99),
        unit="ms",
        bound=30,
    )


def _drained(selector: selectors.BaseSelector, seconds: float) -> None:
    while events := selector.select(seconds):
        for key, _mask in events:
            key.fileobj.recv(1 << 16)  # type: ignore[union-attr]


def _all_told(selector: selectors.BaseSelector, mark: bytes) -> float:
    waiting = {key.fd for key in selector.get_map().values()}
    deadline = time.perf_counter() + 30
    while waiting and time.perf_counter() < deadline:
        for key, _mask in selector.select(0.5):
            if mark in key.fileobj.recv(1 << 16):  # type: ignore[union-attr]
                waiting.discard(key.fd)
    if waiting:
        raise TimeoutError(f"{len(waiting)} listeners were told nothing")
    return time.perf_counter()


def _written(process: Process, vault: Path) -> Iterator[Figure]:
    notes = [f"Area01/project00001/write-{number}.md" for number in range(_WRITERS)]
    for note in notes:
        (vault / note).write_text("# Written\n\n## Facts\n", "utf-8")
    wait(lambda: _exists(process, notes[-1]), 20)
    for name, targets in (("64 notes", notes), ("one note", notes[:1] * _WRITERS)):
        spans, failed = asyncio.run(_append(process.port, targets))
        lost = sum(
            f"- {name} {writer} {number}\n" not in (vault / targets[writer]).read_text("utf-8")
            for writer in range(_WRITERS)
            for number in range(_WRITES)
        )
        yield Figure(
            name=f"64 clients writing to {name}, p99",
            value=percentile(spans, 0.99),
            unit="ms",
            bound=500,
        )
        yield Figure(
            name=f"64 clients writing to {name}, errors and lost lines",
            value=failed + lost,
            unit="",
            bound=0,
        )


def _exists(process: Process, note: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", process.port)
    try:
        connection.request("GET", f"/api/notes/{note}")
        return connection.getresponse().status == http.HTTPStatus.OK
    finally:
        connection.close()


async def _append(port: int, targets: list[str]) -> tuple[list[float], int]:
    name = "64 notes" if len(set(targets)) > 1 else "one note"
    spans: list[float] = []
    failed = 0

    async def write(session: aiohttp.ClientSession, writer: int) -> None:
        nonlocal failed
        for number in range(_WRITES):
            body = {"section": "Facts", "content": f"- {name} {writer} {number}", "mode": "append"}
            began = time.perf_counter()
            async with session.patch(
                f"http://127.0.0.1:{port}/api/notes/{targets[writer]}", json=body
            ) as answer:
                failed += answer.status != http.HTTPStatus.OK
            spans.append((time.perf_counter() - began) * 1e3)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(write(session, writer) for writer in range(len(targets))))
    return spans, failed
