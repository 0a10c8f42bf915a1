"""Sign-in: who the caller is, and codes that open the page in a browser once.

A code is for an address, where a key must not stand: browsers keep addresses.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.answers import json_answer
from parachuted.api.http.authenticator import KeyAuthenticator
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, RequestModel
from parachuted.api.routes.keys import ScopeResponse
from parachuted.keys import Identity, mint, scope_document, time_text
from parachuted.times import Time

_MODULE = "system"
_CODE_LIVES = timedelta(minutes=5)
_KEY_LIVES = timedelta(days=90)
_MOST_CODES = 20
_NO_STORE = {"Cache-Control": "no-store"}


class CallerResponse(TypedDict):
    """Who asks: this machine, a key, or neither. Without scopes, a key is needed."""

    kind: Literal["loopback", "key", "nobody"]
    name: str
    scopes: list[ScopeResponse]


class SignInCodeResponse(TypedDict):
    """A code that makes a key once, until `expires_at`."""

    code: str
    expires_at: Time


class RedeemCodeRequest(RequestModel):
    """A code, and what its key is for, such as the name of a browser."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    label: Annotated[str, Field(min_length=1, max_length=60)] = "browser"


class RedeemedKeyResponse(TypedDict):
    """The key that a code made, shown once."""

    key: str
    id: str
    label: str
    expires_at: Time


@dataclass(frozen=True, slots=True)
class _Code:
    """A code as it is remembered: by its digest, with who asked for it."""

    digest: bytes
    maker: Identity
    ends: datetime


class SignInRoutes:
    """The routes that the page signs in with. Codes are forgotten when the daemon ends."""

    def __init__(self, authenticator: KeyAuthenticator, clock: Callable[[], datetime]) -> None:
        self._authenticator, self._clock = authenticator, clock
        self._codes: dict[bytes, _Code] = {}

    @get("/api/auth/me", _MODULE, None, reach="nothing")
    async def me(self, call: ApiCall) -> CallerResponse:
        """Who the caller is to the daemon, and what they may do."""
        who = call.identity
        scopes = [scope_document(scope) for scope in who.scopes]
        return {"kind": who.kind, "name": who.name, "scopes": scopes}  # type: ignore[typeddict-item]

    @post("/api/auth/codes", _MODULE, "admin", reach="beyond", answers={201: SignInCodeResponse})
    async def create(self, call: ApiCall) -> web.Response:
        """Make a code that opens the web page once, with the rights of its maker.

        Redeemed within five minutes, it gives a key that lasts 90 days, and no longer than the key
        of its maker.
        """
        now = self._clock()
        self._codes = {key: one for key, one in self._codes.items() if one.ends > now}
        if len(self._codes) >= _MOST_CODES:
            self._codes.pop(next(iter(self._codes)))
        code = secrets.token_urlsafe(24)
        made = _Code(_digest(code), call.identity, now + _CODE_LIVES)
        self._codes[made.digest] = made
        return json_answer(
            {"code": code, "expires_at": time_text(made.ends)}, status=201, headers=_NO_STORE
        )

    @post(
        "/api/auth/codes/redeem",
        _MODULE,
        None,
        reach="nothing",
        answers={201: RedeemedKeyResponse},
    )
    async def redeem(self, body: RedeemCodeRequest) -> web.Response:
        """Exchange a code for a key. Each code serves once."""
        now = self._clock()
        code = self._codes.pop(_digest(body.code), None)
        if code is None or code.ends <= now or not self._authenticator.holds(code.maker):
            raise web.HTTPNotFound(
                text="this code was used, or is over; `parachute open` makes another"
            )
        ends = self._end(code.maker, now + _KEY_LIVES)
        label = f"{' '.join(body.label.split())} {now:%Y-%m-%d} {secrets.token_hex(2)}"
        try:
            maker = code.maker.id if code.maker.kind == "key" else None
            made = mint(label, code.maker.scopes, now=now, expires=ends, parent=maker)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        await asyncio.to_thread(self._authenticator.ring.file.add, made.key)
        self._authenticator.look()
        answer = {"key": made.secret, "id": made.key.id, "label": label}
        return json_answer(
            {**answer, "expires_at": time_text(made.key.expires)}, status=201, headers=_NO_STORE
        )

    def _end(self, maker: Identity, latest: datetime) -> datetime:
        """A key makes none that lasts longer than itself."""
        ring = self._authenticator.ring
        own = next((key for key in ring.keys if maker.kind == "key" and key.id == maker.id), None)
        return min(latest, own.expires) if own is not None and own.expires else latest


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).digest()
