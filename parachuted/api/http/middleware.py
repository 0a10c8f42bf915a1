"""Middleware: what every request passes: guard, authentication, authorization, route, audit."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from http import HTTPStatus

from aiohttp import web

from parachuted.access.filter import AccessFilter
from parachuted.api.http.answers import answer_to
from parachuted.api.http.authenticator import KeyAuthenticator, unauthorized
from parachuted.api.http.host_guard import HostGuard, MiddlewareHandler
from parachuted.api.http.route import SMALL_BODY, ApiCall, Route, matched_route
from parachuted.audit.chain import AuditEvent, AuditRecorder
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.keys import BEYOND_PATHS, EVERYWHERE, NOBODY, NOWHERE, Identity
from parachuted.vault import Requester, VaultRoot, printable

GONE = 499
_BAD = int(HTTPStatus.BAD_REQUEST)
_PATHS = frozenset({"path", "file"})
_LONG = 600
_NAME = re.compile(r"\{(\w+):[^{}]*\}")


def event_of(
    request: web.Request,
    route: Route | None,
    requester: Requester,
    call: ApiCall | None,
    *,
    at: datetime,
    took_ms: float,
    status: int,
    error: BaseException | None,
) -> AuditEvent:
    # the files that were touched, as far as the call tells, else those that the route's path names
    paths = call.touched if call is not None else []
    others = []
    for name, text in request.match_info.items() if route is not None else ():
        if name not in _PATHS:
            others.append(f"{name}={text[:_LONG]}")
        elif not paths:
            paths = [text]
    if requester.source_id == NOBODY.name:
        others.append(f"peer={request.remote}")
    return AuditEvent(
        at,
        route.recorded_as if route is not None else "api_call",
        requester.source_type,
        requester.source_id,
        route.module if route is not None else "",
        _endpoint(request.method[:_LONG], route.path if route is not None else "(no such call)"),
        call.para_ids if call is not None else (),
        took_ms,
        error is None and status < _BAD,
        _reason(error, status),
        requester.request_id,
        status,
        [printable(path[:_LONG]) for path in paths],
        others,
    )


def requester_of(request: web.Request, identity: Identity, call_id: str) -> Requester:
    """A key counts more than what a program calls itself."""
    if identity.kind != "loopback":
        return Requester("api_key", identity.name, call_id, identity.limited_key)
    is_app = "Dart/" in request.headers.get("User-Agent", "")
    return Requester("flutter_app" if is_app else "local", identity.name, call_id)


@lru_cache(maxsize=1024)
def _endpoint(method: str, path: str) -> str:
    """The call without the patterns of the names in its path."""
    return f"{method} " + _NAME.sub(r"{\1}", path)


def _reason(error: BaseException | None, status: int) -> str | None:
    """The kind of error, for its message may quote a note; None when there was an answer."""
    if isinstance(error, ParachuteError):
        return error.kind()
    if error is None or isinstance(error, web.HTTPException):
        return f"answered {status}" if status >= _BAD else None
    is_ended = isinstance(error, asyncio.CancelledError)
    return "it was ended before it was answered" if is_ended else type(error).__name__


class ApiMiddleware:
    def __init__(
        self,
        guard: HostGuard,
        authenticator: KeyAuthenticator,
        root: VaultRoot,
        audit: AuditRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        self.guard, self._authenticator, self._root = guard, authenticator, root
        self._audit, self._clock = audit, clock
        self._whole = AccessFilter(root, EVERYWHERE)
        self._life, self._numbers = secrets.token_hex(4), itertools.count(1)

    @web.middleware
    async def answer(self, request: web.Request, handler: MiddlewareHandler) -> web.StreamResponse:
        began, call_id = time.perf_counter(), f"{self._life}{next(self._numbers):x}"
        requester = Requester("api_key", NOBODY.name, call_id)
        route = matched_route(request)
        call, status = None, GONE
        error: BaseException | None = None
        try:
            refusal = self.guard.refusal_of(request)
            if refusal is not None:
                raise web.HTTPForbidden(text=refusal)  # noqa: TRY301  every error has an answer here
            response: web.StreamResponse | None = self.guard.preflight(request)
            if response is None:
                _refuse_unreadable(request, route)
                identity = self._authenticator.identify(request)
                requester = requester_of(request, identity, call_id)
                call = self._admitted(request, route, identity, requester)
                response = await (handler(request) if call is None else call.route.handle(call))
            status = response.status
        except asyncio.CancelledError as raised:
            error = raised
            raise
        except Exception as raised:  # noqa: BLE001  every error has an answer
            error = raised
            if call is not None and call.touched:
                raised = await asyncio.to_thread(call.shown, raised)
            response = answer_to(raised, request, call_id)
            status = response.status
        finally:
            event = event_of(
                request,
                route,
                requester,
                call,
                at=self._clock(),
                took_ms=(time.perf_counter() - began) * 1000,
                status=status,
                error=error,
            )
            self._audit.record(event)
        return response

    def _admitted(
        self, request: web.Request, route: Route | None, identity: Identity, requester: Requester
    ) -> ApiCall | None:
        """The call on the matched route, or None. 401 without a key, 403 beyond its scope."""
        if route is None:
            if not identity.scopes:
                raise unauthorized()
            return None
        grant = (
            NOWHERE if route.capability is None else identity.grant(route.module, route.capability)
        )
        if grant is None and identity.kind == "nobody":
            raise unauthorized()
        if grant is None:
            raise web.HTTPForbidden(
                text=f"this key lacks the scope {route.module}:{route.capability}"
            )
        if route.capability is not None and identity.is_beyond(
            grant, for_path_keys=route.for_path_keys
        ):
            raise web.HTTPForbidden(text=BEYOND_PATHS)
        if route.capability == "write" and self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        return ApiCall(
            request=request,
            route=route,
            identity=identity,
            files=self._whole if grant is EVERYWHERE else AccessFilter(self._root, grant),
            requester=requester,
            is_valid=partial(self._authenticator.holds, identity)
            if identity.kind == "key"
            else lambda: True,
        )


def _refuse_unreadable(request: web.Request, route: Route | None) -> None:
    """Refuse what no route takes, before authentication: compressed bodies, and too large ones."""
    if not request.can_read_body:
        return
    headers = request.headers
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise web.HTTPUnsupportedMediaType(text="bodies are taken as they are, not compressed")
    if headers.get("Content-Type", "").lower().startswith("multipart/"):
        raise web.HTTPUnsupportedMediaType(
            text="this call takes no multipart body; PUT /api/files/{path} takes a file itself"
        )
    length = request.content_length or 0
    most = route.largest_body if route is not None else SMALL_BODY
    if length > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=length)
