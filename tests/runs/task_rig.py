"""A task of a run, and its hooks, as tests need them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from parachuted.access.origin import Taint
from parachuted.errors import NotFoundError
from parachuted.runs import AgentHooks, HookAsker, RunHooks
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


def make_hooks(
    asker: HookAsker | None = None,
    folder: Path = Path("/v"),
    publish: Callable[..., object] = lambda _event, /, **_data: None,
    **more: object,
) -> AgentHooks:
    """Those of a run in a vault of that folder, in which no file can be read."""

    def read(path: str) -> None:
        raise NotFoundError(f"{path} is not in the vault")

    store = SimpleNamespace(folder=folder, clock=lambda: NOON, read=read)
    shared = RunHooks(store, SimpleNamespace(publish=publish), asker)
    work = {"session_id": "r-1", "agent": "helper", "taint": Taint(), **more}
    return AgentHooks(shared=shared, **work)
