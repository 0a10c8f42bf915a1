"""A task of a run, as tests need one."""

from __future__ import annotations

from datetime import UTC, datetime

from parachuted.tasks import Task

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def make_task(watcher: str = "w.md") -> Task:
    return Task(
        id="t-1",
        watcher=watcher,
        state="running",
        causes=("c1",),
        parents=(),
        first_at=NOON,
        last_at=NOON,
        due_at=NOON,
        run="r-1",
    )
