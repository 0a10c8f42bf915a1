"""A far side that is down is left alone, and tried again by one."""

from __future__ import annotations

from parachuted.agents.gateway.retry import Breaker


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        assert breaker.admits(0)
        breaker.failed(0)
    return breaker


def test_it_opens_after_five_failures_in_a_row_and_not_before():
    breaker = Breaker()
    for _ in range(10):
        for _ in range(4):
            breaker.failed(0)
        breaker.succeeded()
    assert not breaker.is_open
    assert opened().is_open


def test_while_open_no_one_asks_and_then_one_does():
    breaker = opened()
    assert not breaker.admits(14.9)
    assert breaker.seconds_left(10) == 5
    assert [breaker.admits(15), breaker.admits(15), breaker.admits(1000)] == [True, False, False]


def test_one_that_succeeds_closes_it_for_all():
    breaker = opened()
    assert breaker.admits(15)
    breaker.succeeded()
    assert (breaker.is_open, breaker.admits(15), breaker.admits(15)) == (False, True, True)


def test_one_that_fails_makes_the_wait_longer_up_to_five_minutes():
    breaker, now, waits = opened(), 0.0, []
    for _ in range(8):
        waits.append(breaker.seconds_left(now))
        now += waits[-1]
        assert breaker.admits(now)
        breaker.failed(now)
    assert waits == [15, 30, 60, 120, 240, 300, 300, 300]


def test_stragglers_of_before_do_not_make_the_wait_longer():
    breaker = opened()
    breaker.failed(10)
    assert breaker.seconds_left(10) == 5


def test_one_that_goes_away_leaves_its_turn_to_the_next():
    breaker = opened()
    assert breaker.admits(15)
    breaker.left()
    assert breaker.admits(15)
