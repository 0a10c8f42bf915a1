"""Inbox: a module's events, in order, bounded, and each its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from parachuted.access.caller import Caller, WorkChain
from parachuted.access.events import EventFilter
from parachuted.access.grant import grant_of
from parachuted.events import CATALOG, Event
from parachuted.modules.declare import EventMark
from parachuted.modules.hosting.event_publisher import MOST_WAITING, Inbox
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.registry.declaration import ModuleDeclaration
from tests.modules.small_modules import until

ALL = EventFilter.of_module("daily", grant_of(["**"]), has_others=True)


class RecordingModule:
    """A module that remembers what it was told, and with which cause."""

    def __init__(self) -> None:
        self.name = "daily"
        self.declared = ModuleDeclaration(name="daily", version="1.0.0", prefix="/api/daily")
        self.reported: list[tuple[str, Mapping[str, object]]] = []
        self.causes: list[tuple[str, ...]] = []
        self.runs: list[str | None] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.most, self.now = 0, 0

    async def tell(self, call: HandlerCall) -> None:
        data = call.arguments
        self.now += 1
        self.most = max(self.most, self.now)
        self.reported.append((call.handler, data))
        self.causes.append(call.caller.causes)
        self.runs.append(call.caller.chain.run)
        await asyncio.wait_for(self.hold.wait(), call.timeout_s)
        self.now -= 1
        if data.get("path") == "bug.md":
            raise RuntimeError("a way of running that breaks the contract")


def inbox(hears: RecordingModule, *specs: EventMark, listens: EventFilter = ALL) -> Inbox:
    hears.declared = replace(hears.declared, events=specs)
    return Inbox(cast("ModuleHost", hears), listens)


def event(path: str, name: str = "file.modified", **data: object) -> Event:
    return Event(
        id=1,
        kind=CATALOG[name],
        timestamp=datetime(2026, 1, 5, tzinfo=UTC),
        data={"path": path, **data},
    )


@contextlib.asynccontextmanager
async def telling(one: Inbox) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(one.run())
        yield
        task.cancel()


IN_ORDER = EventMark(event="file.modified", handler="changed", is_async=False)
BESIDE = EventMark(event="file.modified", handler="changed", is_async=True)


async def test_all_is_reported_in_order_and_of_too_many_the_oldest_are_dropped():
    hears = RecordingModule()
    one = inbox(hears, IN_ORDER)
    for number in range(MOST_WAITING + 5):
        one.put(event(f"{number}.md"), Caller())

    async with telling(one):
        await until(lambda: len(hears.reported) == MOST_WAITING)

    assert one.dropped == 5
    reported = [data["path"] for _, data in hears.reported]
    assert reported == [f"{number}.md" for number in range(5, MOST_WAITING + 5)]


async def test_handlers_beside_each_other_are_not_more_than_a_few():
    hears = RecordingModule()
    hears.hold.clear()
    one = inbox(hears, BESIDE)
    for number in range(30):
        one.put(event(f"{number}.md"), Caller())

    async with telling(one):
        await until(lambda: len(hears.reported) == 8)
        await asyncio.sleep(0.02)
        assert len(hears.reported) == 8
        hears.hold.set()
        await until(lambda: len(hears.reported) == 30)

    assert hears.most == 8


async def test_an_events_causes_and_run_are_carried_on_with_a_copy_of_its_data():
    hears = RecordingModule()
    one = inbox(hears, IN_ORDER, BESIDE)
    reported = event("a.md", causes=["c1", "c2"], run="r1")
    one.put(reported, Caller(causes=("c1", "c2"), chain=WorkChain(run="r1")))

    async with telling(one):
        await until(lambda: len(hears.causes) == 2)

    assert hears.causes == [("c1", "c2"), ("c1", "c2")]
    assert hears.runs == ["r1", "r1"]  # an undo of that run takes back what follows from it
    for _handler, data in hears.reported:
        assert data == reported.data
        assert data["causes"] is not reported.data["causes"]


async def test_a_file_that_moves_in_is_reported_to_who_hears_of_new_ones():
    hears = RecordingModule()
    one = inbox(
        hears,
        EventMark(event="file.created", handler="made"),
        listens=EventFilter.of_module("daily", grant_of(["Daily/**"]), has_others=False),
    )
    assert one.events == {"file.created", "file.moved"}

    one.put(event("Daily/a.md", "file.moved", **{"from": "Private/a.md"}), Caller())
    one.put(event("Daily/a.md", "file.moved", **{"from": "Daily/b.md"}), Caller())
    one.put(event("Private/a.md", "file.created"), Caller())
    async with telling(one):
        await until(lambda: hears.reported)

    assert [(handler, data["path"]) for handler, data in hears.reported] == [("made", "Daily/a.md")]


async def test_a_host_that_breaks_ends_neither_the_inbox_nor_the_daemon():
    hears = RecordingModule()
    one = inbox(hears, BESIDE)
    one.put(event("bug.md"), Caller())
    one.put(event("fine.md"), Caller())

    async with telling(one):
        await until(lambda: len(hears.reported) == 2)
