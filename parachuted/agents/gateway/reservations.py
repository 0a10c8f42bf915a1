"""Money reserved by requests in flight, which nothing else may spend until they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reservation:
    """The run and causes of one request, and its maximum cost in US dollars."""

    run: str
    causes: tuple[str, ...]
    usd: float


class Reservations:
    """All of a gateway's requests that are on their way."""

    def __init__(self) -> None:
        self._open: set[Reservation] = set()
        self._ended = asyncio.Event()

    def usd(self, belongs: Callable[[Reservation], bool] = lambda _one: True) -> float:
        """The US dollars of those for which `belongs` is true."""
        return sum(one.usd for one in self._open if belongs(one))

    def add(self, reservation: Reservation) -> None:
        """Count it from now on."""
        self._open.add(reservation)

    def remove(self, reservation: Reservation) -> None:
        """It has ended; those that wait in `one_ends` look again."""
        self._open.discard(reservation)
        self._ended.set()
        self._ended = asyncio.Event()

    async def one_ends(self) -> None:
        """Wait until one of them has ended."""
        await self._ended.wait()
