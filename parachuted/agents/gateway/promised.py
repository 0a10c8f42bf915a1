"""Promised: what the requests that are on their way may still cost. While that would use up a budget, the next one waits for them.

So a budget is overspent by at most one request, however many an agent sends at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Promise:
    """One request's: whose it is, and the US dollars that it costs at most."""

    run: str
    causes: tuple[str, ...]
    usd: float


class Promised:
    """All of a gateway's requests that are on their way."""

    def __init__(self) -> None:
        self._open: set[Promise] = set()
        self._ended = asyncio.Event()

    def of(self, belongs: Callable[[Promise], bool]) -> float:
        """The dollars of those."""
        return sum(one.usd for one in self._open if belongs(one))

    @contextmanager
    def made(self, promise: Promise) -> Iterator[None]:
        """While it is on its way. Left, those that wait look anew."""
        self._open.add(promise)
        try:
            yield
        finally:
            self._open.discard(promise)
            self._ended.set()
            self._ended = asyncio.Event()

    async def one_ends(self) -> None:
        """Wait until one of them is over."""
        await self._ended.wait()
