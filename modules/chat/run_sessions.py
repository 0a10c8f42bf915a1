"""Which conversation a run of an agent belongs to, so that a tool needs no argument for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_MOST: Final = 10_000
_LONGEST_START_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RunSession:
    session_id: str
    is_curator: bool


class RunSessions:
    """Sessions by the ids of runs; the oldest are forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, RunSession] = OrderedDict()
        self._starting = 0
        self._moved = asyncio.Event()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a run starts: it may call its first tool before its id is known here."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            self._wake()

    def add(self, run: str, session_id: str, *, is_curator: bool = False) -> None:
        self._sessions[run] = RunSession(session_id, is_curator)
        while len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        self._wake()

    def runs_of(self, session_id: str) -> list[str]:
        return [run for run, one in self._sessions.items() if one.session_id == session_id]

    async def get(self, run: str | None) -> RunSession | None:
        """None: it works for none, or is not a run."""
        if run is None:
            return None
        try:
            async with asyncio.timeout(_LONGEST_START_S):
                while run not in self._sessions and self._starting:
                    await self._moved.wait()
        except TimeoutError:
            return None
        return self._sessions.get(run)

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
