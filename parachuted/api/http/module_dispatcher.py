"""Module calls: what a module serves, reached as any other call is: known, allowed, limited and
recorded by the front.

A key needs a scope on the module. What the handler then touches of the vault is bounded by the
module's permissions, and by the paths of that scope besides.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import NoReturn, Protocol
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.web_urldispatcher import MatchInfoError

from parachuted.access.authority import Authority
from parachuted.access.filter import AccessFilter, unknown
from parachuted.access.grant import grant_of
from parachuted.access.paths import is_code
from parachuted.api.http.answers import error_body, json_answer, json_value
from parachuted.api.http.file_answers import FileAnswers, bytes_answer
from parachuted.api.http.module_content import ModulePages, ModuleStream, RequestBody
from parachuted.api.http.route import ApiCall, Route
from parachuted.keys import NOWHERE, AccessGrant, Identity
from parachuted.modules.hosting.audited import para_ids_of
from parachuted.modules.hosting.host import ModuleHost, RequestArguments
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.route_table import MatchedRoute
from parachuted.modules.registry.declaration import (
    KEPT_PATHS,
    ModuleDeclaration,
    RouteSpec,
    kept_path,
)
from parachuted.modules.results import BytesResponse, FileResponse, Finding, Response
from parachuted.vault import VaultPath, new_id

_WORDS = (
    "agents audit auth bubble claude-code contexts curator docs doctor events files health "
    "history hooks import keys links logs ls maintenance mcps migration models modules notes "
    "openapi para pause permissions plugins problems prompt read resume runs sandbox scan "
    "scheduler search sessions settings skills status suggestions supervisor sync system tasks "
    "tls tools undo usage vault watches why workspaces write"
)
RESERVED = frozenset(_WORDS.split())
"""Words below /api that are, or may come to be, the core's own."""

_PREFIX = "/api/"
_LONG_PREFIX = "/api/modules/"
_TOOL_WORDS = 3
_START_S = 30.0
_RETRY_AFTER_S = 2


