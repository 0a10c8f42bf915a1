"""Causes: each wakes a watcher once, also after a restart, and old ones are let go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.errors import StorageFailedError
from parachuted.state import StateStore, open_state
from parachuted.tasks import Cause, Causes
from parachuted.tasks import queue as causes_module
from tests.state.full_disk import fill_disk
from tests.tasks.conftest import at

CAUSE = Cause(id="c1", kind="change", path="a.md", files=2, at=at(0))


def test_a_cause_is_remembered_as_it_was_opened_first(causes: Causes):
    causes.open(CAUSE)
    causes.open(replace(CAUSE, path="b.md"))

    assert causes.get("c1") == CAUSE
    assert causes.get("c2") is None


def test_a_cause_wakes_each_watcher_once(
    causes: Causes,
):
    causes.open(CAUSE)
    causes.wake("x", ["c1", "lost"])

    assert causes.that_may_wake("x", ["c1", "c2", "lost"]) == ("c2",)
    assert causes.that_may_wake("y", ["c1", "c2"]) == ("c1", "c2")
    causes.rename("x", "y")
    assert causes.that_may_wake("y", ["c1", "c2"]) == ("c2",)


def test_whom_a_cause_woke_is_known_after_a_restart(
    state: StateStore, causes: Causes, journal: Path
):
    causes.open(CAUSE)
    causes.wake("x", ["c1", "lost"])
    state.close()

    again = Causes(open_state(journal))

    assert again.get("c1") == CAUSE
    assert again.that_may_wake("x", ["c1", "lost"]) == ()


def test_old_causes_are_forgotten_but_not_those_that_a_task_carries(
    causes: Causes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(causes_module, "_REMEMBERED", 3)
    for number in range(5):
        causes.open(replace(CAUSE, id=f"c{number}"))
        causes.wake("x", [f"c{number}"])
    causes.forget_old(lambda: {"c0"})

    assert [number for number in range(5) if causes.get(f"c{number}")] == [0, 3, 4]
    assert causes.that_may_wake("x", ["c0", "c1", "c3"]) == ("c1",)


def test_no_more_is_forgotten_at_once_than_takes_a_moment(
    causes: Causes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(causes_module, "_REMEMBERED", 0)
    monkeypatch.setattr(causes_module, "_FORGOTTEN_AT_ONCE", 5)
    for number in range(3):
        causes.open(replace(CAUSE, id=f"c{number}"))
        for watcher in range(10):
            causes.wake(f"w{watcher}", [f"c{number}"])
    causes.forget_old(set)

    assert [causes.get(f"c{number}") is None for number in range(3)] == [True, False, False]


def test_waking_is_forgotten_when_the_disk_refuses_it(tmp_path: Path):
    state = open_state(tmp_path / "state.db")
    causes = Causes(state)
    causes.open(CAUSE)
    fill_disk(state, lambda: True)
    with pytest.raises(StorageFailedError):
        causes.wake("x", ["c1"])

    assert causes.that_may_wake("x", ["c1"]) == ("c1",)


def test_waking_costs_the_same_however_many_a_cause_has_woken(causes: Causes, state: StateStore):
    causes.open(CAUSE)
    rows = []
    for number in range(400):
        causes.wake(f"watcher {number:04}", ["c1"])
        with state.database.writer() as connection:
            rows.append(connection.total_changes)

    assert rows[399] - rows[398] == rows[1] - rows[0]
