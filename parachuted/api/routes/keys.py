"""Keys: the routes that make and revoke keys and say who needs one.

A key has power over keys that may do no more than itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Literal, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.addresses import qr_rows
from parachuted.api.http.answers import json_answer
from parachuted.api.http.authenticator import KeyAuthenticator, Mode
from parachuted.api.http.decorators import delete, get, post, put
from parachuted.api.http.route import ApiCall, AppRequestModel, RequestModel
from parachuted.errors import ConfigError, NotFoundError
from parachuted.keys import (
    EVERYTHING,
    KNOWN_MODULES,
    USUAL,
    ApiKey,
    Identity,
    Scope,
    is_narrower,
    mint,
    parse_end,
    parse_scope,
    scope_document,
    time_text,
)
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.times import Time

_MODULE = "system"
_LONG_AGO = "1970-01-01T00:00:00Z"  # what the app reads must be a time


class ScopeResponse(TypedDict):
    """What a key is allowed. Without paths: everywhere."""

    module: str
    capabilities: list[str]
    paths: NotRequired[list[str]]


class ApiKeyResponse(TypedDict):
    """A key, without what it is."""

    id: str
    label: str
    name: str
    created_at: Time
    last_used_at: Time | None
    expires_at: Time | None
    scopes: list[ScopeResponse]


class CreatedKeyResponse(ApiKeyResponse):
    """A new key, shown once.

    `link` opens the web page with it, and is null where no other machine reaches the daemon; `qr`
    is the QR code of the link, or else of the key: a row each, dark squares as 1.
    """

    key: str
    link: str | None
    qr: list[str]


class ApiKeysResponse(TypedDict):
    """All that the caller has power over. `problem`: what keys.yaml has that is not understood."""

    keys: list[ApiKeyResponse]
    auth_mode: Mode
    problem: str | None


class RevokedKeyResponse(TypedDict):
    """A key that opens nothing any more, nor do those of the browsers that it signed in."""

    status: Literal["revoked"]
    id: str


class AuthModeResponse(TypedDict):
    """Who needs a key, in the app's word and in the setting's."""

    require_auth: Mode
    auth_mode: Mode
    key_count: int


class ScopeRequest(RequestModel):
    """What a key shall be allowed."""

    module: Annotated[str, Field(max_length=64)]
    capabilities: Annotated[
        list[Literal["read", "write", "admin"]], Field(min_length=1, max_length=3)
    ]
    paths: (
        Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=100)] | None
    ) = None


class CreateKeyRequest(AppRequestModel):
    """A key to be made.

    Without scopes it may read and write what its maker may; `expires` is a span such as 90d, or a
    time.
    """

    label: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: Annotated[list[ScopeRequest], Field(max_length=50)] | None = None
    expires: Annotated[str, Field(max_length=64)] | None = None


class AuthModeRequest(RequestModel):
    """Who shall need a key. Either name will do."""

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

    @get("/api/auth/keys", _MODULE, "admin", reach="paths")
    async def listing(self, call: ApiCall) -> ApiKeysResponse:
        """List the keys, and who needs one."""
        ring = self._authenticator.ring
        ring.look()
        keys = [self._response(key) for key in ring.keys if _has_power(call.identity, key)]
        return {"keys": keys, "auth_mode": self._authenticator.mode, "problem": ring.problem}

    @post("/api/auth/keys", _MODULE, "admin", reach="paths", answers={200: CreatedKeyResponse})
    async def create(self, call: ApiCall, body: CreateKeyRequest) -> web.Response:
        """Create a key. It is shown only once."""
        now = self._clock()
        try:
            wanted = (
                None
                if body.scopes is None
                else tuple(parse_scope(one.model_dump(exclude_none=True)) for one in body.scopes)
            )
            end = parse_end(body.expires, now) if body.expires else None
            scopes, expires = self._allowed(call.identity, wanted, end)
            made = mint(body.label.strip(), scopes, now=now, expires=expires)
            self._refuse_unknown(wanted or ())
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        await asyncio.to_thread(self._authenticator.ring.file.add, made.key)
        self._authenticator.look()
        page = self._page()
        link = f"{page}#key={made.secret}" if page else None
        answer = {"key": made.secret, "link": link, "qr": qr_rows(link or made.secret)}
        return json_answer(
            {**self._response(made.key), **answer}, headers={"Cache-Control": "no-store"}
        )

    @delete("/api/auth/keys/{id}", _MODULE, "admin", reach="paths")
    async def revoke(self, call: ApiCall, id_: str) -> RevokedKeyResponse:
        """Revoke a key and close what it opened."""
        self._authenticator.ring.look()
        key = next((one for one in self._authenticator.ring.keys if one.id == id_), None)
        if key is None or not _has_power(call.identity, key):
            raise NotFoundError("unknown key")
        await asyncio.to_thread(self._authenticator.ring.file.remove, key.id)
        self._authenticator.look()
        return {"status": "revoked", "id": key.id}

    @get("/api/auth/settings", _MODULE, "admin", reach="beyond")
    async def settings(self) -> AuthModeResponse:
        """Who needs a key."""
        return self._settings()

    @put("/api/auth/settings", _MODULE, "admin", reach="beyond")
    async def change_settings(self, call: ApiCall, body: AuthModeRequest) -> AuthModeResponse:
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
        try:
            await self._set_auth_mode(mode)
        except ConfigError as error:
            raise web.HTTPConflict(text=error.message) from error
        return self._settings()

    def _settings(self) -> AuthModeResponse:
        self._authenticator.ring.look()
        return {
            "require_auth": self._authenticator.mode,
            "auth_mode": self._authenticator.mode,
            "key_count": len(self._authenticator.ring.keys),
        }

    def _refuse_unknown(self, scopes: tuple[Scope, ...]) -> None:
        """Raises ValueError for a scope on an unknown module: a misspelled one would silently open
        nothing.
        """
        known = [*KNOWN_MODULES, *(one.name for one in self._modules.status())]
        unknown = next((one.module for one in scopes if one.module not in known), None)
        if unknown is not None:
            raise ValueError(
                f"there is no module {unknown}; those that a scope may name are "
                f"{', '.join(dict.fromkeys(known))}"
            )

    def _allowed(
        self, maker: Identity, wanted: tuple[Scope, ...] | None, end: datetime | None
    ) -> tuple[tuple[Scope, ...], datetime | None]:
        """What the new key may do and until when: never more than its maker, nor for longer."""
        own = next(
            (
                key
                for key in self._authenticator.ring.keys
                if maker.kind == "key" and key.id == maker.id
            ),
            None,
        )
        if maker.kind != "key":
            return USUAL if wanted is None else wanted, end
        scopes = _usual(maker.scopes) if wanted is None else wanted
        last = own.expires if own is not None else None
        if not is_narrower(scopes, maker) or (last is not None and end is not None and end > last):
            raise web.HTTPForbidden(
                text="a key can make only keys that may do no more than itself, and end no later"
            )
        return scopes, end or last

    def _response(self, key: ApiKey) -> ApiKeyResponse:
        return {
            "id": key.id,
            "label": key.name,
            "name": key.name,
            "created_at": time_text(key.created) or _LONG_AGO,
            "last_used_at": time_text(self._authenticator.ring.last_used(key)),
            "expires_at": time_text(key.expires),
            "scopes": [scope_document(scope) for scope in key.scopes],  # type: ignore[misc]
        }


def _usual(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    """The same without administering."""
    less = [
        Scope(module=one.module, capabilities=one.capabilities - {"admin"}, paths=one.paths)
        for one in scopes
    ]
    return tuple(one for one in less if one.capabilities)


def _has_power(identity: Identity, key: ApiKey) -> bool:
    """Over itself, and over keys that it could have made.

    The others' patterns would tell it of folders that it may not see.
    """
    return identity.kind == "loopback" or identity.id == key.id or is_narrower(key.scopes, identity)
