"""Held: when a path is looked at, by what was heard of it."""

from __future__ import annotations

import math

import pytest

from parachuted.events.watcher import Debouncer, DebounceTimes

PACE = DebounceTimes(new=0.1, gone=0.2, touched=0.3, open=2.0, burst=1.0, patience=10.0)


@pytest.fixture
def debouncer():
    return Debouncer(PACE)


@pytest.mark.parametrize(
    ("heard", "wait"),
    [("closed", PACE.new), ("open", PACE.open), ("gone", PACE.gone), ("touched", PACE.touched)],
)
def test_each_hint_holds_a_path_for_its_time(debouncer, heard, wait):
    assert (bool(debouncer), debouncer.next_due()) == (False, math.inf)
    debouncer.add("a.md", heard, 5.0)

    assert debouncer.next_due() == 5.0 + wait
    assert debouncer.pop(5.0 + wait - 0.01) == (set(), set())
    finished, others = ({"a.md"}, set()) if heard == "closed" else (set(), {"a.md"})
    assert debouncer.pop(5.0 + wait) == (finished, others)
    assert not debouncer


def test_a_file_that_is_opened_again_waits_for_its_writer(debouncer):
    debouncer.add("a.md", "closed", 0.0)
    debouncer.add("a.md", "open", 0.05)

    assert debouncer.next_due() == 0.05 + PACE.open
    assert debouncer.pop(3.0) == (set(), {"a.md"})


def test_a_file_that_is_closed_is_looked_at_soon(debouncer):
    debouncer.add("a.md", "open", 0.0)
    debouncer.add("a.md", "closed", 0.5)

    assert debouncer.pop(0.6) == ({"a.md"}, set())


def test_a_file_that_is_closed_again_and_again_is_looked_at_after_a_burst(debouncer):
    for turn in range(40):
        debouncer.add("a.md", "closed", turn * 0.05)

    assert debouncer.next_due() <= PACE.burst + 1.0
    assert debouncer.pop(PACE.burst + 1.0)[0] == {"a.md"}


def test_a_file_that_is_always_written_is_finished_when_patience_ends(debouncer):
    for second in range(11):
        debouncer.add("log.md", "open", float(second))
    assert debouncer.pop(9.9) == (set(), set())
    assert debouncer.pop(10.0) == ({"log.md"}, set())
    debouncer.add("log.md", "open", 10.5)
    debouncer.scanned(["log.md"], 11.0)
    debouncer.add("log.md", "open", 11.5)

    assert debouncer.next_due() == 11.5 + PACE.open


def test_what_was_heard_during_a_look_outlives_it(debouncer):
    debouncer.add("a.md", "closed", 0.0)
    debouncer.pop(1.0)
    debouncer.add("a.md", "closed", 1.0)
    debouncer.scanned(["a.md"], 1.1)

    assert debouncer.pop(2.0) == ({"a.md"}, set())


def test_what_is_unsettled_is_looked_at_again(debouncer):
    debouncer.again("a.md", 1.0)

    assert debouncer.pop(1.0 + PACE.touched) == (set(), {"a.md"})


def test_it_is_known_who_writes_since_when(debouncer):
    debouncer.add("a.md", "open", 1.0)
    assert debouncer.is_written_since("a.md", 1.0)
    assert not debouncer.is_written_since("a.md", 1.1)
    assert not debouncer.is_written_since("b.md", 0.0)
    debouncer.add("a.md", "closed", 1.2)

    assert not debouncer.is_written_since("a.md", 1.0)


def test_a_path_is_gone_once_it_was_missing_for_long_enough(debouncer):
    assert not debouncer.is_gone("a.md", 0.0, may_have_moved=False)
    assert not debouncer.is_gone("a.md", PACE.gone / 2, may_have_moved=False)
    assert debouncer.is_gone("a.md", PACE.gone, may_have_moved=False)


def test_the_hint_that_it_went_counts_as_the_first_look(debouncer):
    debouncer.add("a.md", "gone", 0.0)

    assert debouncer.missing == ("a.md",)
    assert debouncer.is_gone("a.md", PACE.gone, may_have_moved=False)


@pytest.mark.parametrize("heard", ["closed", "open"])
def test_a_path_that_is_written_or_was_found_is_not_missing(debouncer, heard):
    debouncer.add("a.md", "gone", 0.0)
    debouncer.add("b.md", "gone", 0.0)
    debouncer.add("a.md", heard, 0.1)
    debouncer.found(["b.md", "c.md"])

    assert debouncer.missing == ()
    assert not debouncer.is_gone("a.md", PACE.gone, may_have_moved=False)


def test_a_path_that_may_have_moved_is_waited_for_longer_but_not_for_ever(debouncer):
    debouncer.add("a.md", "gone", 0.0)

    assert not debouncer.is_gone("a.md", PACE.gone, may_have_moved=True)
    assert debouncer.is_gone("a.md", PACE.burst, may_have_moved=True)


def test_a_storm_of_deletions_is_waited_out(debouncer):
    for number in range(30):
        debouncer.add(f"{number}.md", "gone", number * 0.02)
    end = 29 * 0.02

    assert not debouncer.is_gone("0.md", end + 0.1, may_have_moved=False)
    assert debouncer.is_gone("0.md", end + PACE.gone, may_have_moved=False)


def test_a_storm_that_does_not_end_is_not_waited_out(debouncer):
    for number in range(300):
        debouncer.add(f"{number}.md", "gone", number * 0.02)

    assert debouncer.is_gone("0.md", 6.0, may_have_moved=False)
    assert not debouncer.is_gone("299.md", 6.0, may_have_moved=False)


def test_what_waits_and_is_not_missing_is_listed(debouncer):
    debouncer.add("new.md", "closed", 0.0)
    debouncer.add("gone.md", "gone", 0.0)

    assert list(debouncer.waiting()) == ["new.md"]


def test_nothing_is_remembered_of_what_was_looked_at(debouncer):
    for number in range(100):
        debouncer.add(f"{number}.md", ("closed", "open", "touched")[number % 3], 0.0)
    finished, others = debouncer.pop(100.0)
    debouncer.scanned(finished | others, 100.0)

    held = ("_due", "_since", "_closed", "_written", "_missing")
    assert not any(getattr(debouncer, name) for name in held)
