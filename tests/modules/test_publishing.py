"""Publishing: modules speak under their own names, and halt."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.errors import ActRefusedError
from parachuted.events import Bus, Event
from parachuted.modules.publishing import DEEPEST, MOST_BYTES, MOST_NAMES, Publishing


@pytest.fixture
def bus() -> Bus:
    return Bus(lambda: datetime(2026, 1, 5, 12, 0, tzinfo=UTC))


@pytest.fixture
def publishing(bus: Bus) -> Publishing:
    return Publishing(bus)


def test_a_module_tells_an_event_of_the_catalogue_that_is_its_own(bus, publishing):
    publishing.publish("daily", "daily.entry.created", {"entry_id": "e1"})

    [event] = bus.since(0)
    assert (event.event, event.data) == ("daily.entry.created", {"entry_id": "e1"})


def test_a_module_declares_an_event_by_telling_it_and_takes_it_along_when_it_goes(bus, publishing):
    publishing.publish("telegram-bot", "telegram-bot.message.came", {"chat": 1, "text": "hi"})
    publishing.publish("telegram-bot", "telegram-bot.message.came", {"chat": 2})
    assert bus.declared["telegram-bot.message.came"].fields == ("chat", "text")

    publishing.withdraw("telegram-bot")

    assert len(list(bus.since(0))) == 2
    assert bus.declared == {}


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
        publishing.publish(module, event, {})

    assert bus.last_id == 0


def test_an_event_is_no_way_to_carry_megabytes(publishing):
    with pytest.raises(ActRefusedError, match="path of a note"):
        publishing.publish("daily", "daily.big", {"text": "x" * MOST_BYTES})


def test_names_are_for_kinds_of_events_and_so_they_are_few(publishing):
    for number in range(MOST_NAMES):
        publishing.publish("daily", f"daily.n{number}", {})

    with pytest.raises(ActRefusedError, match="kinds"):
        publishing.publish("daily", "daily.one-more", {})


def test_what_follows_from_an_event_is_one_deeper_and_a_circle_ends(bus, publishing):
    depths: list[int] = []

    def answer(event: Event) -> None:
        depths.append(publishing.told(event.id).depth)
        with publishing.handling("daily", depths[-1]):
            publishing.publish("daily", "daily.again", {})

    bus.listen(answer)

    publishing.publish("daily", "daily.again", {})

    assert depths == list(range(DEEPEST + 1))


def test_what_two_modules_do_at_once_counts_for_each_alone(publishing, bus):
    with publishing.handling("daily", 3), publishing.handling("daily", 0):
        publishing.publish("brain", "brain.said", {})
        publishing.publish("daily", "daily.said", {})
    publishing.publish("daily", "daily.said", {})

    assert [publishing.told(event.id).depth for event in bus.since(0)] == [0, 4, 0]
