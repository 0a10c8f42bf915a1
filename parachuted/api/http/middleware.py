"""Middleware: what every request passes, once and in this order: the guard, authentication,
authorization, the route, the error, the audit.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol, TypeAlias

from aiohttp import web

from parachuted.access.filter import AccessFilter
from parachuted.api.http.answers import answer_to, http_sentence
from parachuted.api.http.host_guard import HostGuard, MiddlewareHandler
from parachuted.api.http.route import SMALL_BODY, ApiCall, Route
from parachuted.audit.chain import AuditEvent, AuditRecorder
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.keys import EVERYWHERE, NOBODY, NOWHERE, Identity
from parachuted.vault import Caller, VaultRoot, printable

Reached: TypeAlias = tuple[Route, Mapping[str, str]]
"""The route that a request means, and what stands in the place of its names."""

GONE = 499
_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_APP = "Dart/"
_PATHS = frozenset({"path", "file"})
_LONG = 600
_WRONG = 400
_NAME = re.compile(r"\{(\w+):[^{}]*\}")


def event_of(
    request: web.Request,
    reached: Reached | None,
    caller: Caller,
    call: ApiCall | None,
    *,
    at: datetime,
    took_ms: float,
    status: int,
    error: BaseException | None,
) -> AuditEvent:
    """The event. `at` is when it was over."""
    route, names = reached if reached is not None else (None, _NO_NAMES)
    return AuditEvent(
        at,
        route.recorded_as if route is not None else "api_call",
        caller.source_type,
        caller.source_id,
        route.module if route is not None else "",
        f"{request.method} {_shown(route.path)}"
        if route is not None
        else f"{request.method[:_LONG]} (no such call)",
        call.para_ids if call is not None else (),
        took_ms,
        error is None and status < _WRONG,
        _reason(error, status),
        caller.request_id,
        status,
        _paths(call, names),
        _names(request, caller, names),
    )


def caller_of(request: web.Request, identity: Identity, call_id: str) -> Caller:
    """Who asks. A key counts more than what a program calls itself, which it may do as it likes."""
    if identity.kind != "loopback":
        return Caller("api_key", identity.name, call_id, identity.limited_key)
    return Caller(
        "flutter_app" if _APP in request.headers.get("User-Agent", "") else "local",
        identity.name,
        call_id,
    )


@lru_cache(maxsize=1024)
def _shown(path: str) -> str:
    """A route's path as people write it: with its names, without what they match."""
    return _NAME.sub(r"{\1}", path)


def _paths(call: ApiCall | None, names: Mapping[str, str]) -> list[str]:
    """The files that were touched, as far as the call tells, else those that the route's path
    names.
    """
    if call is not None and call.touched:
        return [printable(path[:_LONG]) for path in call.touched]
    return (
        [printable(text[:_LONG]) for name, text in names.items() if name in _PATHS] if names else []
    )


def _names(request: web.Request, caller: Caller, names: Mapping[str, str]) -> list[str]:
    """What stands in the place of the route's names; of who shows no key or a wrong one, also where
    they are.
    """
    found = (
        [f"{name}={text[:_LONG]}" for name, text in names.items() if name not in _PATHS]
        if names
        else []
    )
    return [*found, f"peer={request.remote}"] if caller.source_id == NOBODY.name else found


def _reason(error: BaseException | None, status: int) -> str | None:
    """Why there was no answer but an error; None when there was one."""
    if error is None:
        return None if status < _WRONG else f"answered {status}"
    if isinstance(error, ParachuteError):
        return error.message[:_LONG]
    if isinstance(error, web.HTTPException):
        return http_sentence(error)[:_LONG]
    return (
        "it was ended before it was answered"
        if isinstance(error, asyncio.CancelledError)
        else type(error).__name__
    )


log = logging.getLogger(__name__)

_FORM = re.compile(r"multipart/form-data\s*;(.*;)?\s*boundary=\"?[^\";,]{1,70}", re.IGNORECASE)


class Authenticator(Protocol):
    def identify(self, request: web.Request) -> Identity:
        """The identity, NOBODY where no key is given.

        Raises HTTPUnauthorized for a wrong key, HTTPTooManyRequests after many.
        """


