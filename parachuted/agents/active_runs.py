"""The agent runs in progress, and the one way to end them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from parachuted.access.grant import CallerGrant, Entry
from parachuted.errors import AgentFailedError, AgentStoppedError
from parachuted.keys import NOWHERE

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_ENDS_WITHIN_S = 5.0
_MOST_REMEMBERED = 100
_NO_LONGER = "who asked for it may do so no longer"
_STOPPED = "runs were ended while it began"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """`may_go_on`: its caller still may have it; `reach` is what it may read and write now."""

    run: str
    agent: str
    entry: Entry
    since: datetime
    module: str | None = None
    may_go_on: Callable[[], bool] = lambda: True
    reach: Callable[[], CallerGrant] = lambda: CallerGrant(NOWHERE, NOWHERE)


Chosen: TypeAlias = Callable[[ActiveRun], bool]


@dataclass(slots=True, kw_only=True, eq=False)
class _Tracked:
    working: ActiveRun
    task: asyncio.Task[Any]
    why: str | None = None


class ActiveRuns:
    """Each run has its own asyncio task, so ending it does not cancel its caller."""

    def __init__(self) -> None:
        # for `perform`: a run asked for before this and ended since does not begin
        self.moment = 0
        self._tracked: dict[str, _Tracked] = {}
        self._ends: deque[tuple[int, str, Chosen]] = deque(maxlen=_MOST_REMEMBERED)
        self._latest: deque[ActiveRun] = deque(maxlen=_MOST_REMEMBERED)
        self._held: list[tuple[ActiveRun, Callable[[], None]]] = []

    def all(self) -> list[ActiveRun]:
        return [tracked.working for tracked in self._tracked.values()]

    def granted(self, run: str) -> CallerGrant | None:
        """What a run may, or might, read and write; None where it is not known any more."""
        latest = reversed(self._latest)
        return next((working.reach() for working in latest if working.run == run), None)

    async def perform(
        self, working: ActiveRun, work: Coroutine[Any, Any, _Result], *, since: int | None = None
    ) -> _Result:
        """Raises what the work raises, and AgentStoppedError when it was ended here."""
        if since is not None and (why := self._ended_since(since, working)) is not None:
            work.close()
            raise AgentStoppedError(why)
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name=f"agent of {working.run}")
        tracked = self._tracked[working.run] = _Tracked(working=working, task=task)
        self._latest.append(working)
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():  # its caller was cancelled
                task.cancel()
            while not task.done():  # and may be again, while the agent's process is ended
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
            self._tracked.pop(working.run, None)
        if tracked.why is not None and (task.cancelled() or task.exception() is not None):
            raise AgentStoppedError(tracked.why)
        if task.cancelled():
            raise AgentFailedError("the agent's backend broke: it was cancelled from within")
        return task.result()

    def hold(self, working: ActiveRun, end: Callable[[], None]) -> Callable[[], None]:
        """Remember what ends a run's process, and is called with it. Returns what forgets that."""
        held = (working, end)
        self._held.append(held)

        def forget() -> None:
            with suppress(ValueError):  # it is forgotten already
                self._held.remove(held)

        return forget

    def end(self, why: str, chosen: Chosen = lambda _working: True) -> tuple[str, ...]:
        """Without waiting; returns their ids. Their callers get the error `why`."""
        self.moment += 1
        self._ends.append((self.moment, why, chosen))
        return self._end(why, chosen)

    async def stop(self, why: str, chosen: Chosen = lambda _working: True) -> tuple[str, ...]:
        """The same, and wait until they have ended, for some seconds."""
        runs = self.end(why, chosen)
        tasks = [self._tracked[run].task for run in runs]
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=_ENDS_WITHIN_S)
            for task in left:
                log.warning("a run that was to end goes on", extra={"task": task.get_name()})
        return runs

    def recheck(self) -> None:
        self._end(_NO_LONGER, lambda working: not working.may_go_on())

    def _end(self, why: str, chosen: Chosen) -> tuple[str, ...]:
        ended = [tracked for tracked in self._tracked.values() if chosen(tracked.working)]
        for tracked in ended:
            if tracked.why is None:
                tracked.why = why
                tracked.task.cancel(why)
        for _working, end_held in [held for held in self._held if chosen(held[0])]:
            end_held()
        return tuple(tracked.working.run for tracked in ended)

    def _ended_since(self, since: int, working: ActiveRun) -> str | None:
        if self._ends and self._ends[0][0] > since + 1:
            return _STOPPED  # which runs were chosen is not known any more
        for moment, why, chosen in self._ends:
            if moment > since and chosen(working):
                return why
        return None if working.may_go_on() else _NO_LONGER
