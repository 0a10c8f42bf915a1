"""Brain's saves: an entry that is saved in an editor, until what it mentions is linked and its
words are found, with Daily and Brain in a real daemon; and the module's start over 10,000 entities.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.brain_vault import MadeNote, make_notes, write_notes
from benchmarks.process import Process, daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.serving import percentile

_ENTITIES, _DAYS, _SAVES = 1_000, 365, 30
_STARTS = 1


def brain_saves(folder: Path) -> Iterator[Figure]:
    """Both."""
    notes = make_notes(_ENTITIES, _DAYS)
    vault = write_notes(notes, folder / "vault")
    yield from _saving(vault, [note for note in notes if note.type == "person"])
    large = write_notes(make_notes(days=0), folder / "large")
    yield from _starting(large)


def _saving(vault: Path, people: list[MadeNote]) -> Iterator[Figure]:
    with temporary_home() as home, daemon(vault, home) as process:
        for name in ("brain", "daily"):
            install_official(process, name)
        _recalled(process, "warm")
        with process.client() as client:
            linked, found, reported = [], [], []
            for number in range(_SAVES):
                before = len(client.events)
                span = _save(process, people[number], number)
                linked.append(span[1] - span[0])
                found.append(span[2] - span[0])
                wait(lambda before=before: len(client.events) > before)  # type: ignore[misc]
                reported.append(client.events[before][0] - span[0])
    for name, spans, bound in (
        ("mentions are linked", linked, None),
        ("mentions are linked and words found", found, 150),
    ):
        milliseconds = [span * 1e3 for span in spans]
        p50 = percentile(milliseconds, 0.5)
        yield Figure(
            name=f"entry saved in an editor until {name}, p95",
            value=percentile(milliseconds, 0.95),
            unit="ms",
            bound=bound,
            note=f"p50 {p50:.0f} ms, {_SAVES} saves, {_ENTITIES:,} entities, {_DAYS} days",
        )
    yield Figure(
        name="the same against the event of the save alone, p50",
        value=statistics.median(found) * 1e3,
        unit="ms",
        reference=statistics.median(reported) * 1e3,
        bound=None,
    )


def _save(process: Process, person: MadeNote, number: int) -> tuple[float, float, float]:
    """When it was saved, linked and found."""
    word, day = f"zq{number}xw{number}", f"2026-{number // 28 + 1:02}-{number % 28 + 1:02}"
    path = process.vault / f"Daily/journals/{day}.md"
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(f"# Noon\n\nMet {person.name}, who spoke of {word}.\n")
    began = time.perf_counter()
    temporary.replace(path)
    wait(lambda: "mentions:" in path.read_text())
    linked = time.perf_counter()
    wait(lambda: _recalled(process, word))
    return began, linked, time.perf_counter()


def _starting(vault: Path) -> Iterator[Figure]:
    """Against reading the same files and splitting them into words, and nothing else."""
    built = [_started(vault) for _ in range(_STARTS)]
    bare = [_bare(vault) for _ in range(_STARTS)]
    yield Figure(
        name="Brain's start over 10,000 entities from cold, all of it",
        value=min(one["brain"] for one in built),
        unit="s",
        bound=None,
        reference=min(bare),
        note="processor time, against reading the files and splitting them into words",
    )
    yield Figure(
        name="the same: memory",
        value=statistics.median(one["mb"] for one in built),
        unit="MB",
        bound=80,
    )


def _started(vault: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.brain_start", str(vault)]
    done = subprocess.run(command, check=True, capture_output=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def _bare(vault: Path) -> float:
    began = time.process_time()
    for folder, _folders, names in os.walk(vault):
        for name in names:
            (Path(folder) / name).read_text("utf-8").lower().split()
    return time.process_time() - began


def install_official(process: Process, name: str) -> None:
    asked = {"source": f"parachute://{name}", "trust": "trusted"}
    shown = call_api(process, "/api/modules/install", asked)
    body = {"hash": shown["hash"], "trust": "trusted"}
    call_api(process, f"/api/modules/{name}/approve", body)


def _recalled(process: Process, word: str) -> bool:
    found = call_api(process, f"/api/brain/recall?query={urllib.parse.quote(word)}")
    return bool(found["matches"])


def call_api(
    process: Process, path: str, body: object = None, method: str | None = None
) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://{process.host}:{process.port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found
