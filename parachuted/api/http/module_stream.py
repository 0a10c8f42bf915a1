"""The stream of a module's route: server-sent events that end with their reader, with the module,
or with the key that opened them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import web

from parachuted.api.http.answers import json_bytes
from parachuted.api.http.route import ApiCall
from parachuted.errors import ParachuteError
from parachuted.modules.streams import ServerEvent, StreamOpened

_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_WRITE_S = 30.0
_HEARTBEAT_S, _LOOK_S = 15.0, 0.25
_STILL_HERE = b": still here\n\n"
_OPENED = b": open\n\n"


class ModuleStream:
    """One answer that goes on.

    It ends with its reader, with the module's generator, or with the key that opened it.
    """

    def __init__(self, call: ApiCall) -> None:
        self.identity = call.identity
        self._request, self._response = call.request, web.StreamResponse(headers=_HEADERS)
        self._is_over = asyncio.Event()
        self._writing = asyncio.Lock()
        self._wrote_at = time.monotonic()
        self._refusal: ParachuteError | None = None

    def end(self) -> None:
        """End it, whatever its reader has taken."""
        self._is_over.set()

    async def serve(self, items: AsyncIterator[object]) -> web.StreamResponse:
        """Raises what the generator raised before its first item."""
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write_all(items), name="a module's stream")
            watching = group.create_task(self._watch(), name="its end")
            await asyncio.wait([writing, watching], return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                self._cut()
            for task in (writing, watching):
                task.cancel()
        if self._refusal is not None:
            raise self._refusal
        return self._response

    async def _watch(self) -> None:
        """Until it is over or its reader has gone; meanwhile a sign of life now and then, by which
        what lies between keeps it open.
        """
        while not self._is_over.is_set() and self._is_reader_there():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._is_over.wait()
            if time.monotonic() - self._wrote_at >= _HEARTBEAT_S and not self._writing.locked():
                try:
                    await self._write(_STILL_HERE)
                except (ConnectionError, TimeoutError):
                    return

    def _is_reader_there(self) -> bool:
        return self._request.transport is not None and not self._request.transport.is_closing()

    async def _write_all(self, items: AsyncIterator[object]) -> None:
        try:
            async for item in items:
                await self._write(_frame(item))
            await self._write(b"")
        except ParachuteError as error:
            if not self._response.prepared:
                self._refusal = error
                return
            await self._write(
                b"event: error\ndata: " + json_bytes({"message": error.message}) + b"\n\n"
            )
        except (ConnectionError, TimeoutError):
            self._cut()  # it went away, which is how streams end, or takes nothing

    async def _write(self, data: bytes) -> None:
        async with self._writing, asyncio.timeout(_WRITE_S):
            if not self._response.prepared:
                await self._response.prepare(self._request)
            await self._response.write(data)
            self._wrote_at = time.monotonic()

    def _cut(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


def _frame(item: object) -> bytes:
    """One event. JSON has no line ends, and names and ids no blanks, so none of them ends it."""
    if isinstance(item, StreamOpened):
        return _OPENED
    if not isinstance(item, ServerEvent):
        return b"data: " + json_bytes(item) + b"\n\n"
    head = "".join(
        f"{field}: {value}\n"
        for field, value in (("id", item.id), ("event", item.event))
        if value is not None
    )
    return head.encode() + b"data: " + json_bytes(item.data) + b"\n\n"
