"""Caller: what a piece of work may reach, what it follows from, and whose words it passes on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from parachuted.access.caller import NO_CALLER, Caller, acting, current
from parachuted.access.grant import CallerGrant
from parachuted.errors import ActRefusedError
from parachuted.keys import AccessGrant, PathGlob

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def paths(*patterns: str) -> AccessGrant:
    return AccessGrant(alternatives=((tuple(map(PathGlob, patterns)),),))


def test_code_that_no_call_led_to_reaches_nothing():
    assert current() is NO_CALLER
    assert not current().grant.reads.sees("a.md")
    with pytest.raises(ActRefusedError, match="ask again"):
        current().check()


async def test_what_begins_inside_carries_it_on_for_as_long_as_it_lives():
    mine, go = Caller(causes=("c1",)), asyncio.Event()

    async def later() -> Caller:
        await go.wait()
        return current()

    async with asyncio.TaskGroup() as group:
        with acting(mine):
            task = group.create_task(later())
        assert current() is NO_CALLER
        go.set()

    assert task.result() is mine


def test_narrowing_only_takes_away():
    work = CallerGrant(reads=paths("Work/**"), writes=paths("Work/**"))
    narrow = Caller(grant=work).restricted_to(CallerGrant(paths("**/plan.md"), paths("Work/a/**")))

    assert narrow.grant.reads.sees("Work/plan.md")
    assert not narrow.grant.reads.sees("Work/other.md")
    assert not narrow.grant.reads.sees("Private/plan.md")
    assert not narrow.grant.writes.sees("Work/plan.md")
    one = CallerGrant(paths("a.md"), paths("b.md"))
    assert Caller().restricted_to(one).grant == one
    assert narrow.grant.is_limited
    assert not Caller().grant.is_limited


def test_a_fork_knows_what_was_read_and_reads_for_itself():
    first = Caller()
    early = first.fork()
    early.taint.read("Inbox/a.md")
    assert not first.taint
    first.taint.read("Inbox/b.md")

    assert first.fork().taint


def test_each_act_without_a_cause_begins_one_and_others_carry_theirs_on():
    assert Caller(causes=("c1",)).causes_at(NOON) == ("c1",)
    assert len({Caller().causes_at(NOON), Caller().causes_at(NOON)}) == 2
