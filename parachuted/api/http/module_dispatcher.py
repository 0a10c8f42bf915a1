"""Module calls: what a module serves, authorized, limited and recorded as any other call; the
bodies that its routes take, and the event streams that they give.

A key needs a scope on the module; the handler is bounded by the permissions of the module.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from functools import partial
from http import HTTPStatus

from aiohttp import ClientError, web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.web_urldispatcher import MatchInfoError

from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.grant import CallerGrant
from parachuted.api.http.answers import (
    STREAM_HEADERS,
    bytes_answer,
    error_body,
    json_answer,
    json_bytes,
)
from parachuted.api.http.authenticator import unauthorized
from parachuted.api.http.route import ApiCall, Route, handler_of, json_object, query_values
from parachuted.errors import BodyTooLargeError, ParachuteError, RequestBodyError
from parachuted.keys import NOWHERE, Identity
from parachuted.modules.hosting.audited import para_ids_of
from parachuted.modules.hosting.exchange import ModuleRoute
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import ModuleFinding
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.registry.declaration import (
    RESERVED_PATHS,
    ModuleDeclaration,
    RouteSpec,
    reserved_path,
)
from parachuted.modules.results import Body, BytesResponse, Response, ServerEvent
from parachuted.texts.visible import visible
from parachuted.vault import new_id

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


_WORDS = (
    "agents audit auth bubble claude-code contexts curator docs doctor events files health "
    "history hooks import keys links logs ls maintenance mcps migration models modules notes "
    "openapi para pause permissions plugins problems prompt read resume runs sandbox scan "
    "scheduler search sessions settings skills status suggestions supervisor sync system tasks "
    "tls tools undo usage vault watches why workspaces write"
)
RESERVED = frozenset(_WORDS.split())
_PREFIX = "/api/"
_LONG_PREFIX = "/api/modules/"
_TOOL_WORDS = 3
_START_S = 30.0
_RETRY_AFTER_S = 2


class ModuleDispatcher:
    def __init__(
        self,
        modules: ModuleManager,
        holds: Callable[[Identity], bool],
        clock: Callable[[], datetime],
    ) -> None:
        """`holds`: whether a caller may go on."""
        self._modules, self._holds, self._clock = modules, holds, clock
        self._streams: set[ModuleStream] = set()

    async def wait_started(self) -> bool:
        """Whether all modules have started; waits some seconds."""
        return await self._modules.wait_started(_START_S)

    def find(self, request: web.Request) -> tuple[Route, dict[str, str]] | None:
        """The route that a module declares, and the values in its path; None: no module has one."""
        for path in _places(request):
            route = self._modules.routes.find(request.method, path)
            if route is not None:
                return self._route(request.method, route), dict(route.path_values)
        path = request.rel_url.path_safe
        other = self._tool(request.method, path) or self._unserved(request.method, path)
        return None if other is None else (other, {})

    def is_starting(self, request: web.Request) -> bool:
        paths = _places(request)
        names = {path.removeprefix(_PREFIX).partition("/")[0] for path in paths}
        names |= {RESERVED_PATHS[place] for place in map(reserved_path, paths) if place is not None}
        return not names.isdisjoint(self._starting())

    def _route(self, method: str, route: ModuleRoute) -> Route:
        spec = route.spec
        return Route(
            method=method,
            path=f"{spec.prefix or _PREFIX + route.host.name}{spec.path}",
            module=route.host.name,
            capability=None if spec.secret_header else spec.capability,
            handle=partial(self._serve, route.host, spec),
            largest_body=spec.max_bytes,
            recorded_as="module_call",
        )

    def declared(self) -> list[ModuleDeclaration]:
        return [host.declared for host in self._modules.hosts()]

    def methods(self, request: web.Request) -> tuple[str, ...]:
        return next(filter(None, map(self._modules.routes.allowed, _places(request))), ())

    def _tool(self, method: str, path: str) -> Route | None:
        """The route of a tool, or of a command as the command line calls it."""
        words = path.removeprefix(_LONG_PREFIX).removeprefix(_PREFIX).split("/")
        if method != "POST" or len(words) != _TOOL_WORDS or words[1] not in {"tools", "commands"}:
            return None
        module, kind, name = words
        offered = (
            [(one, spec.name) for one, spec in self._modules.tools()]
            if kind == "tools"
            else [(one.name, spec.name) for one in self.declared() for spec in one.commands]
        )
        if (module, name) not in offered:
            return None
        return Route(
            method="POST",
            path=f"{_LONG_PREFIX}{module}/{kind}/{name}",
            module=module,
            capability="write",
            handle=partial(self._call_named, kind, module, name),
            recorded_as="module_call",
        )

    async def findings(self, call: ApiCall) -> list[ModuleFinding]:
        return await self._modules.findings(self.caller(call))

    def _unserved(self, method: str, path: str) -> Route | None:
        """The answer at a place reserved for a module that does not serve it."""
        place = reserved_path(path)
        served = {route.prefix for module in self.declared() for route in module.routes}
        if place is None or place in served or RESERVED_PATHS[place] in self._starting():
            return None
        return Route(
            method=method,
            path=place,
            module=RESERVED_PATHS[place],
            capability="read",
            handle=partial(_refuse_unserved, place),
            recorded_as="module_call",
        )

    def _starting(self) -> set[str]:
        return {one.name for one in self._modules.status() if one.status == "starting"}

    def recheck(self) -> None:
        """End the streams of callers whose key is gone or changed."""
        for stream in tuple(self._streams):
            if not self._holds(stream.identity):
                stream.end()

    async def close(self) -> None:
        for stream in tuple(self._streams):
            stream.end()

    async def _serve(self, host: ModuleHost, spec: RouteSpec, call: ApiCall) -> web.StreamResponse:
        query = _query(call.request.rel_url.raw_query_string)
        last, known = call.request.headers.get("Last-Event-ID"), spec.schema.get("properties")
        if spec.streams and last and isinstance(known, Mapping) and "after" in known:
            query["after"] = last  # the reader's last event, which is newer than the address
        caller = self.caller(call)
        if spec.secret_header:  # before anything is read of the body
            caller = Caller(grant=CallerGrant(NOWHERE, NOWHERE))
            await self._check_secret(host, spec, call.request, caller)
        body = {} if spec.takes_body else await _body(call)
        source = RequestBody(call, caller.check) if spec.takes_body else None
        parts = RequestParts(
            path=dict(call.request.match_info),
            query=query,
            tolerant=spec.tolerant,
            source=source,
        )
        handler_call = HandlerCall(spec.handler, body, caller, spec.timeout_s, parts)
        try:
            if spec.streams:
                return await self._stream(call, host.stream(handler_call))
            result = await host.call(handler_call)
        finally:
            if source is not None:
                source.close()
        if isinstance(result, BytesResponse):
            return bytes_answer(result.data, result.content_type, result.filename)
        response = result if isinstance(result, Response) else Response(body=result)
        answer = json_answer(
            _body_with_message(response, call.id), status=response.status, headers=response.headers
        )
        # Most name none, and it is cheaper to look at the bytes than at the values.
        if isinstance(answer.body, bytes) and b'"para_id' in answer.body:
            call.para_ids += para_ids_of(response.body)
        return answer

    async def _check_secret(
        self, host: ModuleHost, spec: RouteSpec, request: web.Request, caller: Caller
    ) -> None:
        """Raises HTTPForbidden for an untrusted module, HTTPUnauthorized for a wrong secret."""
        approved = self._modules.approved(host.declared.name)
        if approved is None or approved.trust == "untrusted":
            raise web.HTTPForbidden(text="an untrusted module lets no one in without a key")
        secret = await host.call(HandlerCall("route_secret", {"path": spec.path}, caller))
        sent = request.headers.getall(spec.secret_header, [""])[0]
        expected = str(secret or "").encode()
        is_right = hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), expected)
        if not (expected and is_right):
            raise unauthorized(f"a secret is needed in {spec.secret_header}")

    async def _call_named(
        self, kind: str, module: str, name: str, call: ApiCall
    ) -> web.StreamResponse:
        modules = self._modules
        ask = modules.call_tool if kind == "tools" else modules.call_command
        result = await ask(module, name, await _body(call), self.caller(call))
        call.para_ids += para_ids_of(result)
        return json_answer({"result": result})

    def caller(self, call: ApiCall) -> Caller:
        """The person asking, whose key has no paths; what follows ends with the key."""
        return Caller(
            request=WorkRequest(
                by="person",
                who=call.identity.name,
                key=call.identity.api_key,
                id=call.id,
                may_administer=call.identity.grant("curator", "admin") is not None,
                is_valid=lambda: self._holds(call.identity),
            ),
            causes=(new_id("c", self._clock()),),
        )

    async def _stream(self, call: ApiCall, items: AsyncIterator[object]) -> web.StreamResponse:
        """Server-sent events; what fails before the first is an answer, later an event `error`."""
        stream = ModuleStream(call)
        self._streams.add(stream)
        try:
            async with aclosing(items):  # type: ignore[type-var]
                return await stream.serve(items)
        finally:
            self._streams.discard(stream)


async def _refuse_unserved(place: str, _call: ApiCall) -> web.StreamResponse:
    module = RESERVED_PATHS[place]
    raise web.HTTPNotImplemented(
        text=f"{place} is kept for the module {module}, and no module that runs serves it"
    )


def _places(request: web.Request) -> tuple[str, ...]:
    """`/api/modules/<word>` is also `/api/<word>`. Decoded but for `%2F` and `%25`."""
    path = request.rel_url.path_safe
    is_long = path.startswith(_LONG_PREFIX)
    return (path, _PREFIX + path.removeprefix(_LONG_PREFIX)) if is_long else (path,)


def _body_with_message(response: Response, request_id: str) -> object:
    """The body; of an error with the fields that all have, over which the module's go."""
    body = response.body
    if response.status < HTTPStatus.BAD_REQUEST:
        return body
    name = "message" if isinstance(body, str) else "body"
    own = body if isinstance(body, Mapping) else {name: body}
    said = [text for name in ("message", "error") if isinstance(text := own.get(name), str)]
    message = said[0] if said else "the module answers with an error"
    ours = error_body(response.status, message, request_id)
    meant = {
        name: value for name, value in own.items() if name not in ours or isinstance(value, str)
    }
    return {**ours, **meant}


def _query(text: str) -> dict[str, str | list[str]]:
    found = query_values(text, errors="replace")
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


async def _body(call: ApiCall) -> Mapping[str, object]:
    return json_object(await call.content())


class ModuleResource(web.DynamicResource):
    """All paths below /api that no route of the core's has: the router asks longer ones first."""

    def __init__(self, served: ModuleDispatcher) -> None:
        super().__init__("/api/{module}/{path}")
        self._served, self._has_started = served, False

    async def resolve(
        self, request: web.Request
    ) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        if not self._has_started:
            self._has_started = await self._served.wait_started()
        found = self._served.find(request)
        if found is not None:
            route, names = found
            reached = web.ResourceRoute(route.method, handler_of(route), self)
            return web.UrlMappingMatchInfo(names, reached), set()
        if self._has_started and not self._served.is_starting(request):
            return None, set(self._served.methods(request))
        # a 404 would say that no module has the route
        error = web.HTTPServiceUnavailable(
            text="the modules are still starting; ask again in a few seconds",
            headers={"Retry-After": str(_RETRY_AFTER_S)},
        )
        return MatchInfoError(error), set()
