"""Keys: the routes that make and revoke keys, say who needs one, and sign a browser in.

A key has power over keys that may do no more than itself. A code is for an address, which browsers
keep.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import AfterValidator, Field

from parachuted.api.http.authenticator import KeyAuthenticator, Mode
from parachuted.api.http.decorators import delete, get, post, put
from parachuted.api.http.route import ApiCall, AppRequestModel, RequestModel
from parachuted.errors import NotFoundError
from parachuted.keys import (
    EVERYTHING,
    KNOWN_MODULES,
    USUAL,
    ApiKey,
    Identity,
    KeyScope,
    is_narrower,
    mint,
    parse_end,
)
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.processes.addresses import qr_rows

_MODULE = "system"
_CODE_LIVES = timedelta(minutes=5)
_KEY_LIVES = timedelta(days=90)
_MOST_CODES = 20
_MOST_PATHS = 100
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)  # what the app reads must be a time


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedKey:
    """`label` and `name` are the same."""

    id: str
    label: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    scopes: tuple[KeyScope, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey(ListedKey):
    """`link` opens the web page with the key, null where no other machine reaches the daemon.

    `qr`: a row each of the QR code of the link or key, dark squares as 1.
    """

    key: str
    link: str | None
    qr: list[str]


@dataclass(frozen=True, slots=True)
class KeyList:
    """`problem`: what keys.yaml has that is not understood."""

    keys: list[ListedKey]
    auth_mode: Mode
    problem: str | None


@dataclass(frozen=True, slots=True)
class RevokedKey:
    id: str
    status: str = "revoked"


@dataclass(frozen=True, slots=True)
class AuthMode:
    """Who needs a key, in the app's word and in the setting's."""

    require_auth: Mode
    auth_mode: Mode
    key_count: int


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """Without scopes, a key is needed."""

    kind: Literal["loopback", "key", "nobody"]
    name: str
    scopes: tuple[KeyScope, ...]


@dataclass(frozen=True, slots=True)
class SignInCode:
    code: str
    expires_at: datetime


class RedeemCodeRequest(RequestModel):
    """`label` is what the key is for, such as the name of a browser."""

    code: Annotated[str, Field(min_length=1, max_length=100)]
    label: Annotated[str, Field(min_length=1, max_length=60)] = "browser"


@dataclass(frozen=True, slots=True)
class RedeemedKey:
    key: str
    id: str
    label: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class _Code:
    maker: Identity
    ends: datetime


def _with_few_paths(scopes: tuple[KeyScope, ...]) -> tuple[KeyScope, ...]:
    if any(len(scope.paths or ()) > _MOST_PATHS for scope in scopes):
        raise ValueError(f"a scope has at most {_MOST_PATHS} paths")
    return scopes


class CreateKeyRequest(AppRequestModel):
    """Without scopes: to read and write what its maker may. `expires`: a span (90d) or a time."""

    label: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: (
        Annotated[tuple[KeyScope, ...], Field(max_length=50), AfterValidator(_with_few_paths)]
        | None
    ) = None
    expires: Annotated[str, Field(max_length=64)] | None = None


class AuthModeRequest(RequestModel):
    """Either name will do."""

    auth_mode: Mode | None = None
    require_auth: Mode | None = None


class ApiKeyRoutes:
    def __init__(
        self,
        authenticator: KeyAuthenticator,
        modules: ModuleManager,
        clock: Callable[[], datetime],
        set_auth_mode: Callable[[Mode], Awaitable[None]],
        page: Callable[[], str],
    ) -> None:
        """`page` is where other machines open the web page; empty where none can."""
        self._authenticator, self._modules, self._clock = authenticator, modules, clock
        self._set_auth_mode, self._page = set_auth_mode, page
        self._codes: dict[bytes, _Code] = {}  # forgotten when the daemon ends

    @get("/api/auth/keys", _MODULE, "admin")
    async def listing(self, call: ApiCall) -> KeyList:
        """List the keys, and who needs one."""
        ring = self._authenticator.ring
        ring.look()
        keys = [key for key in ring.keys if _has_power(call.identity, key)]
        listed = [ListedKey(**self._fields(key)) for key in keys]
        return KeyList(listed, self._authenticator.mode, ring.problem)

    @post("/api/auth/keys", _MODULE, "admin")
    async def create(self, call: ApiCall, body: CreateKeyRequest) -> CreatedKey:
        """Create a key. It is shown only once."""
        now = self._clock()
        try:
            end = parse_end(body.expires, now) if body.expires else None
            scopes, expires = self._allowed(call.identity, body.scopes, end)
            made = mint(body.label.strip(), scopes, now=now, expires=expires)
            self._refuse_unknown(body.scopes or ())
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        await asyncio.to_thread(self._authenticator.ring.file.add, made.key)
        self._authenticator.look()
        page = self._page()
        link = f"{page}#key={made.secret}" if page else None
        call.headers["Cache-Control"] = "no-store"
        return CreatedKey(
            **self._fields(made.key), key=made.secret, link=link, qr=qr_rows(link or made.secret)
        )

    @delete("/api/auth/keys/{id}", _MODULE, "admin")
    async def revoke(self, call: ApiCall, id_: str) -> RevokedKey:
        """Revoke a key and close what it opened."""
        self._authenticator.ring.look()
        key = next((one for one in self._authenticator.ring.keys if one.id == id_), None)
        if key is None or not _has_power(call.identity, key):
            raise NotFoundError("unknown key")
        await asyncio.to_thread(self._authenticator.ring.file.remove, key.id)
        self._authenticator.look()
        return RevokedKey(key.id)

    @get("/api/auth/settings", _MODULE, "admin")
    async def settings(self) -> AuthMode:
        """Who needs a key."""
        self._authenticator.ring.look()
        mode = self._authenticator.mode
        return AuthMode(mode, mode, len(self._authenticator.ring.keys))

    @put("/api/auth/settings", _MODULE, "admin")
    async def change_settings(self, call: ApiCall, body: AuthModeRequest) -> AuthMode:
        """Change who needs a key.

        Saved in config.yaml and effective at once.
        """
        mode = body.auth_mode or body.require_auth
        if mode is None or (
            body.auth_mode and body.require_auth and body.auth_mode != body.require_auth
        ):
            raise web.HTTPBadRequest(text="auth_mode should be one of remote, always, disabled")
        if not is_narrower(EVERYTHING, call.identity):
            raise web.HTTPForbidden(
                text="only this machine, or a key that may do everything, says who needs a key"
            )
        await self._set_auth_mode(mode)
        return await self.settings()

    @get("/api/auth/me", _MODULE, None)
    async def me(self, call: ApiCall) -> KnownCaller:
        """Who the caller is to the daemon, and what they may do."""
        who = call.identity
        return KnownCaller(who.kind, who.name, who.scopes)

    @post("/api/auth/codes", _MODULE, "admin", answers={201: SignInCode})
    async def create_code(self, call: ApiCall) -> SignInCode:
        """Make a code that opens the web page once, with the rights of its maker.

        Redeemed within five minutes, it gives a key that lasts 90 days, and no longer than the key
        of its maker.
        """
        now = self._clock()
        self._codes = {key: one for key, one in self._codes.items() if one.ends > now}
        if len(self._codes) >= _MOST_CODES:
            self._codes.pop(next(iter(self._codes)))
        code = secrets.token_urlsafe(24)
        made = self._codes[_digest(code)] = _Code(call.identity, now + _CODE_LIVES)
        _show_once(call)
        return SignInCode(code, made.ends.replace(microsecond=0))

    @post("/api/auth/codes/redeem", _MODULE, None, answers={201: RedeemedKey})
    async def redeem_code(self, call: ApiCall, body: RedeemCodeRequest) -> RedeemedKey:
        """Exchange a code for a key. Each code serves once."""
        now = self._clock()
        code = self._codes.pop(_digest(body.code), None)
        if code is None or code.ends <= now or not self._authenticator.holds(code.maker):
            raise web.HTTPNotFound(
                text="this code was used, or is over; `parachute open` makes another"
            )
        last = self._end_of(code.maker)
        ends = min(now + _KEY_LIVES, last) if last is not None else now + _KEY_LIVES
        label = f"{' '.join(body.label.split())} {now:%Y-%m-%d} {secrets.token_hex(2)}"
        try:
            maker = code.maker.id if code.maker.kind == "key" else None
            made = mint(label, code.maker.scopes, now=now, expires=ends, parent=maker)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        await asyncio.to_thread(self._authenticator.ring.file.add, made.key)
        self._authenticator.look()
        _show_once(call)
        return RedeemedKey(made.secret, made.key.id, label, ends.replace(microsecond=0))

    def _refuse_unknown(self, scopes: tuple[KeyScope, ...]) -> None:
        """Raises ValueError for an unknown module: a misspelled scope would open nothing."""
        known = [*KNOWN_MODULES, *(module_status.name for module_status in self._modules.status())]
        unknown = next((scope.module for scope in scopes if scope.module not in known), None)
        if unknown is not None:
            raise ValueError(
                f"there is no module {unknown}; those that a scope may name are "
                f"{', '.join(dict.fromkeys(known))}"
            )

    def _allowed(
        self, maker: Identity, wanted: tuple[KeyScope, ...] | None, end: datetime | None
    ) -> tuple[tuple[KeyScope, ...], datetime | None]:
        """Never more than its maker may, nor for longer."""
        if maker.kind != "key":
            return USUAL if wanted is None else wanted, end
        scopes = _usual(maker.scopes) if wanted is None else wanted
        last = self._end_of(maker)
        if not is_narrower(scopes, maker) or (last is not None and end is not None and end > last):
            raise web.HTTPForbidden(
                text="a key can make only keys that may do no more than itself, and end no later"
            )
        return scopes, end or last

    def _fields(self, key: ApiKey) -> dict[str, Any]:
        used = self._authenticator.ring.last_used(key)
        return {
            "id": key.id,
            "label": key.name,
            "name": key.name,
            "created_at": key.created or _LONG_AGO,
            "last_used_at": used.replace(microsecond=0) if used is not None else None,
            "expires_at": key.expires,
            "scopes": key.scopes,
        }

    def _end_of(self, maker: Identity) -> datetime | None:
        """When the key of the maker ends, if it is a key and does."""
        is_key = maker.kind == "key"
        ends = (key.expires for key in self._authenticator.ring.keys if key.id == maker.id)
        return next(ends, None) if is_key else None


def _usual(scopes: tuple[KeyScope, ...]) -> tuple[KeyScope, ...]:
    less = [replace(scope, capabilities=scope.capabilities - {"admin"}) for scope in scopes]
    return tuple(key_scope for key_scope in less if key_scope.capabilities)


def _has_power(identity: Identity, key: ApiKey) -> bool:
    """Over itself, and over keys that it could have made."""
    return identity.kind == "loopback" or identity.id == key.id or is_narrower(key.scopes, identity)


def _show_once(call: ApiCall) -> None:
    call.status, call.headers["Cache-Control"] = 201, "no-store"


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).digest()
