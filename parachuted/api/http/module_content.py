"""Module content: what routes of modules take and give: request bodies and event streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from aiohttp import ClientError, web
from aiohttp.http_exceptions import BadHttpMessage

from parachuted.api.http.answers import STREAM_HEADERS, json_bytes
from parachuted.api.http.route import ApiCall
from parachuted.errors import BodyTooLargeError, ParachuteError, RequestBodyError
from parachuted.modules.results import Body, ServerEvent
from parachuted.texts.visible import visible

_PIECE = 1 << 18
_LONGEST_NAME = 200
_CUT = "the body was cut short"


class RequestBody(Body):
    """That of one request, until it is closed; `check` raises once its caller may not go on."""

    def __init__(self, call: ApiCall, check: Callable[[], None]) -> None:
        named = call.request.headers.get("Content-Type", "").partition(";")[0]
        content_type = visible(named.strip().lower())[:_LONGEST_NAME]
        super().__init__(self._read(call, check), content_type, call.request.content_length)
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    async def _read(self, call: ApiCall, check: Callable[[], None]) -> AsyncIterator[bytes]:
        size, pieces = 0, call.chunks()
        while True:
            if self._is_closed:
                raise RequestBodyError("the body of a request can be read until it is answered")
            check()
            try:
                piece = await anext(pieces, b"")
            except web.HTTPRequestEntityTooLarge as error:
                raise BodyTooLargeError(
                    f"the body is larger than {call.route.largest_body:,} bytes, which is what "
                    "this call takes"
                ) from error
            except (ConnectionError, ClientError, BadHttpMessage, ValueError) as error:
                raise RequestBodyError(_CUT) from error
            size += len(piece)
            if not piece:
                break
            yield piece
        if self.size not in {None, size}:
            raise RequestBodyError(_CUT)


_WRITE_S = 30.0
_HEARTBEAT_S, _LOOK_S = 15.0, 0.25
_STILL_HERE = b": still here\n\n"


class ModuleStream:
    """A streamed answer; it ends with its reader, the module's generator, or the key."""

    def __init__(self, call: ApiCall) -> None:
        self.identity = call.identity
        self._request, self._response = call.request, web.StreamResponse(headers=STREAM_HEADERS)
        self._is_over = False
        self._writing = asyncio.Lock()
        self._wrote_at = time.monotonic()
        self._refusal: ParachuteError | None = None

    def end(self) -> None:
        self._is_over = True

    async def serve(self, items: AsyncIterator[object]) -> web.StreamResponse:
        """Raises what the generator raised before its first item."""
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write_all(items), name="a module's stream")
            while not writing.done():
                await asyncio.wait([writing], timeout=_LOOK_S)
                if not writing.done() and not await self._goes_on():
                    self._cut()
                    writing.cancel()
                    break
        if self._refusal is not None:
            raise self._refusal
        return self._response

    async def _goes_on(self) -> bool:
        """Whether its reader is there and may read; sends a sign of life now and then."""
        transport = self._request.transport
        if self._is_over or transport is None or transport.is_closing():
            return False
        if time.monotonic() - self._wrote_at >= _HEARTBEAT_S and not self._writing.locked():
            try:
                await self._write(_STILL_HERE)
            except (ConnectionError, TimeoutError):
                return False
        return True

    async def _write_all(self, items: AsyncIterator[object]) -> None:
        try:
            async for item in items:
                await self._write(_frame(item))
            await self._write(b"")
        except ParachuteError as error:
            if not self._response.prepared:
                self._refusal = error
                return
            said = json_bytes({"message": error.message})
            await self._write(b"event: error\ndata: " + said + b"\n\n")
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
    """JSON has no line ends, and names and ids no blanks, so neither ends the event."""
    if not isinstance(item, ServerEvent):
        return b"data: " + json_bytes(item) + b"\n\n"
    head = "".join(
        f"{field}: {value}\n"
        for field, value in (("id", item.id), ("event", item.event))
        if value is not None
    )
    return head.encode() + b"data: " + json_bytes(item.data) + b"\n\n"
