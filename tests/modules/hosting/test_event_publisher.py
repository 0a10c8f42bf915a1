"""Modules' events: under their own names, to who may hear them, in order, within what the author of
a write may touch, and without circles.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import cast

import pytest

from parachuted.access.caller import MOST_EVENTS, Caller, CurrentRun, WorkChain, WorkRequest
from parachuted.access.events import EventFilter
from parachuted.access.grant import CallerGrant, Grant, grant_of
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.errors import ActRefusedError
from parachuted.events import CATALOG, Bus, Event
from parachuted.events.fields import FieldKind
from parachuted.keys import EVERYWHERE, NOWHERE, Identity, parse_words
from parachuted.modules.declare import EventMark
from parachuted.modules.hosting.event_publisher import (
    MOST_BYTES,
    MOST_WAITING,
    AuthorReach,
    EventPublisher,
    Inbox,
)
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.registry.manifest import Manifest
from parachuted.vault import VaultPath
from tests.modules.module_rig import NOON, UNRECORDED
from tests.modules.small_modules import until


@pytest.fixture
def bus() -> Bus:
    return Bus(lambda: NOON)


@pytest.fixture
def publishing(bus: Bus) -> EventPublisher:
    return EventPublisher(bus, UNRECORDED)


def manifest(name: str, **publishes: Mapping[str, FieldKind]) -> Manifest:
    """Of a module that publishes these, `__` for a dot."""
    named = {event.replace("__", "."): fields for event, fields in publishes.items()}
    return Manifest(name=name, version="1.0.0", module="module.py", publishes=named)


KINDS = {"bed": FieldKind.ID, "text": FieldKind.TEXT}


def test_a_modules_events_are_those_of_its_manifest_while_it_is_there(bus, publishing):
    publishing.declare(manifest("garden", garden__bed__dug=KINDS))
    data = {"bed": "b1", "text": "hi", "causes": ["c1"]}
    publishing.publish("garden", "garden.bed.dug", data, Caller())
    publishing.publish("garden", "garden.bed.dug", {"bed": "b2"}, Caller())
    publishing.publish("daily", "daily.entry.created", {"entry_id": "e1"}, Caller())
    *_dug, event = bus.since(0)
    assert (event.event, event.data) == ("daily.entry.created", {"entry_id": "e1"})
    dug = bus.declared["garden.bed.dug"]
    assert dict(dug.fields) == {**KINDS, "causes": FieldKind.IDS}
    assert dug.publisher == "garden"

    publishing.withdraw("garden")

    assert bus.last_id == 3
    assert bus.declared == {}
    with pytest.raises(ActRefusedError, match="may not publish"):
        publishing.publish("garden", "garden.bed.dug", {"bed": "b3"}, Caller())
    with pytest.raises(ValueError, match="publisher"):
        publishing.declare(manifest("garden", brain__said={}))


@pytest.mark.parametrize(
    ("event", "data", "says"),
    [
        (
            "garden.said",
            {"words": "hello"},
            r"not publish garden\.said: name it below `publishes:`",
        ),
        ("garden.bed.dug", {"rows": 3}, r"has the fields bed: id, text: text, causes: ids; 'rows'"),
        (
            "daily.entry.created",
            {"mood": "good"},
            r"has the fields entry_id: id, .*; 'mood' is not",
        ),
        ("garden.bed.dug", {"text": "x" * MOST_BYTES}, "path of a note"),
    ],
)
def test_what_was_not_declared_is_refused_with_where_to_declare_it(
    bus, publishing, event, data, says
):
    publishing.declare(manifest("garden", garden__bed__dug=KINDS))

    with pytest.raises(ActRefusedError, match=says):
        publishing.publish(event.partition(".")[0], event, data, Caller())
    assert bus.last_id == 0


@pytest.mark.parametrize(
    "data",
    [
        {"bed": "see Private/diary.md"},
        {"notes": "Private/diary.md"},
        {"causes": "c1"},
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused_and_not_repeated(bus, publishing, data):
    kinds = {
        "bed": FieldKind.ID,
        "notes": FieldKind.PATHS,
    }
    publishing.declare(manifest("garden", garden__bed__dug=kinds))

    with pytest.raises(ActRefusedError, match="holds something else") as refused:
        publishing.publish("garden", "garden.bed.dug", data, Caller())

    assert "Private" not in str(refused.value)
    assert bus.last_id == 0


@pytest.mark.parametrize(
    ("module", "event"),
    [
        ("daily", "brain.mention.detected"),
        ("daily", "file.modified"),
        ("daily", "dailyx.entry"),
        ("daily", ""),
        ("file", "file.modified"),
    ],
)
def test_no_module_speaks_in_anothers_name(bus, publishing, module, event):
    with pytest.raises(ActRefusedError):
        publishing.publish(module, event, {}, Caller())

    assert bus.last_id == 0


class RecordingInbox:
    """An inbox for all events, which remembers who led to each."""

    def __init__(self, publishing: EventPublisher, *events: str) -> None:
        self.events, self.callers = events, list[Caller]()
        publishing.inboxes["daily"] = self

    def put(self, _event: Event, caller: Caller) -> None:
        self.callers.append(caller)


def test_what_follows_from_an_event_is_one_deeper_and_a_circle_ends(bus, publishing):
    publishing.declare(manifest("daily", daily__again={}))
    inbox = RecordingInbox(publishing, "daily.again")

    def answer(_event: Event) -> None:
        publishing.publish("daily", "daily.again", {}, inbox.callers[-1])

    bus.subscribe(answer)

    publishing.publish("daily", "daily.again", {}, Caller())

    assert [led_by.chain.events for led_by in inbox.callers] == list(range(1, MOST_EVENTS + 2))


@pytest.mark.parametrize("may_ask", [True, False])
def test_what_follows_from_an_event_outlasts_the_run_that_published_it(publishing, may_ask):
    of_run = Caller(
        chain=WorkChain(
            within=CurrentRun(
                grant=Grant(agent="a", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=NOWHERE),
                asker=Caller(request=WorkRequest(is_valid=lambda: may_ask)),
            )
        ),
        request=WorkRequest(is_valid=lambda: False),
    )
    inbox = RecordingInbox(publishing, "daily.entry.created")
    publishing.publish("daily", "daily.entry.created", {"entry_id": "e1"}, of_run)

    assert [led_by.request.is_valid() for led_by in inbox.callers] == [may_ask]


def test_the_event_of_a_modules_write_follows_from_what_led_to_it(bus, publishing):
    inbox = RecordingInbox(publishing, "file.modified")
    for events in (3, 0, 3):
        with publishing.writing(VaultPath("a.md"), Caller(chain=WorkChain(events=events))):
            bus.publish("file.modified", path="a.md", by="module:daily", causes=["c1"], run="r1")
        bus.publish("file.modified", path="a.md", by="module:daily", causes=["c1"], run="r1")
    for path, by in (("a.md", "person"), ("a.md", "module:daily/agent"), ("b.md", "module:daily")):
        bus.publish("file.modified", path=path, by=by, causes=["c1"], run="r1")

    assert [led_by.chain.events for led_by in inbox.callers] == [4, 4, 1, 1, 4, 4, 1, 1, 1]
    assert {(led_by.causes, led_by.chain.run) for led_by in inbox.callers} == {(("c1",), "r1")}


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

    async def call(self, call: HandlerCall) -> None:
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
        timestamp=NOON,
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


PHONE = Identity(
    kind="key",
    id="k_1",
    name="phone",
    scopes=(
        parse_words("vault:read", ["Daily/**"]),
        parse_words("vault:write", ["Daily/in/**"]),
        parse_words("garden:write", []),
    ),
)


def reach(*known: Identity, runs: ActiveRuns | None = None) -> AuthorReach:
    found = {one.id: one for one in known}
    return AuthorReach(found.get, lambda one: one.id in found, runs or ActiveRuns())


def of(
    one: AuthorReach, by: str = "person", key: str = "", run: str | None = None
) -> tuple[set[str], set[str]]:
    """Which of some paths can be read, and written."""
    limited = one.limited(Caller(), {"path": "new.md", "by": by, "key": key, "run": run})
    paths = ("new.md", "Daily/a.md", "Daily/in/a.md", "Garden/a.md", "b.md")
    return {path for path in paths if limited.grant.reads.sees(path)}, {
        path for path in paths if limited.grant.writes.sees(path)
    }


EVERYTHING = {"new.md", "Daily/a.md", "Daily/in/a.md", "Garden/a.md", "b.md"}
ALL_OF_IT = EVERYTHING, EVERYTHING
ITSELF = {"new.md"}, {"new.md"}


@pytest.mark.parametrize(
    ("known", "author", "reached"),
    [
        ([], {}, ALL_OF_IT),
        (
            [PHONE],
            {"key": "k_1"},
            ({"new.md", "Daily/a.md", "Daily/in/a.md"}, {"new.md", "Daily/in/a.md"}),
        ),
        ([PHONE], {"by": "module:garden", "key": "k_1"}, ALL_OF_IT),
        ([], {"key": "k_1"}, ITSELF),
        ([], {"by": "curator", "run": "r-9"}, ITSELF),
        *(
            ([], {"by": by, "run": "r-1"}, ALL_OF_IT)
            for by in ("module:daily", "undo", "restore", "suggestion:s1")
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_what_follows_from_a_write_reaches_what_its_author_may(known, author, reached):
    assert of(reach(*known), **author) == reached


def test_what_follows_ends_with_the_key():
    keys = {PHONE.id: PHONE}
    one = AuthorReach(keys.get, lambda identity: identity.id in keys, ActiveRuns())
    saved = one.limited(Caller(), {"path": "new.md", "by": "person"})
    assert (saved.grant.reads, saved.grant.writes) == (EVERYWHERE, EVERYWHERE)
    assert saved.request.key == ""
    limited = one.limited(Caller(), {"path": "new.md", "by": "person", "key": "k_1"})
    assert limited.request.is_valid()
    assert limited.request.key == "k_1"
    keys.clear()
    assert not limited.request.is_valid()


async def test_a_run_reaches_what_it_was_granted_also_when_it_is_over():
    runs = ActiveRuns()
    granted = CallerGrant(grant_of(["Daily/**"]), grant_of(["Garden/**"]))
    run = ActiveRun(run="r-1", agent="x", entry="bubble", since=NOON, reach=lambda: granted)

    async def work() -> None:
        assert of(reach(runs=runs), by="curator", run="r-1")[1] == {"new.md", "Garden/a.md"}

    await runs.perform(run, work())
    for by in ("curator", "agent:x", "module:daily/journal"):
        found = of(reach(runs=runs), by=by, run="r-1")
        assert found == ({"new.md", "Daily/a.md", "Daily/in/a.md"}, {"new.md", "Garden/a.md"})
