"""The bus: every event to everyone, in order, and the last ones remembered."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from parachuted.events import CATALOG, Bus, EventKind
from parachuted.events.fields import FieldKind

NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)


@pytest.fixture
def bus():
    return Bus(lambda: NOON, remembered=3)


def kind(name, **more):
    return EventKind(
        name=name,
        tells="It rains.",
        **({"fields": {"degrees": FieldKind.NUMBER}, "publisher": "weather"} | more),
    )


def publish(bus, count):
    for number in range(count):
        bus.publish("watch.removed", watcher=f"{number}.md")


def test_an_event_has_a_number_a_moment_and_its_data(bus):
    event = bus.publish("file.deleted", path="a.md")

    assert (event.id, event.event, event.timestamp, event.data) == (
        1,
        "file.deleted",
        NOON,
        {"path": "a.md"},
    )


BLOCKING = [name for name, kind in CATALOG.items() if kind.blocks]


@pytest.mark.parametrize("name", ["file.eaten", *BLOCKING])
def test_what_is_no_fact_of_the_catalogue_is_not_published(bus, name):
    with pytest.raises(KeyError):
        bus.publish(name, path="a.md")
    assert bus.last_id == 0


def test_a_module_s_event_is_carried_from_declaration_to_withdrawal(bus):
    heard = []
    bus.subscribe(heard.append)
    bus.declare(kind("weather.changed"))
    bus.publish("weather.changed", degrees=3)
    for name in ("weather.changed", "weather.changed", "file.created"):
        bus.withdraw(name)

    assert [(event.event, event.data) for event in heard] == [("weather.changed", {"degrees": 3})]
    with pytest.raises(KeyError):
        bus.publish("weather.changed", degrees=4)
    assert bus.publish("file.created", path="a.md").id == 2  # the catalogue itself stays


NAMES = [
    "file.created",
    "write.before",
    "weather",
    "Weather.changed",
    "weather.",
    "a b.c",
    "w.c\nd",
]


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        *((name, {"publisher": name.partition(".")[0]}, r"event|module") for name in NAMES),
        ("weather.before", {"blocks": True}, "before something happens"),
        ("weather.changed", {"publisher": None}, "publisher"),
        ("weather.changed", {"publisher": "garden"}, "publisher"),
    ],
)
def test_what_is_not_a_module_s_own_event_cannot_be_declared(bus, name, more, why):
    with pytest.raises(ValueError, match=why):
        bus.declare(kind(name, **more))
    assert not bus.declared


def test_each_listener_hears_each_event_in_order_until_it_ends(bus):
    heard, short = [], []
    bus.subscribe(heard.append)
    end = bus.subscribe(short.append)
    publish(bus, 2)
    end()
    end()
    publish(bus, 1)

    assert [event.id for event in heard] == [1, 2, 3]
    assert [event.id for event in short] == [1, 2]


def test_a_listener_that_fails_is_logged_and_the_others_hear(bus, caplog):
    heard = []
    bus.subscribe(lambda _event: 1 / 0)
    bus.subscribe(heard.append)
    with caplog.at_level(logging.ERROR):
        publish(bus, 1)

    assert len(heard) == 1
    assert "ZeroDivisionError" in caplog.text


def test_what_a_listener_publishes_is_heard_by_all_after_what_it_heard(bus):
    heard = []
    bus.subscribe(
        lambda event: (
            bus.publish("watch.removed", watcher="then") if event.event == "file.created" else None
        )
    )
    bus.subscribe(heard.append)
    bus.publish("file.created", path="first")

    assert [event.event for event in heard] == ["file.created", "watch.removed"]


def test_several_facts_are_heard_together_or_one_by_one_and_a_name_selects(bus):
    batches, each, chosen = [], [], []
    bus.subscribe_to_batches(batches.append)
    bus.subscribe(each.append)
    bus.subscribe(chosen.append, "file.deleted")
    facts = [("file.created", {"path": "a.md"}), ("file.deleted", {"path": "b.md"})]
    with pytest.raises(KeyError):
        bus.publish_all([*facts, ("file.eaten", {})])
    assert (batches, each, bus.last_id) == ([], [], 0)
    bus.publish_all(facts)
    bus.publish_all([])

    assert [[event.event for event in batch] for batch in batches] == [[name for name, _ in facts]]
    assert [(event.id, event.event, event.data) for event in each] == [
        (number, *fact) for number, fact in enumerate(facts, 1)
    ]
    assert chosen == each[1:]
    assert list(bus.since(0)) == each


def test_a_listener_may_end_itself_while_it_hears(bus):
    once, all_, ends = [], [], []
    ends.append(bus.subscribe(lambda event: (once.append(event), ends[0]())))
    bus.subscribe(all_.append)
    bus.publish_all([("file.created", {"path": "a.md"})] * 2)

    assert (len(once), len(all_)) == (1, 2)


@pytest.mark.parametrize(
    ("count", "number", "ids", "remembers"),
    [
        (5, 0, [3, 4, 5], False),
        (5, 1, [3, 4, 5], False),
        (5, 2, [3, 4, 5], True),
        (5, 3, [4, 5], True),
        (5, 5, [], True),
        (5, 6, [], False),
        (0, 0, [], True),
        (0, 1, [], False),
    ],
)
def test_it_replays_what_it_remembers_and_knows_whether_that_is_all(
    bus, count, number, ids, remembers
):
    publish(bus, count)

    assert [event.id for event in bus.since(number)] == ids
    assert bus.remembers(number) is remembers
