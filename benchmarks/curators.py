"""Curators: what the daemon's memory is after 800 runs on notes as long as a person's, and whether
it still grows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import Client, Process, daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.vaults import make_text

_WATCHERS, _ROUNDS = 40, 20
_LARGEST = 100_000
_MANY_RUNS = "1000000"
_SETTLE_S = 5.0


def curators(folder: Path) -> Iterator[Figure]:
    """The offline agent, so that the daemon's own memory is all there is to see."""
    vault = folder / "vault"
    chance = random.Random(1)  # noqa: S311  generated text needs no secrecy
    notes = [_make_project(vault / f"project{number:02d}", chance) for number in range(_WATCHERS)]
    limits = {f"PARACHUTE_BUDGET_RUNS_PER_{span}": _MANY_RUNS for span in ("HOUR", "DAY")}
    with (
        temporary_home() as home,
        daemon(vault, home, PARACHUTE_BUBBLE_QUIET_S="0.1", **limits) as process,
        process.client() as client,
    ):
        time.sleep(_SETTLE_S)
        before, used = process.memory_mb(), []
        for number in range(_ROUNDS):
            _save_all(notes, number, chance)
            _await_runs(client, (number + 1) * _WATCHERS)
            used.append(process.memory_mb())
        half = used[_ROUNDS // 2]
        yield _memory(process, before, half)


def _memory(process: Process, before: float, half: float) -> Figure:
    time.sleep(_SETTLE_S)
    note = f"{before:.0f} MB before, {half:.0f} MB half-way"
    return Figure(
        name=f"memory after {_ROUNDS * _WATCHERS} curator runs",
        value=process.memory_mb(),
        unit="MB",
        bound=110,
        note=note,
    )


def _make_project(folder: Path, chance: random.Random) -> list[Path]:
    """A watching note and five that it watches, of 1 to 60 KB, most of them short."""
    folder.mkdir(parents=True)
    (folder / "AGENTS.md").write_text(
        '---\nwatch: ["./note-*.md"]\n---\n# Project\n\n## Current Focus\n- Nothing yet.\n\n## '
        "History\n",
        "utf-8",
    )
    notes = [folder / f"note-{number}.md" for number in range(5)]
    for note in notes:
        note.write_text(make_text(chance, int(_LARGEST ** chance.uniform(0.55, 1.0))), "utf-8")
    return notes


def _save_all(notes: list[list[Path]], number: int, chance: random.Random) -> None:
    for some in notes:
        note = chance.choice(some)
        temporary = note.with_name(f".{note.name}.tmp")
        temporary.write_text(
            note.read_text("utf-8").replace(
                "\n\n", f"\n\nDecision {number}: {chance.random()}.\n\n", 3
            ),
            "utf-8",
        )
        temporary.replace(note)


def _await_runs(client: Client, count: int) -> None:
    wait(lambda: sum(event["event"] == "run.finished" for _at, event in client.events) >= count)
