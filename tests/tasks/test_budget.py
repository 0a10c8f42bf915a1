"""Budget: runs are counted in the history, by time and by cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from parachuted.tasks import Budget, Limits, Task
from parachuted.vault import History
from tests.tasks.conftest import NOON, at

LIMITS = Limits(runs_per_hour=2, runs_per_day=4, runs_per_cause=2)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.db")
    yield history
    history.close()


@pytest.fixture
def budget(history: History) -> Budget:
    return Budget(LIMITS, history)


def ran(history: History, run: str, started: datetime, *causes: str) -> None:
    history.save_run(run, started=started, watcher="x", outcome="changed", causes=causes, document={"id": run})


def task(run: str | None, *causes: str) -> Task:
    return Task(
        id=f"t-{run}", watcher="x", state="running", causes=causes, parents=(), first_at=NOON, last_at=NOON, due_at=NOON, run=run
    )  # fmt: skip


def test_a_fresh_budget_has_room(budget: Budget):
    assert budget.exceeded(NOON) is None
    assert budget.used(NOON) == {"runs_last_hour": 0, "runs_last_day": 0}


def test_an_hour_has_so_many_runs_and_the_next_has_room_again(budget: Budget, history: History):
    for number in range(2):
        ran(history, f"r{number}", NOON)

    exceeded = budget.exceeded(at(3599))
    assert exceeded is not None
    assert str(exceeded) == "the budget of 2 runs per hour is used up"
    assert budget.exceeded(at(3601)) is None


def test_a_day_has_so_many_runs(budget: Budget, history: History):
    for number in range(4):
        ran(history, f"r{number}", NOON + timedelta(hours=2 * number))

    exceeded = budget.exceeded(NOON + timedelta(hours=9))
    assert exceeded is not None
    assert exceeded.budget == "runs_per_day"
    assert budget.exceeded(NOON + timedelta(hours=24, seconds=1)) is None


def test_runs_that_have_begun_and_are_not_in_the_history_yet_count_once(budget: Budget, history: History):
    ran(history, "r1", NOON)

    assert budget.exceeded(NOON, [task("r1")]) is None
    assert budget.exceeded(NOON, [task("r1"), task("r2")]) is not None


def test_runs_that_a_clock_set_ahead_counted_do_not_count_for_ever(budget: Budget, history: History):
    for number in range(9):
        ran(history, f"r{number}", NOON + timedelta(days=3000))

    assert budget.exceeded(NOON) is None


def test_a_cause_has_so_many_runs(budget: Budget, history: History):
    ran(history, "r1", NOON, "c1", "c2")
    ran(history, "r2", NOON, "c1")

    assert budget.causes_left(task(None, "c1", "c2", "c3")) == ("c2", "c3")
    assert str(budget.cause_exceeded()) == "the budget of 2 runs per cause is used up"


def test_a_cause_counts_runs_that_have_just_begun_too(budget: Budget, history: History):
    ran(history, "r1", NOON, "c1")

    assert budget.causes_left(task(None, "c1"), [task("r1", "c1")]) == ("c1",)
    assert budget.causes_left(task(None, "c1"), [task("r2", "c1")]) == ()


def test_a_run_that_is_recorded_again_counts_once(budget: Budget, history: History):
    for _ in range(5):
        ran(history, "r1", NOON, "c1")

    assert budget.used(NOON)["runs_last_hour"] == 1
    assert budget.causes_left(task(None, "c1")) == ("c1",)


def test_a_place_that_is_taken_counts_until_its_run_is_in_the_history_and_then_once(budget: Budget, history: History):
    for name in ("r1", "r2"):
        budget.take(task(name, "c1"))
    assert str(budget.exceeded(NOON)) == "the budget of 2 runs per hour is used up"
    assert budget.causes_left(task(None, "c1"), [task("r1", "c1")]) == ()
    ran(history, "r1", NOON, "c1")
    assert budget.exceeded(NOON) is not None
    budget.give_back(task("r2"))
    assert budget.exceeded(NOON) is None
