"""Causes: each wakes a watcher once, also after a restart, and old ones are let go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.errors import StorageFailedError
from parachuted.state import StateStore, open_state
from parachuted.state.journal import JournalDisk
from parachuted.tasks import Cause, Causes
from parachuted.tasks import queue as causes_module
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
    refusing = False

    def write(descriptor: int, data: bytes) -> int:
        if refusing:
            raise OSError(28, "No space left on device")
        return JournalDisk().write(descriptor, data)

    causes = Causes(open_state(tmp_path / "state.journal", disk=JournalDisk(write=write)))
    causes.open(CAUSE)
    refusing = True
    with pytest.raises(StorageFailedError):
        causes.wake("x", ["c1"])

    assert causes.that_may_wake("x", ["c1"]) == ("c1",)


def test_waking_costs_the_same_however_many_a_cause_has_woken(causes: Causes, journal: Path):
    causes.open(CAUSE)
    sizes = []
    for number in range(400):
        causes.wake(f"watcher {number:04}", ["c1"])
        sizes.append(journal.stat().st_size)

    assert sizes[399] - sizes[398] == sizes[1] - sizes[0]
