"""Pairing: a stranger is given a code, and a person who reads it here lets them in, or not.

Until then nothing of theirs is read, and nothing is kept but the request and, for the audit, one
event for each sender and hour that says how often they were turned away.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from parachuted.errors import NotFoundError
from parachuted.modules import Module

from .connector import Incoming
from .store import PairingRequest, Store, now

_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # none that is taken for another
_LENGTH: Final = 6
_GOOD_FOR_S: Final = 600.0
_MOST_TRIES: Final = 3
_SILENT_FOR_S: Final = 3_600.0
_MOST_REQUESTS: Final = 50
_LONGEST_NAME: Final = 80
_HOUR_S: Final = 3_600.0
_MOST_SENDERS: Final = 100
_OTHERS: Final = "others"
_LONGEST_ID: Final = 255

Why: TypeAlias = Literal["unpaired", "group", "button", "link"]


class Pairing:
    """Who is paired stands in the settings."""

    def __init__(self, store: Store, clock: Callable[[], float] = now) -> None:
        self._store, self._clock = store, clock

    async def code_for(self, platform: str, incoming: Incoming) -> str | None:
        """The code that a stranger is given; None: they are not answered."""
        at = self._clock()
        known = await self._store.pairings()
        found = next(
            (
                request
                for request in known
                if (request.platform, request.sender_id) == (platform, incoming.sender_id)
            ),
            None,
        )
        if found is not None and _age(found, at) < _GOOD_FOR_S:
            return None  # the code that they have is still good
        tries = 0 if found is None or _age(found, at) >= _SILENT_FOR_S else found.tries
        if tries >= _MOST_TRIES:
            return None
        for one in known[: max(0, len(known) + 1 - _MOST_REQUESTS)] if found is None else ():
            if _age(one, at) < _SILENT_FOR_S:
                return None  # the list is full of requests that a person may yet answer
            await self._store.drop_pairing(one.platform, one.sender_id, one.code)
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        await self._store.put_pairing(
            PairingRequest(
                platform=platform,
                sender_id=incoming.sender_id,
                sender_name=" ".join(incoming.sender_name.split())[:_LONGEST_NAME],
                chat_id=incoming.chat_id,
                code=code,
                at=at,
                tries=tries + 1,
            )
        )
        return code

    async def pending(self) -> list[PairingRequest]:
        at = self._clock()
        return [
            pairing for pairing in await self._store.pairings() if _age(pairing, at) < _GOOD_FOR_S
        ]

    async def take(self, name: str) -> PairingRequest:
        """The request with that code or `platform:sender`, which is answered now. NotFoundError."""
        for request in await self.pending():
            if (
                name.upper() == request.code or name == request_id(request)
            ) and await self._store.drop_pairing(request.platform, request.sender_id, request.code):
                return request
        raise NotFoundError(
            f"no one waits with the code {name[:80]}; a code is good for ten minutes; write "
            "to the bot again to get another"
        )

    async def deny(self, name: str) -> PairingRequest:
        """That code was one of three all the same."""
        request = await self.take(name)
        await self._store.put_pairing(replace(request, code="", at=request.at - _GOOD_FOR_S))
        return request


def _age(request: PairingRequest, at: float) -> float:
    """Its seconds; where the clock was set back, those too."""
    return abs(at - request.at)


def request_id(request: PairingRequest) -> str:
    return f"{request.platform}:{request.sender_id}"


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