class ModuleDispatcher:
    """Finds the module that answers a request that none of our own routes took."""

    def __init__(
        self,
        modules: ModuleManager,
        holds: Callable[[Identity], bool],
        refusal: Callable[[web.Request, str], web.HTTPException],
        clock: Callable[[], datetime],
        files: FileAnswers,
    ) -> None:
        """`holds`: whether a caller may go on; `refusal` answers a wrong secret."""
        self._modules, self._holds, self._clock, self._files = modules, holds, clock, files
        self._refusal = refusal
        self._pages = ModulePages(modules)
        self._streams: set[ModuleStream] = set()
        self._routes: dict[tuple[str, str, str], tuple[ModuleHost, RouteSpec, Route]] = {}

    async def wait_started(self) -> bool:
        """Return once all modules have started, or after some seconds; whether they have."""
        return await self._modules.wait_started(_START_S)

    def find(self, request: web.Request) -> tuple[Route, dict[str, str]] | None:
        """The route as a declaration that the front can judge, and what its path says; None: no
        module has one.
        """
        for path in _places(request):
            found = self._modules.find(request.method, path)
            if found is not None:
                return self._route(request.method, found), found.path_values
        path = request.rel_url.path_safe
        other = (
            self._tool(request.method, path)
            or self._pages.find(request.method, path)
            or self._unserved(request.method, path)
        )
        return None if other is None else (other, {})

    def is_starting(self, request: web.Request) -> bool:
        """Whether the module that its path names is about to have its routes."""
        paths = _places(request)
        names = {path.removeprefix(_PREFIX).partition("/")[0] for path in paths}
        names |= {KEPT_PATHS[kept] for kept in map(kept_path, paths) if kept is not None}
        return not names.isdisjoint(self._starting())

    def _route(self, method: str, found: MatchedRoute) -> Route:
        """The declaration, made at the first request and again after a restart of the module."""
        spec = found.spec
        path = f"{spec.prefix or _PREFIX + found.module}{spec.path}"
        place = (method, found.module, path)
        known = self._routes.get(place)
        if known is None or known[0] is not found.host or known[1] is not spec:
            route = Route(
                method=method,
                path=path,
                module=found.module,
                summary=spec.summary,
                capability=None if spec.secret_header else spec.capability,
                reach="paths",
                handle=partial(self._serve, found.host, spec),
                largest_body=spec.max_bytes,
                takes_form=spec.takes == "form",
                recorded_as="module_call",
            )
            known = self._routes[place] = (found.host, spec, route)
        return known[2]

    def declared(self) -> list[ModuleDeclaration]:
        return self._modules.declared()

    def methods(self, request: web.Request) -> tuple[str, ...]:
        """The methods that some module answers at that path; empty for an unknown path."""
        return next(filter(None, map(self._modules.allowed, _places(request))), ())

    def _tool(self, method: str, path: str) -> Route | None:
        """`POST /api/modules/{name}/tools/{tool}`: any tool of a module may be tried as a call; and
        `POST /api/modules/{name}/commands/{command}`, as the command line asks.
        """
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
            reach="paths",
            summary=f"A {kind.removesuffix('s')}.",
            handle=partial(self._call_named, kind, module, name),
            recorded_as="module_call",
        )

    async def findings(self, call: ApiCall) -> list[tuple[str, Finding]]:
        return await self._modules.findings(self.authority(call, call.grant))

    def _unserved(self, method: str, path: str) -> Route | None:
        """What answers at a place that is kept for a module, while that does not serve it."""
        kept = kept_path(path)
        served = {route.prefix for module in self._modules.declared() for route in module.routes}
        if kept is None or kept in served or KEPT_PATHS[kept] in self._starting():
            return None
        return Route(
            method=method,
            path=kept,
            module=KEPT_PATHS[kept],
            capability="read",
            reach="paths",
            summary="Not served.",
            handle=partial(_refuse_unserved, kept),
            recorded_as="module_call",
        )

    def _starting(self) -> set[str]:
        """The modules that may run and have neither their routes yet nor a failure."""
        return {one.name for one in self._modules.status() if one.state == "starting"}

    def recheck(self) -> None:
        """End the streams of those who would not be let in as they were."""
        for stream in tuple(self._streams):
            if not self._holds(stream.identity):
                stream.end()

    async def close(self) -> None:
        for stream in tuple(self._streams):
            stream.end()

    async def _serve(self, host: ModuleHost, spec: RouteSpec, call: ApiCall) -> web.StreamResponse:
        query = _query(call.request.rel_url.raw_query_string)
        authority = self.authority(call, call.grant)
        if spec.secret_header:  # before anything is read of the body
            authority = Authority(reads=NOWHERE, writes=NOWHERE)
            await self._check_secret(host, spec, call.request, authority)
        takes_json = spec.takes == "json"
        body = await _body(call) if takes_json and call.request.body_exists else {}
        source = None if takes_json else RequestBody(call, authority.check)
        sent: RequestArguments = {
            "path": dict(call.request.match_info),
            "query": query,
            "tolerant": spec.tolerant,
            "source": source,
        }
        try:
            if spec.streams:
                after = _resume(spec, call.request, query)
                items = host.stream(spec.handler, body, after=after, authority=authority, **sent)
                return await self._stream(call, items)
            result = await host.call(
                spec.handler, body, timeout_s=spec.timeout_s, authority=authority, **sent
            )
        finally:
            if source is not None:
                source.close()
        if isinstance(result, FileResponse):
            return await self._send_file(host, result, call)
        if isinstance(result, BytesResponse):
            return bytes_answer(result.data, result.content_type, result.filename)
        answer = _answer(result, call.id)
        # Most name none, and it is cheaper to look at the bytes than at the values.
        if isinstance(answer.body, bytes) and b'"para_id' in answer.body:
            call.para_ids += para_ids_of(result.body if isinstance(result, Response) else result)
        return answer

    async def _check_secret(
        self, host: ModuleHost, spec: RouteSpec, request: web.Request, authority: Authority
    ) -> None:
        """Raises HTTPForbidden for an untrusted module, and for a secret that is missing or wrong
        what a wrong key gets.
        """
        approved = self._modules.approved(host.declared.name)
        if approved is None or approved.trust == "untrusted":
            raise web.HTTPForbidden(text="an untrusted module lets no one in without a key")
        secret = await host.call("route_secret", {"path": spec.path}, authority=authority)
        shown = request.headers.getall(spec.secret_header, [""])[0]
        expected = str(secret or "").encode()
        is_right = hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), expected)
        if not (expected and is_right):
            raise self._refusal(request, f"a secret is needed in {spec.secret_header}")

    async def _send_file(
        self, host: ModuleHost, asked: FileResponse, call: ApiCall
    ) -> web.StreamResponse:
        """A file that the module names, if it and the caller may both read it."""
        path = VaultPath.parse(asked.path)
        call.touched.append(path)
        approved = self._modules.approved(host.name)
        reads = () if approved is None else approved.manifest.permissions.read
        own = AccessFilter(call.sight.root, grant_of(reads))

        def find(path: VaultPath) -> VaultPath:
            real = own.find(path)
            if is_code(path) or is_code(real):
                raise unknown(path)
            return call.sight.find(path)

        return await self._files.answer(call.request, path, find, filename=asked.filename)

    async def _call_named(
        self, kind: str, module: str, name: str, call: ApiCall
    ) -> web.StreamResponse:
        modules = self._modules
        ask = modules.call_tool if kind == "tools" else modules.call_command
        result = await ask(module, name, await _body(call), self.authority(call, call.grant))
        call.para_ids += para_ids_of(result)
        return json_answer({"result": result})

    def authority(self, call: ApiCall, grant: AccessGrant) -> Authority:
        """A person asked, through that key or the page: what follows from it reaches no further
        than the key, whose grant on the module that is, and not for longer.
        """
        return Authority(
            reads=grant,
            writes=grant,
            holds=lambda: self._holds(call.identity),
            causes=(new_id("c", self._clock()),),
            asked_by="person",
            caller=call.identity.api_key,
            request_id=call.id,
            may_administer=call.identity.grant("curator", "admin") is not None,
            who=call.identity.name,
        )

    async def _stream(self, call: ApiCall, items: AsyncIterator[object]) -> web.StreamResponse:
        """Server-sent events.

        What is wrong before the first is an answer of its own, what goes wrong later an event
        `error`.
        """
        stream = ModuleStream(call)
        self._streams.add(stream)
        try:
            async with aclosing(items):  # type: ignore[type-var]
                return await stream.serve(items)
        finally:
            self._streams.discard(stream)


