"""A process that says more than its share waits; one that does not never does."""

from __future__ import annotations

from parachuted.modules.hosting.framing import (
    MOST_SAVED,
    PER_SECOND,
    AnswerFrame,
    AskFrame,
    FrameBudget,
    cost_of,
)


def test_what_was_saved_is_spent_at_once_and_then_it_waits_for_each():
    budget = FrameBudget(100.0, per_second=10.0, most_saved=50.0)

    assert budget.spend(50.0, 100.0) == 0
    assert budget.spend(5.0, 100.0) == 0.5
    assert budget.spend(0.0, 100.5) == 0


def test_no_more_is_saved_than_the_most_however_long_it_was_silent():
    budget = FrameBudget(0.0, per_second=10.0, most_saved=50.0)
    budget.spend(50.0, 0.0)

    assert budget.spend(60.0, 1e9) == 1.0


def test_a_clock_that_goes_back_takes_nothing_away():
    budget = FrameBudget(100.0, per_second=10.0, most_saved=50.0)

    assert budget.spend(50.0, 0.0) == 0


def test_events_and_frames_that_take_long_to_read_cost_more():
    event = AskFrame(id=1, verb="publish", body={})

    assert (
        cost_of(event, 0.0)
        > cost_of(AskFrame(id=1, verb="read", body={}), 0.0)
        == cost_of(AnswerFrame(id=1), 0.0)
    )
    assert (
        cost_of(AnswerFrame(id=1), 0.25) > PER_SECOND
    )  # a quarter of a second of reading is a second's share


def test_a_module_that_is_called_often_is_not_slowed():
    budget = FrameBudget(0.0)

    assert (
        max(
            budget.spend(cost_of(AnswerFrame(id=1), 0.00003), second / 1000)
            for second in range(20_000)
        )
        == 0
    )
    assert MOST_SAVED > PER_SECOND
