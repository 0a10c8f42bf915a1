"""Limits how many hooks run at once, without deadlock.

A hook that is asked about a write may write itself and so trigger another hook. When the limit is
reached and nothing ends for a while, the last arrivals run anyway: the others may be waiting for
one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

_PATIENCE_S = 1.0


class ConcurrencyLimit:
    """So many at a time, first come first served; after `patience_s` in which none ended, as many
    again. All on one loop.
    """

    def __init__(self, count: int, *, patience_s: float = _PATIENCE_S) -> None:
        self._count, self._patience_s = count, patience_s
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Run one hook within the limit, while the block lasts."""
        if self._taken < self._count:
            self._taken += 1
        else:
            await self._wait()
        try:
            yield
        finally:
            self._leave()

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if self._timer is None:
            self._watch()
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        self._taken -= 1
        while self._taken < self._count and self._waiting:
            self._give(self._waiting.popleft())
        self._watch()

    def _give(self, turn: asyncio.Future[None]) -> None:
        self._taken += 1
        if not turn.done():
            turn.set_result(None)

    def _watch(self) -> None:
        """From now on, for as long as anyone waits."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            asyncio.get_running_loop().call_later(self._patience_s, self._go_on)
            if self._waiting
            else None
        )

    def _go_on(self) -> None:
        for _ in range(min(self._count, len(self._waiting))):
            self._give(self._waiting.pop())
        self._watch()
