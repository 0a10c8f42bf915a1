"""Curator run: in which session the next run of a watcher goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.access.origin import Taint
from parachuted.agents import RunResult
from parachuted.history.run_account import RunAccount
from parachuted.runs.curator_run import CuratorSessions
from parachuted.state import StateStore, open_state
from parachuted.tasks import Task

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateStore]:
    state = open_state(tmp_path / "state.journal")
    yield state
    state.close()


def account(session: str | None) -> RunAccount:
    """Of a run of w.md that told of this session."""
    task = Task(
        id="t-1",
        watcher="w.md",
        state="running",
        causes=("c1",),
        parents=(),
        first_at=NOON,
        last_at=NOON,
        due_at=NOON,
        run="r-1",
    )
    cost = RunResult(cost_usd=0, input_tokens=0, output_tokens=0, turns=1, session_id=session)
    return RunAccount(
        task=task,
        backend="scripted",
        model=None,
        started=NOON,
        changes=(),
        prompt="",
        system_prompt="",
        written=(),
        cost=cost,
    )


def read(*origins: str) -> Taint:
    taint = Taint()
    for origin in origins:
        taint.read("a.md", origin)
    return taint


def test_a_session_goes_on_with_the_same_backend_until_it_is_long(state: StateStore):
    sessions = CuratorSessions(state, None, "scripted")
    for _ in range(19):
        sessions.keep(account("s-1"), read())
    assert sessions.get("w.md") == "s-1"
    assert CuratorSessions(state, None, "claude").get("w.md") is None
    sessions.keep(account("s-1"), read())
    assert sessions.get("w.md") is None


@pytest.mark.parametrize(
    ("taint", "left"), [(read(), "s-1"), (read("you"), "s-1"), (read("imported"), None)]
)
def test_a_run_cut_short_loses_its_session_only_after_it_read_a_strangers_text(
    state: StateStore, taint: Taint, left: str | None
):
    sessions = CuratorSessions(state, None, "scripted")
    sessions.keep(account("s-1"), read())
    sessions.drop("w.md", taint)

    assert sessions.get("w.md") == left
