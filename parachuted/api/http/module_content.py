"""Module content: what routes of modules take and give: request bodies, event streams and pages."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import ClientError, web
from aiohttp.http_exceptions import BadHttpMessage

from parachuted.api.http.answers import STREAM_HEADERS, json_bytes
from parachuted.api.http.route import ApiCall, Route, is_known
from parachuted.errors import BodyTooLargeError, ParachuteError, RequestBodyError
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.results import ServerEvent, StreamOpened
from parachuted.texts.visible import visible

_PIECE = 1 << 18
_LONGEST_NAME = 200
_CUT = "the body was cut short"


class RequestBody:
    """The `BodySource` of one request; `check` raises once its caller may not go on."""

    def __init__(self, call: ApiCall, check: Callable[[], None]) -> None:
        self._call, self._check = call, check
        self._request = call.request
        self._pieces: AsyncIterator[bytes] | None = None
        self._size = 0
        self._reading = asyncio.Lock()
        self._is_closed = False

    @property
    def content_type(self) -> str:
        named = self._request.headers.get("Content-Type", "")
        return visible(named.partition(";")[0].strip().lower())[:_LONGEST_NAME]

    @property
    def size(self) -> int | None:
        return self._request.content_length

    def close(self) -> None:
        self._is_closed = True

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        async with self._reading:
            if self._is_closed:
                raise RequestBodyError("the body of a request can be read until it is answered")
            self._check()
            try:
                if self._pieces is None:
                    self._pieces = self._call.chunks()
                piece = await anext(self._pieces, b"")
            except web.HTTPRequestEntityTooLarge as error:
                raise BodyTooLargeError(
                    f"the body is larger than {self._call.route.largest_body:,} bytes, which is "
                    "what this call takes"
                ) from error
            except (ConnectionError, ClientError, BadHttpMessage, ValueError) as error:
                raise RequestBodyError(_CUT) from error
            self._size += len(piece)
            if not piece and self.size not in {None, self._size}:
                raise RequestBodyError(_CUT)
            return piece


_WRITE_S = 30.0
_HEARTBEAT_S, _LOOK_S = 15.0, 0.25
_STILL_HERE = b": still here\n\n"
_OPENED = b": open\n\n"


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


_TYPES = {
    **{f".{kind}": f"text/{kind}; charset=utf-8" for kind in ("html", "css")},
    **dict.fromkeys((".js", ".mjs"), "text/javascript; charset=utf-8"),
    ".json": "application/json; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
}
_COMMON = "base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
_TRUSTED = (
    f"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; {_COMMON}"
)
_UNTRUSTED = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
    f"'unsafe-inline'; img-src data:; {_COMMON}"
)
"""A page of the daemon's origin may do what its reader may, so one of a module that is not trusted
is of no origin: it reaches nothing, this API neither, and is one file.
"""


class ModulePages:
    def __init__(self, modules: ModuleManager) -> None:
        self._modules = modules

    def find(self, method: str, path: str) -> Route | None:
        if method not in {"GET", "HEAD"}:
            return None
        for declared in self._modules.declared():
            approved = self._modules.approved(declared.name)
            static = None if approved is None else approved.manifest.static
            if approved is None or static is None:
                continue
            base = f"{approved.manifest.prefix}/{static.prefix}"
            if path == base or path.startswith(f"{base}/"):
                return Route(
                    method=method,
                    path=f"{base}/{{path}}",
                    module=approved.name,
                    capability="read",
                    handle=partial(_answer, approved, base, path.removeprefix(base)),
                    recorded_as="module_call",
                )
        return None


async def _answer(
    approved: ApprovedModule, base: str, rest: str, call: ApiCall
) -> web.StreamResponse:
    """The file in the approved copy, which is private and holds no links."""
    if not rest:
        return web.Response(status=308, headers={"Location": f"{base}/"})
    *folders, last = rest.removeprefix("/").split("/")
    names, static = [*folders, last or "index.html"], approved.manifest.static
    if static is None or any(_is_odd(name) for name in names):
        raise web.HTTPNotFound(text="unknown page")
    file = approved.copy.joinpath(static.folder, *names)
    try:
        data = await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        raise web.HTTPNotFound(text="unknown page") from error
    tag = hashlib.sha256(data).hexdigest()
    headers = {
        "ETag": f'"{tag}"',
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Type": _TYPES.get(file.suffix.lower(), "application/octet-stream"),
        "Content-Security-Policy": _UNTRUSTED if approved.trust == "untrusted" else _TRUSTED,
    }
    if is_known(call.request, tag):
        return web.Response(status=304, headers={"ETag": f'"{tag}"'})
    return web.Response(body=data, headers=headers)


def _is_odd(name: str) -> bool:
    return not name or name.startswith(".") or not {"%", "\\", "\0"}.isdisjoint(name)
