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


def test_what_is_in_no_catalogue_is_not_published(bus):
    with pytest.raises(KeyError):
        bus.publish("file.eaten", path="a.md")
    assert bus.last_id == 0


@pytest.mark.parametrize("name", [name for name, kind in CATALOG.items() if kind.blocks])
def test_what_may_still_be_refused_is_not_published_as_if_it_had_happened(bus, name):
    with pytest.raises(KeyError):
        bus.publish(name, path="a.md")


def test_a_module_s_event_is_carried_from_its_declaration_to_its_withdrawal(bus):
    heard = []
    bus.subscribe(heard.append)
    bus.declare(kind("weather.changed"))
    bus.publish("weather.changed", degrees=3)
    bus.withdraw("weather.changed")
    bus.withdraw("weather.changed")

    assert [(event.event, event.data) for event in heard] == [("weather.changed", {"degrees": 3})]
    with pytest.raises(KeyError):
        bus.publish("weather.changed", degrees=4)


@pytest.mark.parametrize(
    "name",
    ["file.created", "write.before", "weather", "Weather.changed", "weather.", "a b.c", "w.c\nd"],
)
def test_a_name_that_is_another_s_or_none_cannot_be_declared(bus, name):
    with pytest.raises(ValueError, match=r"event|module"):
        bus.declare(kind(name, publisher=name.partition(".")[0]))
    assert not bus.declared


def test_an_event_that_may_be_refused_cannot_be_declared(bus):
    with pytest.raises(ValueError, match="before something happens"):
        bus.declare(kind("weather.before", blocks=True))


def test_a_module_declares_events_under_its_own_name_alone(bus):
    for publisher in (None, "garden"):
        with pytest.raises(ValueError, match="publisher"):
            bus.declare(kind("weather.changed", publisher=publisher))


def test_a_withdrawal_leaves_the_catalogue_alone(bus):
    bus.withdraw("file.created")

    assert bus.publish("file.created", path="a.md").id == 1


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
    bus.publish_all(facts)
    bus.publish_all([])

    assert [[event.event for event in batch] for batch in batches] == [[name for name, _ in facts]]
    assert [(event.id, event.event, event.data) for event in each] == [
        (number, *fact) for number, fact in enumerate(facts, 1)
    ]
    assert chosen == each[1:]
    assert list(bus.since(0)) == each


def test_of_several_facts_none_is_reported_where_one_is_not_declared(bus):
    heard = []
    bus.subscribe(heard.append)
    with pytest.raises(KeyError):
        bus.publish_all([("file.created", {"path": "a.md"}), ("file.eaten", {})])

    assert (heard, bus.last_id) == ([], 0)


def test_a_listener_that_ends_itself_hears_no_more_of_the_same_batch(bus):
    heard, ends = [], []
    ends.append(bus.subscribe(lambda event: (heard.append(event), ends[0]())))
    bus.publish_all([("file.created", {"path": "a.md"})] * 2)

    assert len(heard) == 1


def test_a_listener_may_end_itself_while_it_hears(bus):
    heard = []
    ends = []
    ends.append(bus.subscribe(lambda _event: ends[0]()))
    bus.subscribe(heard.append)
    publish(bus, 2)

    assert len(heard) == 2


@pytest.mark.parametrize(("number", "ids"), [(0, [3, 4, 5]), (3, [4, 5]), (5, []), (9, [])])
def test_it_replays_what_it_remembers_after_a_number(bus, number, ids):
    publish(bus, 5)

    assert [event.id for event in bus.since(number)] == ids


@pytest.mark.parametrize(
    ("number", "remembers"), [(0, False), (1, False), (2, True), (3, True), (5, True), (6, False)]
)
def test_it_knows_whether_it_has_forgotten_something_since(bus, number, remembers):
    publish(bus, 5)

    assert bus.remembers(number) is remembers


def test_before_the_first_event_nothing_is_forgotten(bus):
    assert bus.remembers(0)
    assert not bus.remembers(1)
    assert list(bus.since(0)) == []
