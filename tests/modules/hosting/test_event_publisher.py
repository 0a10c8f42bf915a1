"""Publishing: modules speak under their own names, and halt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parachuted.access.caller import MOST_EVENTS, Caller, CurrentRun, WorkChain, WorkRequest
from parachuted.access.grant import Grant
from parachuted.errors import ActRefusedError
from parachuted.events import Bus, Event
from parachuted.events.fields import FieldKind
from parachuted.keys import EVERYWHERE, NOWHERE
from parachuted.modules.hosting.event_publisher import MOST_BYTES, EventPublisher
from parachuted.modules.registry.manifest import Manifest
from parachuted.vault import VaultPath
from tests.modules.module_rig import UNRECORDED


@pytest.fixture
def bus() -> Bus:
    return Bus(lambda: datetime(2026, 1, 5, 12, 0, tzinfo=UTC))


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
        {"bed": {"Private/diary.md": 1}},
        {"note": ["Private/diary.md"]},
        {"note": "../x"},
        {"notes": "Private/diary.md"},
        {"notes": [{"path": "x.md"}]},
        {"rows": "three"},
        {"causes": "c1"},
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused_and_not_repeated(bus, publishing, data):
    kinds = {
        "bed": FieldKind.ID,
        "note": FieldKind.PATH,
        "notes": FieldKind.PATHS,
        "rows": FieldKind.NUMBER,
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
        ("daily", "daily"),
        ("daily", "Daily.entry"),
        ("daily", "daily.entry created"),
        ("daily", "daily.\n"),
        ("daily", ""),
        ("file", "file.modified"),
        ("session", "session.start"),
        ("write", "write.before"),
        ("module", "module.enabled"),
        ("vault", "vault.mine"),
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
        chain = inbox.callers[-1].chain
        chain = replace(chain, events=chain.events + 1)
        publishing.publish("daily", "daily.again", {}, replace(inbox.callers[-1], chain=chain))

    bus.subscribe(answer)

    publishing.publish("daily", "daily.again", {}, Caller())

    assert [led_by.chain.events for led_by in inbox.callers] == list(range(MOST_EVENTS + 1))


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

    assert [led_by.chain.events for led_by in inbox.callers] == [3, 3, 0, 0, 3, 3, 0, 0, 0]
    assert {(led_by.causes, led_by.chain.run) for led_by in inbox.callers} == {(("c1",), "r1")}
