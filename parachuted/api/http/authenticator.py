"""Authenticator: who asks. This machine may be trusted; a key that is sent must be right."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Literal, TypeAlias

from aiohttp import web

from parachuted.api.http.host_guard import address_of
from parachuted.keys import EVERYTHING, NOBODY, Identity, KeyRing

Mode: TypeAlias = Literal["remote", "always", "disabled"]

_LOOPBACK = Identity(kind="loopback", id="loopback", name="this machine", scopes=EVERYTHING)
_COMMAND = Identity(kind="loopback", id="cli", name="cli", scopes=EVERYTHING)
_ANYONE = Identity(kind="loopback", id="anyone", name="anyone", scopes=EVERYTHING)
_PASSED_ON = re.compile(
    "x-forwarded.*|forwarded|via|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|"
    "cf-connecting-ip",
    re.IGNORECASE,
)
_SPACE = " \t"  # what HTTP takes for it, and no more
_VALID = "Valid API key required"  # as older apps know it


class KeyAuthenticator:
    """`mode` remote: this machine needs no key; always: it does too; disabled: no caller does."""

    def __init__(
        self, ring: KeyRing, mode: Mode, token: str, clock: Callable[[], datetime]
    ) -> None:
        """`token` is what the command on this machine sends, new in each life of the daemon."""
        self.ring, self.mode = ring, mode
        self._token, self._clock = token.encode(), clock
        self._listeners: list[Callable[[], None]] = []

    def identify(self, request: web.Request) -> Identity:
        """Who asks; NOBODY without a key. Raises HTTPUnauthorized, HTTPBadRequest."""
        sent = _sent_key(request)
        if sent is None:
            return self._keyless(is_local=is_from_here(request))
        if hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), self._token):
            return _COMMAND
        key = self.ring.find(sent)
        if key is None:
            raise unauthorized()
        if key.is_over(self._clock()):
            raise unauthorized("this key has expired; `parachute keys create` makes another")
        return self.ring.use(key)

    def holds(self, identity: Identity) -> bool:
        """Whether this caller would still be let in as the same."""
        if identity.kind == "key":
            return self.ring.holds(identity)
        return identity in {_COMMAND, self._keyless(is_local=True)} or (
            identity is _ANYONE and self.mode == "disabled"
        )

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def look(self) -> None:
        """Called when the key file may have changed or a key ends: its streams end with it."""
        self.ring.look()
        for listener in self._listeners:
            listener()

    def _keyless(self, *, is_local: bool) -> Identity:
        if self.mode == "disabled":
            return _ANYONE
        return _LOOPBACK if is_local and self.mode == "remote" else NOBODY


def unauthorized(why: str = _VALID) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=why, headers={"WWW-Authenticate": "Bearer"})


def is_from_here(request: web.BaseRequest) -> bool:
    """Whether a program on this machine asks for itself, and no proxy passes it on."""
    return not any(map(_is_passed_on, request.headers)) and _is_loopback(request.remote or "")


@lru_cache(maxsize=256)
def _is_passed_on(name: str) -> bool:
    return _PASSED_ON.fullmatch(name) is not None


@lru_cache(maxsize=64)
def _is_loopback(peer: str) -> bool:
    address = address_of(peer)
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return address is not None and address.is_loopback and not is_mapped


def _sent_key(request: web.BaseRequest) -> str | None:
    """The one key in the headers. An empty header holds none."""
    headers = request.headers
    if "Authorization" not in headers and "X-API-Key" not in headers:
        return None
    found = {value.strip(_SPACE) for value in headers.getall("X-API-Key", ())}
    for value in headers.getall("Authorization", ()):
        scheme, _, key = value.strip(_SPACE).partition(" ")
        found.add(key.strip(_SPACE))
        if scheme and (scheme.lower() != "bearer" or not key.strip(_SPACE)):
            raise unauthorized()
    found.discard("")
    if len(found) > 1:
        raise web.HTTPBadRequest(text="two different keys were given")
    return found.pop() if found else None
