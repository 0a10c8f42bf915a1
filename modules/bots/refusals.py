"""Who was turned away, for the audit: one event for each sender and hour, with how often it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from parachuted.modules import Module

from .connector import Incoming
from .store import now

_HOUR_S: Final = 3_600.0
_MOST_SENDERS: Final = 100
_OTHERS: Final = "others"
_LONGEST_ID: Final = 255

Why: TypeAlias = Literal["unpaired", "group", "button", "link"]


class Refusals:
    """Those of one bot. A flood of senders is counted as one that is called `others`."""

    def __init__(self, module: Module, title: str, clock: Callable[[], float] = now) -> None:
        self._module, self._title, self._clock = module, title, clock
        self._senders: dict[str, tuple[float, int]] = {}

    def add(self, incoming: Incoming, why: Why) -> None:
        at, sender = self._clock(), incoming.sender_id[:_LONGEST_ID]
        if sender not in self._senders and len(self._senders) >= _MOST_SENDERS:
            self._senders = {
                name: one for name, one in self._senders.items() if at - one[0] < _HOUR_S
            }
            sender = sender if len(self._senders) < _MOST_SENDERS else _OTHERS
        since, times = self._senders.get(sender, (at - _HOUR_S, 0))
        if at - since < _HOUR_S:
            self._senders[sender] = since, times + 1
            return
        self._senders[sender] = at, 0
        with self._module.on_behalf_of(f"{self._title} {sender}", is_strangers=True):
            self._module.publish(
                "bots.refused", platform=self._title, sender_id=sender, why=why, times=times + 1
            )
