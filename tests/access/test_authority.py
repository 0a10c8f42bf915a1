"""Authority: what a piece of work may reach, what it follows from, and whose words it passes on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from parachuted.access.authority import NO_AUTHORITY, Authority, acting, current
from parachuted.errors import ActRefusedError
from parachuted.keys import AccessGrant, PathGlob

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def paths(*patterns: str) -> AccessGrant:
    return AccessGrant(alternatives=((tuple(map(PathGlob, patterns)),),))


def test_code_that_no_call_led_to_reaches_nothing():
    assert current() is NO_AUTHORITY
    assert not current().reads.sees("a.md")
    with pytest.raises(ActRefusedError, match="ask again"):
        current().check()


async def test_what_begins_inside_carries_it_on_for_as_long_as_it_lives():
    mine, go = Authority(causes=("c1",)), asyncio.Event()

    async def later() -> Authority:
        await go.wait()
        return current()

    async with asyncio.TaskGroup() as group:
        with acting(mine):
            task = group.create_task(later())
        assert current() is NO_AUTHORITY
        go.set()

    assert task.result() is mine


def test_narrowing_only_takes_away():
    narrow = Authority(reads=paths("Work/**"), writes=paths("Work/**")).narrowed(
        paths("**/plan.md"), paths("Work/a/**")
    )

    assert narrow.reads.sees("Work/plan.md")
    assert not narrow.reads.sees("Work/other.md")
    assert not narrow.reads.sees("Private/plan.md")
    assert not narrow.writes.sees("Work/plan.md")
    assert Authority().narrowed(paths("a.md"), paths("b.md")).reads == paths("a.md")
    assert narrow.is_limited
    assert not Authority().is_limited


def test_a_fork_knows_what_was_read_and_reads_for_itself():
    first = Authority()
    first.taint.read("Inbox/a.md", "imported")
    fork = first.forked()
    fork.taint.read("Inbox/b.md", "web")

    assert list(fork.taint.sources) == ["Inbox/a.md", "Inbox/b.md"]
    assert list(first.taint.sources) == ["Inbox/a.md"]


def test_each_act_without_a_cause_begins_one_and_others_carry_theirs_on():
    assert Authority(causes=("c1",)).causes_at(NOON) == ("c1",)
    assert len({Authority().causes_at(NOON), Authority().causes_at(NOON)}) == 2


@pytest.mark.parametrize(
    ("asked_by", "own", "said", "read", "words"),
    [
        ("person", "agent", "you", None, "you"),
        ("person", "imported", "you", None, "you"),
        ("person", "agent", "agent", None, "agent"),
        ("person", "agent", "bot", None, "bot"),
        ("person", "agent", "you", "web", "web"),
        ("clock", "agent", "you", None, "agent"),
        ("event", "agent", "you", "imported", "imported"),
        ("event", "imported", "you", None, "imported"),
        ("module", "agent", "you", None, "agent"),
        ("module", "agent", "web", None, "web"),
    ],
)
def test_words_are_a_persons_only_where_a_person_asked_and_no_strangers_text_was_read(
    asked_by, own, said, read, words
):
    authority = Authority(asked_by=asked_by)
    if read is not None:
        authority.taint.read("Inbox/mail.md", read)

    assert authority.words(own, said) == words
