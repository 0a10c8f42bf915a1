"""Sync: what a device polls, asked of a vault of 10,000 notes in 2,000 folders with a context file
each.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import Process, daemon, temporary_home
from benchmarks.report import Figure
from benchmarks.serving import percentile
from benchmarks.vaults import make_vault

_BOUND_MS = 400  # made from the index at each call
_ASKED = 200
_CHANGES = 60


def sync(folder: Path) -> Iterator[Figure]:
    """Manifest and changes, with nothing changed; then with a change between any two; then in five
    times the vault.
    """
    vault = make_vault(folder / "sync", 10_000, folder_size=5)
    with temporary_home() as home, daemon(vault, home, PARACHUTE_BUBBLE_QUIET_S="60") as process:
        time.sleep(3)  # what a first start does in the background
        changes = _changes()
        yield _polled(process, "/api/sync/manifest", "manifest, 10,000 notes")
        yield _polled(process, "/api/sync/manifest?root=Area00", "manifest, 500 notes of 10,000")
        yield _polled(process, changes, "changes, nothing changed")
        for path, name in (("/api/sync/manifest", "manifest, 10,000 notes"), (changes, "changes")):
            yield _figure(
                f"{name} after a change",
                [_after_a_change(process, vault, path, number) for number in range(_CHANGES)],
            )
    large = make_vault(folder / "sync-large", 50_000, folder_size=25)
    with temporary_home() as home, daemon(large, home, PARACHUTE_BUBBLE_QUIET_S="60") as process:
        time.sleep(3)
        yield _polled(process, _changes(), "changes, nothing changed, 50,000 notes")
        yield _polled(
            process, "/api/sync/manifest?root=Area00/project00000", "manifest, 25 notes of 50,000"
        )


def _changes() -> str:
    """Asks for what changed from now on."""
    return f"/api/sync/changes?since={time.time() + 1:.0f}"


def _polled(process: Process, path: str, name: str) -> Figure:
    connection = http.client.HTTPConnection("127.0.0.1", process.port)
    spans = [_asked(connection, path) for _ in range(_ASKED)]
    connection.close()
    return _figure(name, spans)


def _figure(name: str, spans: list[float]) -> Figure:
    note = f"p50 {percentile(spans, 0.5):.1f} ms"
    return Figure(
        name=f"GET /api/sync/{name}, p95",
        value=percentile(spans, 0.95),
        unit="ms",
        bound=_BOUND_MS,
        note=note,
    )


def _asked(connection: http.client.HTTPConnection, path: str) -> float:
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path} was answered with {answer.status}")
    return (time.perf_counter() - began) * 1e3


def _after_a_change(process: Process, vault: Path, path: str, number: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", process.port)
    note = f"Area00/project00000/note-{number % 3 + 1:06d}.md"
    body = json.dumps({"path": note, "content": f"# Note {number}\n"})
    connection.request("PUT", "/api/write", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != http.client.OK or not (vault / note).exists():
        raise RuntimeError(f"{note} could not be written: {answer.status}")
    span = _asked(connection, path)
    connection.close()
    return span
