"""Queues the events for one module and delivers them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from parachuted.access.authority import Authority
from parachuted.access.events import EventFilter, paths_named
from parachuted.access.origin import UNTRUSTED, Taint
from parachuted.access.origins import Origins
from parachuted.errors import ParachuteError
from parachuted.events import Event
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.registry.declaration import EventSpec
from parachuted.modules.results import to_json

log = logging.getLogger(__name__)

MOST_WAITING = 1000
_AT_ONCE = 8
_IN_ORDER_S = 30.0
_ALONGSIDE_S = 600.0  # such a handler may let an agent work


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    event: str
    data: Mapping[str, object]
    authority: Authority


class Inbox:
    """Holds events until `run` tells them.

    Handlers that are not async are called one after the other, the others beside them.
    """

    def __init__(
        self,
        running: RunningModule,
        events: tuple[EventSpec, ...],
        event_filter: EventFilter,
        origins: Origins | None = None,
    ) -> None:
        self._running, self._event_filter, self._origins = running, event_filter, origins
        self._name = running.declared.name
        self._specs: dict[str, list[EventSpec]] = {}
        for spec in events:
            self._specs.setdefault(spec.event, []).append(spec)
        self._waiting: deque[_Waiting] = deque()
        self._came = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.dropped = 0

    @property
    def events(self) -> frozenset[str]:
        """The names of events for which it has a handler.

        A moved file can be a new one, or one that is gone, to who sees one side.
        """
        names = frozenset(self._specs)
        return names | {"file.moved"} if names & {"file.created", "file.deleted"} else names

    def put(self, event: Event, authority: Authority) -> None:
        """Queue an event and what led to it, if the module may receive it.

        When too many wait, the oldest is dropped and counted.
        """
        heard = event.heard_by(self._event_filter)
        if heard is None or heard.event not in self._specs:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        data = {
            str(name): to_json(value) for name, value in heard.data.items()
        }  # its own: what it does to it is not seen elsewhere
        authority = replace(
            authority.forked(),
            asked_by="event",
            entry="module",
            depth=0,
            events=authority.events + 1,
            runs=authority.led_by,
            call=None,
        )
        self._mark(heard, authority.taint)
        self._waiting.append(_Waiting(event=heard.event, data=data, authority=authority))
        self._came.set()

    def _mark(self, event: Event, taint: Taint) -> None:
        if self._origins is None:
            return
        for path in paths_named(event.kind, event.data) or ():
            if (origin := self._origins.of(path)) in UNTRUSTED:
                taint.read(path, origin)

    async def run(self) -> None:
        """Tell until cancelled; what is being handled then ends with it."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._came.wait()
                self._came.clear()
                while self._waiting:
                    waiting = self._waiting.popleft()
                    for spec in self._specs[waiting.event]:
                        if spec.is_async:
                            await self._room.acquire()
                            task = group.create_task(
                                self._tell(spec, waiting, _ALONGSIDE_S),
                                name=f"{self._name} {spec.handler}",
                            )
                            task.add_done_callback(lambda _task: self._room.release())
                        else:
                            await self._tell(spec, waiting, _IN_ORDER_S)

    async def _tell(self, spec: EventSpec, waiting: _Waiting, limit_s: float) -> None:
        try:
            await self._running.tell(
                spec.handler, waiting.data, timeout_s=limit_s, authority=waiting.authority
            )
        except ParachuteError as error:
            log.warning(
                "a module did not handle an event",
                extra={"of": self._name, "event": waiting.event, "error": error.message},
            )
        except Exception:  # a module's callback, wherever it runs
            log.exception(
                "a module did not handle an event", extra={"of": self._name, "event": waiting.event}
            )
