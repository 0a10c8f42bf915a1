"""Recorded: a request as the audit tells of it.

Never what was sent in the query, a header or the body: the route's own pattern, what stands in the
place of its names, and the files.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from aiohttp import web

from parachuted.api.http.errors import http_sentence
from parachuted.api.http.route import ApiCall, Route
from parachuted.audit.events import AuditEvent
from parachuted.errors import ParachuteError
from parachuted.keys import NOBODY, Identity
from parachuted.vault import Caller, printable

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