async def _refuse_unserved(kept: str, _call: ApiCall) -> web.StreamResponse:
    raise web.HTTPNotImplemented(
        text=f"{kept} is kept for the module {KEPT_PATHS[kept]}, and no module that runs serves it"
    )


def _places(request: web.Request) -> tuple[str, ...]:
    """What a module may be asked for: below `/api/<word>` or, as the app has it, below
    `/api/modules/<word>`, which is also the same as the first.

    Decoded, except for `%2F`, which separates nothing, and `%25`.
    """
    path = request.rel_url.path_safe
    is_long = path.startswith(_LONG_PREFIX)
    return (path, _PREFIX + path.removeprefix(_LONG_PREFIX)) if is_long else (path,)


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
    goes. Anything but an object becomes its `body`.
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


def _resume(spec: RouteSpec, request: web.Request, query: dict[str, str | list[str]]) -> str | None:
    """The id of the last event that the reader has: by the header, which is newer, else `?after=`.

    A generator is given it as its parameter `after`, where it has one.
    """
    last = request.headers.get("Last-Event-ID") or None
    if spec.resumes:
        asked = query.pop("after", None)
        return last or (asked if isinstance(asked, str) else None)
    properties = spec.schema.get("properties")
    if last is not None and isinstance(properties, Mapping) and "after" in properties:
        query["after"] = last
    return None


def _query(text: str) -> dict[str, str | list[str]]:
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


class ModuleRouteLookup(Protocol):
    async def wait_started(self) -> bool:
        """Return once the modules of a daemon that has just started have their routes, or after a
        while; whether they have.
        """

    def find(self, request: web.Request) -> tuple[Route, dict[str, str]] | None: ...

    def is_starting(self, request: web.Request) -> bool:
        """Whether the module that its path names is about to have its routes."""

    def methods(self, request: web.Request) -> tuple[str, ...]:
        """The methods that are answered at its path."""


class ModuleResource(web.AbstractResource):
    """All paths below /api that no route of the core's has: the router asks the longer ones
    first.
    """

    def __init__(self, served: ModuleRouteLookup) -> None:
        super().__init__()
        self._served, self._has_started = served, False
        self._reached: dict[tuple[str, str], tuple[Route, web.ResourceRoute]] = {}

    @property
    def canonical(self) -> str:
        return "/api/{module}/{path}"

    async def resolve(
        self, request: web.Request
    ) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        if not self._has_started:
            self._has_started = await self._served.wait_started()
        found = self._served.find(request)
        if found is None:
            # a 404 would say that no module has the route
            if not self._has_started or self._served.is_starting(request):
                return MatchInfoError(_still_starting()), set()
            return None, set(self._served.methods(request))
        route, names = found
        known = self._reached.get((route.method, route.path))
        if known is None or known[0] is not route:
            known = self._reached[route.method, route.path] = (
                route,
                web.ResourceRoute(route.method, route.serve, self),
            )
        return web.UrlMappingMatchInfo(names, known[1]), set()

    def url_for(self, **names: str) -> NoReturn:
        raise NotImplementedError(str(names))

    def add_prefix(self, prefix: str) -> None:
        raise NotImplementedError(prefix)

    def get_info(self) -> dict[str, str]:  # type: ignore[override]  # aiohttp has a type of its own for it
        return {"path": self.canonical}

    def raw_match(self, path: str) -> bool:
        return path == self.canonical

    def __len__(self) -> int:
        """It declares no route: those of modules are found as they are asked for."""
        return 0

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter(())


def _still_starting() -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(
        text="the modules are still starting; ask again in a few seconds",
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )
