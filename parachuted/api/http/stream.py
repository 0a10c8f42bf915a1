"""Stream: events over SSE, each for those who may know of it.

A slow reader is dropped and can come back with Last-Event-ID. A stream ends with its key.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from aiohttp import HttpVersion11, web

from parachuted.access.events import EventFilter
from parachuted.api.http.answers import STREAM_HEADERS
from parachuted.api.http.decorators import get
from parachuted.api.http.route import ApiCall, MediaBody
from parachuted.events import FACTS, Bus, Event, EventKind
from parachuted.keys import Identity
from parachuted.texts.times import time_of

_AT_ONCE = 64
_NUMBER = re.compile(r"[0-9]{1,18}")
_time_of = lru_cache(maxsize=1)(time_of)  # the events of one scan share their moment
_RESET = b"event: reset\ndata: {}\n\n"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """`module` published it, or is `core`; `data` is what docs/reference/events.md says."""

    event: str
    timestamp: datetime
    vault_path: str
    module: str
    data: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """`heartbeat_s` between signs of life, `write_s` for a write, `waiting` events at most.

    A stream keeps its connection, so there are `readers` at most, `readers_each` of one caller.
    """

    heartbeat_s: float = 15.0
    write_s: float = 30.0
    waiting: int = 8192
    readers: int = 384
    readers_each: int = 256


class EventStreams:
    """Each event becomes bytes once for all readers who may know the same of it."""

    def __init__(
        self,
        bus: Bus,
        vault: Path,
        started: datetime,
        holds: Callable[[Identity], bool],
        patience: StreamLimits | None = None,
    ) -> None:
        """`started` is part of the ids of events; `holds`: whether a caller is still let in."""
        self._bus, self._vault_json, self._holds = bus, json.dumps(str(vault)), holds
        self._life = f"{int(started.timestamp() * 1000):x}"
        self._patience = patience or StreamLimits()
        self._readers: set[_Reader] = set()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._is_closed = False

    @get(
        "/api/events",
        "vault",
        "read",
        for_path_keys=True,
        has_head=False,
        answers={
            200: MediaBody(
                type="text/event-stream",
                says="Server-sent events; this is the `data` of each.",
                item=EventMessage,
            )
        },
        headers={
            "Last-Event-ID": "The id of the last event that was received; what came after "
            "it is sent first."
        },
    )
    async def serve(self, call: ApiCall) -> web.StreamResponse:
        """Stream events as they happen.

        Answers until the reader disconnects or is too slow, or the daemon stops.
        """
        if self._is_closed:
            raise web.HTTPServiceUnavailable(text="the daemon is ending")
        self._refuse_too_many(call.identity)
        request = call.request
        response = web.StreamResponse(headers=STREAM_HEADERS)
        events = EventFilter.of_key(call.identity)
        reader = _Reader(call, events, response, self._patience)
        try:
            missed = self._missed(request.headers.get("Last-Event-ID", ""), reader.filter)
            reader.take([b": parachuted\n\n", *missed])
            if not self._readers:
                self._unsubscribe = self._bus.subscribe_to_batches(self._tell)
            self._readers.add(reader)
            await response.prepare(request)
            await reader.follow()
        except (ConnectionError, TimeoutError):
            reader.drop()  # it went away, which is how streams end, or takes nothing
        finally:
            self._drop(reader)
        return response

    def _drop(self, reader: _Reader) -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._unsubscribe()

    def _refuse_too_many(self, identity: Identity) -> None:
        own = sum(reader.identity.id == identity.id for reader in self._readers)
        if own >= self._patience.readers_each or len(self._readers) >= self._patience.readers:
            raise web.HTTPServiceUnavailable(
                text="too many event streams are open; close one, or use one for everything"
            )

    def kinds(self) -> list[EventKind]:
        """The kinds of events that it may carry just now, by name: the core's and the modules'."""
        return sorted({**FACTS, **self._bus.declared}.values(), key=lambda kind: kind.name)

    async def close(self) -> None:
        self._unsubscribe()
        self._is_closed = True
        for reader in tuple(self._readers):
            reader.end()

    def recheck(self) -> None:
        """End the streams of callers whose key is gone or changed."""
        identities = {reader.identity for reader in self._readers}
        gone = {identity for identity in identities if not self._holds(identity)}
        for reader in [reader for reader in self._readers if reader.identity in gone]:
            self._drop(reader)
            reader.end()

    def frame(self, event: Event) -> bytes:
        """One SSE message, built from pieces: as one document it takes twice as long."""
        name, kind = event.event, event.kind
        return (
            f"id: {self._life}-{event.id}\nevent: {name}\n"
            f'data: {{"event": "{name}", "timestamp": "{_time_of(event.timestamp)}", '
            f'"vault_path": {self._vault_json}, "module": "{kind.publisher or "core"}", '
            f'"data": {json.dumps(event.data)}}}\n\n'
        ).encode()

    def _tell(self, events: Sequence[Event]) -> None:
        self.recheck()
        frames: dict[EventFilter, list[bytes]] = {}
        for reader in tuple(self._readers):
            if reader.filter not in frames:
                frames[reader.filter] = self._frames_for(reader.filter, events)
            if frames[reader.filter]:
                reader.take(frames[reader.filter])

    def _frames_for(self, listener: EventFilter, events: Iterable[Event]) -> list[bytes]:
        allowed = (event.visible_to(listener) for event in events)
        return [self.frame(event) for event in allowed if event is not None]

    def _missed(self, last: str, events: EventFilter) -> list[bytes]:
        """The events since the id `last`; a reset and all known ones when some are forgotten."""
        if not last:
            return []
        life, _, number = last.partition("-")
        if life == self._life and _NUMBER.fullmatch(number) and self._bus.remembers(int(number)):
            return self._frames_for(events, self._bus.since(int(number)))
        return [_RESET, *self._frames_for(events, self._bus.since(0))]


class _Reader:
    """What waits is limited only while the reader is slow: a burst is not its fault."""

    def __init__(
        self,
        call: ApiCall,
        events: EventFilter,
        response: web.StreamResponse,
        patience: StreamLimits,
    ) -> None:
        self.identity, self.filter = call.identity, events
        self._response, self._transport, self._patience = response, call.request.transport, patience
        self._waiting: deque[bytes] = deque()
        self._awake = asyncio.Event()
        # what aiohttp makes of an answer without a length
        self._is_chunked = call.request.version >= HttpVersion11
        self._is_prepared = self._is_writing = self._is_over = False

    def take(self, frames: Sequence[bytes]) -> None:
        """Send them in turn, at once where nothing waits; drop the reader when too much waits."""
        transport = self._transport
        is_busy = self._waiting or self._is_writing or self._is_over or not self._is_prepared
        if (
            transport is not None
            and not is_busy
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        ):  # without waking `follow`, which costs ten times as much
            data = b"".join(frames)
            transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
            return
        self._waiting += frames
        self._awake.set()
        if self._is_writing and len(self._waiting) > self._patience.waiting:
            self.drop()

    def drop(self) -> None:
        self._waiting.clear()
        self._is_over = True
        self._awake.set()
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        self._is_over = True
        self._awake.set()
        if self._is_writing:
            self.drop()

    async def follow(self) -> None:
        """Write until the end. Raises ConnectionError or TimeoutError when the reader takes no
        more.
        """
        while not self._is_over:
            if self._waiting:
                count = min(_AT_ONCE, len(self._waiting))
                await self._write(b"".join(self._waiting.popleft() for _ in range(count)))
                continue
            self._awake.clear()
            try:
                async with asyncio.timeout(self._patience.heartbeat_s):
                    await self._awake.wait()
            except TimeoutError:
                await self._write(b": still here\n\n")
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.drop()  # a reader who is behind would be waited for

    async def _write(self, data: bytes) -> None:
        self._is_writing = True
        try:
            async with asyncio.timeout(self._patience.write_s):
                await self._response.write(data)
            self._is_prepared = True  # aiohttp keeps the headers back until the first write
        finally:
            self._is_writing = False