class ApiMiddleware:
    def __init__(
        self,
        guard: HostGuard,
        authenticator: Authenticator,
        root: VaultRoot,
        audit: AuditRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        self.guard, self._authenticator, self._root, self._audit, self._clock = (
            guard,
            authenticator,
            root,
            audit,
            clock,
        )
        self._whole = AccessFilter(root, EVERYWHERE)
        self._life, self._numbers = secrets.token_hex(4), itertools.count(1)

    @web.middleware
    async def answer(self, request: web.Request, handler: MiddlewareHandler) -> web.StreamResponse:
        """Answer the request, whatever happens; then record it."""
        began, call_id = time.perf_counter(), f"{self._life}{next(self._numbers):x}"
        caller = Caller("api_key", NOBODY.name, call_id)
        route = getattr(request.match_info.handler, "__self__", None)
        route = route if isinstance(route, Route) else None
        reached = (route, request.match_info) if route is not None else None
        call, status = None, GONE
        error: BaseException | None = None
        try:
            self._refuse_foreign(request)
            asked = self.guard.preflight(request)
            if asked is not None:
                status = asked.status
                return asked
            _refuse_unreadable(request, route)
            identity = self._authenticator.identify(request)
            caller = caller_of(request, identity, call_id)
            call = self._admitted(request, route, identity, caller)
            response = await (call.route.handle(call) if call is not None else handler(request))
            status = response.status
        except asyncio.CancelledError as raised:
            error = raised
            raise
        except Exception as raised:  # noqa: BLE001  every error has an answer
            error = raised
            response = answer_to(raised, request, call_id)
            status = response.status
        finally:
            self._record(request, reached, caller, call, began, status, error)
        return response

    def _record(
        self,
        request: web.Request,
        reached: Reached | None,
        caller: Caller,
        call: ApiCall | None,
        began: float,
        status: int,
        error: BaseException | None,
    ) -> None:
        took_ms = (time.perf_counter() - began) * 1000
        at = self._clock()
        event = event_of(
            request, reached, caller, call, at=at, took_ms=took_ms, status=status, error=error
        )
        self._audit.record(event)

    def _admitted(
        self, request: web.Request, route: Route | None, identity: Identity, caller: Caller
    ) -> ApiCall | None:
        """The call on the route that was reached, or None where there is none.

        401 without a key and 403 beyond scope, before anything of the route is said.
        """
        if route is None:
            if not identity.scopes:
                raise _keyless()
            return None
        grant = (
            NOWHERE if route.capability is None else identity.grant(route.module, route.capability)
        )
        if grant is None:
            if identity.kind == "nobody":
                raise _keyless()
            raise web.HTTPForbidden(
                text=f"this key lacks the scope {route.module}:{route.capability}"
            )
        if route.reach == "beyond" and grant.alternatives is not None:
            raise web.HTTPForbidden(
                text="this reaches beyond notes, and this key is for some paths of the vault"
            )
        if route.capability == "write" and self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        sight = self._whole if grant is EVERYWHERE else AccessFilter(self._root, grant)
        return ApiCall(
            request=request,
            route=route,
            identity=identity,
            caller=caller,
            grant=grant,
            sight=sight,
        )

    def _refuse_foreign(self, request: web.Request) -> None:
        reason = self.guard.refusal_of(request)
        if reason is not None:
            raise web.HTTPForbidden(text=reason)


def _keyless() -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(
        text="Valid API key required", headers={"WWW-Authenticate": "Bearer"}
    )  # as older apps know it


def _refuse_unreadable(request: web.Request, route: Route | None) -> None:
    """What no route takes is refused before anyone is asked who they are: compressed bodies, and
    larger ones than the route takes.
    """
    headers = request.headers
    if "Content-Encoding" in headers and headers["Content-Encoding"].lower() != "identity":
        raise web.HTTPUnsupportedMediaType(text="bodies are taken as they are, not compressed")
    is_form = headers.get("Content-Type", "").lower().startswith("multipart/")
    takes_form = route is not None and route.takes_form
    if is_form and not takes_form:
        raise web.HTTPUnsupportedMediaType(
            text="this call takes no multipart body; PUT /api/files/{path} takes a file itself"
        )
    if takes_form and not _FORM.match(headers.get("Content-Type", "")):
        raise web.HTTPUnsupportedMediaType(
            text="this call takes a form: a body of the type multipart/form-data, with a boundary"
        )
    if "Content-Length" not in headers:
        return
    length = request.content_length or 0
    most = route.largest_body if route is not None else SMALL_BODY
    if length > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=length)
