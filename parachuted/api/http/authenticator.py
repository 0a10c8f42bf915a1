"""Authenticator: who asks. This machine may be trusted; a key that is sent must be right."""

from __future__ import annotations

import hmac
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
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
_MOST_PEERS = 2_000
_VALID = "Valid API key required"  # as older apps know it


class KeyAuthenticator:
    """`mode` remote: this machine needs no key; always: it does too; disabled: no caller does."""

    def __init__(
        self, ring: KeyRing, mode: Mode, token: str, clock: Callable[[], datetime]
    ) -> None:
        """`token` is what the command on this machine sends, new in each life of the daemon."""
        self.ring, self.mode = ring, mode
        self._token, self._clock = token.encode(), clock
        self._failures = FailedAttempts()
        self._listeners: list[Callable[[], None]] = []

    def identify(self, request: web.Request) -> Identity:
        """Who asks; NOBODY without a key. Raises HTTPUnauthorized, HTTPTooManyRequests,
        HTTPBadRequest.
        """
        sent = _sent_key(request)
        if sent is None:
            return self._keyless(is_local=is_from_here(request))
        if hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), self._token):
            return _COMMAND
        key = self.ring.find(sent)
        if key is None:
            raise self.refusal(request, _VALID)
        if key.is_over(self._clock()):
            expired = "this key has expired; `parachute keys create` makes another"
            raise self.refusal(request, expired)
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

    def refusal(self, request: web.Request, why: str) -> web.HTTPException:
        """The answer to a wrong key or secret, which is counted."""
        wait = self._failures.count(_peer(request), time.monotonic())
        if wait > 0:
            return web.HTTPTooManyRequests(
                text="too many wrong keys came from there",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        return unauthorized(why)


def unauthorized(why: str = _VALID) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=why, headers={"WWW-Authenticate": "Bearer"})


class FailedAttempts:
    """Wrong keys by peer: `most` at once, then one each `every_s`. A right key is always let in."""

    def __init__(self, most: int = 10, every_s: float = 6.0) -> None:
        self._most, self._every_s = most, every_s
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, peer: str, now: float) -> float:
        """Count one; the seconds until the next may come, 0 while there is room for this one."""
        debt, at = self._debts.pop(peer, (0.0, now))
        debt = max(0.0, debt - (now - at) / self._every_s)
        is_over = debt + 1 > self._most
        self._debts[peer] = (debt if is_over else debt + 1, now)
        if len(self._debts) > _MOST_PEERS:
            self._debts.popitem(last=False)
        return (debt + 1 - self._most) * self._every_s if is_over else 0.0

    def __len__(self) -> int:
        return len(self._debts)


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


def _peer(request: web.BaseRequest) -> str:
    """An address, or the network that one household has of IPv6."""
    address = address_of(request.remote or "")
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), 64), strict=False))
    return "" if address is None else str(address)
