"""Budget: runs are counted in the history, by time and by cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from parachuted.state import StateStore
from parachuted.tasks import Budget, RunCountLimits, Task
from parachuted.vault import WriteJournal
from tests.tasks.conftest import NOON, at

LIMITS = RunCountLimits(runs_per_hour=2, runs_per_day=4, runs_per_cause=2)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[WriteJournal]:
    history = WriteJournal(tmp_path / "history.db")
    yield history
    history.close()


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(history: WriteJournal, state: StateStore, clock: Clock) -> Budget:
    return Budget(LIMITS, history, state, clock)


def ran(history: WriteJournal, run: str, started: datetime, *causes: str) -> None:
    history.save_run(
        run, started=started, watcher="x", outcome="changed", causes=causes, document={"id": run}
    )


def task(run: str | None, *causes: str) -> Task:
    return Task(
        id=f"t-{run}",
        watcher="x",
        state="running",
        causes=causes,
        parents=(),
        first_at=NOON,
        last_at=NOON,
        due_at=NOON,
        run=run,
    )


def test_an_hour_has_so_many_runs_and_the_next_has_room_again(
    budget: Budget, history: WriteJournal, clock: Clock
):
    for number in range(2):
        ran(history, f"r{number}", NOON)

    clock.now = at(3599)
    exceeded = budget.exceeded()
    assert exceeded is not None
    assert str(exceeded) == "the budget of 2 runs per hour is used up"
    clock.now = at(3601)
    assert budget.exceeded() is None


def test_a_day_has_so_many_runs(budget: Budget, history: WriteJournal, clock: Clock):
    for number in range(4):
        ran(history, f"r{number}", NOON + timedelta(hours=2 * number))

    clock.now = NOON + timedelta(hours=9)
    exceeded = budget.exceeded()
    assert exceeded is not None
    assert exceeded.budget == "runs_per_day"
    clock.now = NOON + timedelta(hours=24, seconds=1)
    assert budget.exceeded() is None


def test_runs_that_have_started_and_are_not_in_the_history_yet_count_once(
    budget: Budget, history: WriteJournal
):
    ran(history, "r1", NOON)

    assert budget.exceeded([task("r1")]) is None
    assert budget.exceeded([task("r1"), task("r2")]) is not None


def test_runs_that_a_clock_set_ahead_counted_do_not_count_for_ever(
    budget: Budget, history: WriteJournal
):
    for number in range(9):
        ran(history, f"r{number}", NOON + timedelta(days=3000))

    assert budget.exceeded() is None


def test_a_cause_has_so_many_runs_with_those_that_have_just_started(
    budget: Budget, history: WriteJournal
):
    for _ in range(5):  # recorded again, it counts once
        ran(history, "r1", NOON, "c1", "c2")
    assert budget.counts().runs_last_hour == 1
    assert budget.causes_left(task(None, "c1"), [task("r1", "c1")]) == ("c1",)
    assert budget.causes_left(task(None, "c1"), [task("r2", "c1")]) == ()
    ran(history, "r2", NOON, "c1")

    assert budget.causes_left(task(None, "c1", "c2", "c3")) == ("c2", "c3")
    assert str(budget.cause_exceeded()) == "the budget of 2 runs per cause is used up"


def test_a_place_that_is_taken_counts_once_with_its_run(budget: Budget, history: WriteJournal):
    for name in ("r1", "r2"):
        budget.reserve(task(name, "c1"))
    assert str(budget.exceeded()) == "the budget of 2 runs per hour is used up"
    assert budget.causes_left(task(None, "c1"), [task("r1", "c1")]) == ()
    ran(history, "r1", NOON, "c1")
    assert budget.exceeded() is not None
    budget.give_back(task("r2"))
    assert budget.exceeded() is None


def test_a_wall_clock_that_jumps_a_day_makes_no_room_for_more_runs(
    budget: Budget, history: WriteJournal, state: StateStore, clock: Clock
):
    for number, jump in enumerate((timedelta(hours=25), -timedelta(hours=25))):
        budget.reserve(task(f"r{number}"))
        ran(history, f"r{number}", clock.now + jump)  # the history has the wall clock's time
        budget.give_back(task(f"r{number}"))
        clock.now += timedelta(minutes=1)
        assert Budget(LIMITS, history, state, clock).counts().runs_last_hour == number + 1

    assert budget.exceeded() is not None
    clock.now += timedelta(hours=1)
    assert budget.exceeded() is None


def test_a_run_that_did_not_begin_leaves_its_place_and_few_starts_are_kept(
    budget: Budget, history: WriteJournal, state: StateStore, clock: Clock
):
    budget.reserve(task("r1"))
    budget.give_back(task("r1"))
    assert Budget(LIMITS, history, state, clock).counts().runs_last_hour == 0
    for number in range(50):
        budget.reserve(task(f"r{number}"))
        clock.now += timedelta(hours=6)
    assert len(state.table("run_starts").items()) <= 9


def test_a_run_that_another_budget_pays_takes_no_place_here(
    budget: Budget, history: WriteJournal, state: StateStore, clock: Clock
):
    for number in range(9):
        budget.leave_out(task(f"r{number}"))
        ran(history, f"r{number}", NOON)

    assert budget.exceeded() is None
    assert (budget.counts().runs_last_hour, budget.counts().runs_last_day) == (0, 0)
    assert Budget(LIMITS, history, state, clock).exceeded() is None
