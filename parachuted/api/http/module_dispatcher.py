"""Module calls: what a module serves, reached as any call of ours is: known, allowed, limited and
recorded by the front.

A key needs a scope on the module. What the handler then touches of the vault is bounded by the
module's permissions, and by the paths of that scope besides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl

from aiohttp import web

from parachuted.access.authority import Authority
from parachuted.api.http.answers import json_answer, json_bytes, json_value
from parachuted.api.http.errors import error_body
from parachuted.api.http.route import ApiCall, Route
from parachuted.errors import ParachuteError
from parachuted.keys import Capability, Identity
from parachuted.modules.hosting.audited import para_ids_of
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.route_table import MatchedRoute
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.registry.declaration import RouteSpec
from parachuted.modules.results import Response
from parachuted.vault import new_id

RESERVED = frozenset(
    word
    for words in (
        (
            "agents audit auth bubble contexts curator docs doctor events files health history "
            "hooks "
            "keys links logs ls maintenance mcps"
        ),
        (
            "migration models modules notes openapi pause permissions plugins problems prompt read "
            "resume runs sandbox scan scheduler search"
        ),
        (
            "sessions settings skills status suggestions supervisor sync system tasks tools undo "
            "usage vault watches why workspaces"
        ),
        "write",
    )
    for word in words.split()
)  # words below /api that are, or may come to be, the core's own
_STREAM = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_PREFIX = "/api/"
_LONG_PREFIX = "/api/modules/"
_TOOL_WORDS = 3
_START_S = 5.0
_LARGEST_BODY = 16 << 20
_WRITE_S = 30.0
_HEARTBEAT_S, _LOOK_S = 15.0, 0.25
_STILL_HERE = b": still here\n\n"


class ModuleDispatcher:
    """Finds the module that answers a request that none of our own routes took."""

    def __init__(
        self,
        modules: ModuleManager,
        holds: Callable[[Identity], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._modules, self._holds, self._clock = modules, holds, clock
        self._streams: set[_Stream] = set()
        self._routes: dict[tuple[str, str, str], tuple[RunningModule, RouteSpec, Route]] = {}

    async def wait_started(self) -> None:
        """Return once all modules have begun, or after some seconds: one that takes longer is not
        there yet.
        """
        await self._modules.wait_started(_START_S)

    def find(self, request: web.Request) -> tuple[Route, dict[str, str]] | None:
        """The route as a declaration that the front can judge, and what its path says; None: no
        module has one.
        """
        path = _place(request)
        found = self._modules.find(request.method, path)
        if found is None:
            tool = self._tool(request.method, path)
            return None if tool is None else (tool, {})
        return self._route(request.method, found), found.path_values

    def _route(self, method: str, found: MatchedRoute) -> Route:
        """The declaration, made at the first request and again when the module was begun anew."""
        spec, place = found.spec, (method, found.module, found.spec.path)
        known = self._routes.get(place)
        if known is None or known[0] is not found.running or known[1] is not spec:
            route = Route(
                method=method,
                path=f"{_PREFIX}{found.module}{spec.path}",
                module=found.module,
                summary=spec.summary,
                capability=cast(Capability, spec.capability),
                reach="paths",
                handle=partial(self._serve, found.running, spec),
                largest_body=_LARGEST_BODY,
                recorded_as="module_call",
            )
            known = self._routes[place] = (found.running, spec, route)
        return known[2]

    def methods(self, request: web.Request) -> tuple[str, ...]:
        """The methods that some module answers at that path; none: there is no such path."""
        return self._modules.allowed(_place(request))

    def _tool(self, method: str, path: str) -> Route | None:
        """`POST /api/modules/{name}/tools/{tool}`: any tool of a module may be tried as a call."""
        words = path.removeprefix(_PREFIX).split("/")
        if method != "POST" or len(words) != _TOOL_WORDS or words[1] != "tools":
            return None
        module, _, tool = words
        if not any(name == module and spec.name == tool for name, spec in self._modules.tools()):
            return None
        return Route(
            method="POST",
            path=f"{_LONG_PREFIX}{module}/tools/{tool}",
            module=module,
            capability="write",
            reach="paths",
            summary="A tool.",
            handle=partial(self._call_tool, module, tool),
            recorded_as="module_call",
        )

    def recheck(self) -> None:
        """End the streams of those who would not be let in as they were."""
        for stream in tuple(self._streams):
            if not self._holds(stream.identity):
                stream.end()

    async def close(self) -> None:
        """End every stream."""
        for stream in tuple(self._streams):
            stream.end()

    async def _serve(
        self, running: RunningModule, spec: RouteSpec, call: ApiCall
    ) -> web.StreamResponse:
        query, body = _query(call.request.rel_url.raw_query_string), await _body(call)
        path, authority = dict(call.request.match_info), self._authority(call)
        if spec.streams:
            return await self._stream(
                call,
                running.stream(spec.handler, body, path=path, query=query, authority=authority),
            )
        result = await running.call(
            spec.handler,
            body,
            path=path,
            query=query,
            timeout_s=spec.timeout_s,
            authority=authority,
        )
        answer = _answer(result, call.id)
        if b'"para_id' in cast(
            bytes, answer.body
        ):  # most name none, and to look at the bytes is cheaper than at the values
            call.para_ids += para_ids_of(result.body if isinstance(result, Response) else result)
        return answer

    async def _call_tool(self, module: str, tool: str, call: ApiCall) -> web.StreamResponse:
        body = await _body(call)
        result = await self._modules.call_tool(module, tool, body, self._authority(call))
        call.para_ids += para_ids_of(result)
        return json_answer({"result": result})

    def _authority(self, call: ApiCall) -> Authority:
        """A person asked, through that key or the page: what follows from it reaches no further
        than the key, and not for longer.
        """
        return Authority(
            reads=call.grant,
            writes=call.grant,
            holds=lambda: self._holds(call.identity),
            causes=(new_id("c", self._clock()),),
            asked_by="person",
            request_id=call.id,
        )

    async def _stream(self, call: ApiCall, items: AsyncIterator[object]) -> web.StreamResponse:
        """Server-sent events.

        What is wrong before the first is an answer of its own, what goes wrong later an event
        `error`.
        """
        stream = _Stream(call)
        self._streams.add(stream)
        try:
            async with aclosing(items):  # type: ignore[type-var]
                return await stream.serve(items)
        finally:
            self._streams.discard(stream)


class _Stream:
    """One answer that goes on.

    It ends with its reader, with the module's generator, or with the key that opened it.
    """

    def __init__(self, call: ApiCall) -> None:
        self.identity = call.identity
        self._request, self._response = call.request, web.StreamResponse(headers=_STREAM)
        self._is_over = asyncio.Event()
        self._writing = asyncio.Lock()
        self._wrote_at = time.monotonic()
        self._refusal: ParachuteError | None = None

    def end(self) -> None:
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
                await self._write(b"data: " + json_bytes(item) + b"\n\n")
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


def _place(request: web.Request) -> str:
    """What a module is asked for: below `/api/<word>` or, as the app has it, below
    `/api/modules/<word>`.

    Decoded, except for `%2F`, which separates nothing, and `%25`.
    """
    path = request.rel_url.path_safe
    return _PREFIX + path.removeprefix(_LONG_PREFIX) if path.startswith(_LONG_PREFIX) else path


def _answer(result: object, request_id: str) -> web.Response:
    if not isinstance(result, Response):
        return json_answer(result)
    body = (
        result.body
        if result.status < HTTPStatus.BAD_REQUEST
        else _error(result.status, result.body, request_id)
    )
    return json_answer(body, status=result.status, headers=result.headers)


def _error(status: int, body: object, request_id: str) -> dict[str, object]:
    """An error of a module: the fields that every error has, over which all that the module says
    goes. What is no object is its `body`.
    """
    own = (
        body
        if isinstance(body, Mapping)
        else {"message": body}
        if isinstance(body, str)
        else {"body": body}
    )
    said = [text for name in ("message", "error") if isinstance(text := own.get(name), str)]
    message = said[0] if said else "the module answers with an error"
    ours = error_body(status, message, request_id)
    return {
        **ours,
        **{
            name: value for name, value in own.items() if name not in ours or isinstance(value, str)
        },
    }


def _query(text: str) -> Mapping[str, str | list[str]]:
    if not text:
        return {}
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=1_000)
    except ValueError as error:
        raise web.HTTPBadRequest(text="the query holds too many names") from error
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


async def _body(call: ApiCall) -> Mapping[str, object]:
    content = await call.content()
    if not content:
        return {}
    try:
        document = json_value(content)
    except ValueError as error:
        raise web.HTTPBadRequest(text="the body is not JSON") from error
    if not isinstance(document, dict):
        raise web.HTTPBadRequest(text="the body must be a JSON object")
    return document
