"""The events of sessions of conversation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from parachuted.agents import PermissionStep
from parachuted.events import Bus
from parachuted.runs.session_events import SessionEvents

NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)


def heard(idle_s: float) -> tuple[SessionEvents, asyncio.Queue]:
    bus, events = Bus(lambda: NOON), asyncio.Queue()
    bus.subscribe_to_batches(lambda some: [events.put_nowait(one) for one in some])
    return SessionEvents(bus, lambda: NOON, idle_s), events


async def test_a_session_in_which_nothing_is_said_for_long_ends_once():
    sessions, events = heard(0.01)
    sessions.ended_turn("s1", "r1", NOON)

    async with asyncio.timeout(20):
        ended = await events.get()
    assert (ended.event, ended.data["session_id"]) == ("session.end", "s1")
    assert sessions.start_of("s1") == "resume"
    sessions.close("r1")
    assert events.empty()


async def test_a_turn_that_goes_on_longer_than_that_does_not_end_its_session():
    sessions, events = heard(0.01)
    sessions.ended_turn("s1", "r1", NOON)
    assert sessions.start_of("s1") is None
    sessions.ended_turn("s2", "r2", NOON)

    async with asyncio.timeout(20):
        ended = await events.get()
    assert ended.data["session_id"] == "s2"
    assert sessions.start_of("s1") is None


async def test_a_permission_is_asked_for_by_the_name_of_its_tool():
    sessions, events = heard(60)
    sessions.notify("s1", "chat", PermissionStep(id="p", tool="Bash", arguments={}, patterns=()))

    said = events.get_nowait().data
    assert said["notification_type"] == "permission_prompt"
    assert said["message"] == "chat needs your permission to use Bash"
