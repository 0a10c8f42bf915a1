"""Who is turned away is said once an hour and sender, and a flood of senders says little."""

from __future__ import annotations

from contextlib import nullcontext

from modules.bots.connector import Incoming
from modules.bots.pairing import Refusals


class Published:
    """A module of which only its events are seen."""

    def __init__(self) -> None:
        self.events: list[tuple[object, object, object]] = []

    def on_behalf_of(self, _person: str, *, is_strangers: bool) -> nullcontext[None]:
        assert is_strangers
        return nullcontext()

    def publish(self, event: str, **data: object) -> None:
        assert event == "bots.refused"
        self.events.append((data["sender_id"], data["why"], data["times"]))


def test_a_sender_is_one_event_an_hour_and_a_flood_of_senders_is_one_too():
    module, seconds = Published(), [0.0]
    refusals = Refusals(module, "Telegram", lambda: seconds[0])  # type: ignore[arg-type]

    def came(sender: str) -> None:
        one = Incoming(update_id="1", kind="message", chat_id="1", chat_type="dm", sender_id=sender)
        refusals.add(one, "unpaired")

    for _ in range(3):
        came("eve")
    assert module.events == [("eve", "unpaired", 1)]
    for number in range(5_000):
        came(f"s{number}")
    assert len(module.events) == 101
    assert module.events[-1] == ("others", "unpaired", 1)
    seconds[0] = 3_600.0
    came("eve")
    assert module.events[-1] == ("eve", "unpaired", 3)
    came("mallory")
    assert module.events[-1] == ("mallory", "unpaired", 1)
