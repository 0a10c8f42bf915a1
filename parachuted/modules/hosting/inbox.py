"""Queues the events for one module and delivers them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from parachuted.access.authority import Authority
from parachuted.access.events import EventFilter, paths_named
from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.errors import ParachuteError
from parachuted.events import Event
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.registry.declaration import EventSpec
from parachuted.modules.results import to_json

log = logging.getLogger(__name__)

MOST_WAITING = 1000
_AT_ONCE = 8
_IN_ORDER_S = 30.0
_ALONGSIDE_S = 600.0  # such a handler may let an agent work


class Inbox:
    """Holds events until `run` tells them.

    Handlers that are not async are called one after the other, the others beside them.
    """

    def __init__(
        self, host: ModuleHost, event_filter: EventFilter, origins: Origins | None = None
    ) -> None:
        self._host, self._event_filter, self._origins = host, event_filter, origins
        self._specs: dict[str, list[EventSpec]] = {}
        for spec in host.declared.events:
            self._specs.setdefault(spec.event, []).append(spec)
        self._waiting: deque[tuple[str, Mapping[str, object], Authority]] = deque()
        self._has_some = asyncio.Event()
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
        authority = replace(
            authority.forked(),
            asked_by="event",
            entry="module",
            depth=0,
            events=authority.events + 1,
            runs=authority.led_by,
            call=None,
        )
        if self._origins is not None:
            for path in paths_named(heard.kind, heard.data) or ():
                if (origin := self._origins.of(path)) in UNTRUSTED:
                    authority.taint.read(path, origin)
        # its own data: what it does to it is not seen elsewhere
        data = {str(name): to_json(value) for name, value in heard.data.items()}
        self._waiting.append((heard.event, data, authority))
        self._has_some.set()

    async def run(self) -> None:
        """Tell until cancelled; what is being handled then ends with it."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._has_some.wait()
                self._has_some.clear()
                while self._waiting:
                    event, data, authority = self._waiting.popleft()
                    for spec in self._specs[event]:
                        if not spec.is_async:
                            await self._tell(spec, data, authority, _IN_ORDER_S)
                            continue
                        await self._room.acquire()
                        task = group.create_task(
                            self._tell(spec, data, authority, _ALONGSIDE_S),
                            name=f"{self._host.name} {spec.handler}",
                        )
                        task.add_done_callback(lambda _task: self._room.release())

    async def _tell(
        self, spec: EventSpec, data: Mapping[str, object], authority: Authority, limit_s: float
    ) -> None:
        about = {"of": self._host.name, "event": spec.event}
        try:
            await self._host.tell(spec.handler, data, timeout_s=limit_s, authority=authority)
        except ParachuteError as error:
            log.warning("a module did not handle an event", extra={**about, "error": error.message})
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module did not handle an event", extra=about)
