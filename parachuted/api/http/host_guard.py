"""Guard: refuses requests that come from a web page elsewhere or under another host's name.

The raw Host header and the authority of an absolute target are both checked: aiohttp shows only
one.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from aiohttp import web

_OWN_SITES = frozenset({"same-origin", "none"})
_AUTHORITY = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:]+)\]|(?P<name>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?))(?::(?P<port>0|[1-9][0-9]{0,4}))?"
)
_LAST_PORT = 65_535
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Server": "parachuted",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, X-API-Key, Content-Type, If-Match, "
    "If-None-Match, Last-Event-ID, Range, Mcp-Session-Id, MCP-Protocol-Version",
    "Access-Control-Allow-Private-Network": "true",
    "Access-Control-Max-Age": "600",
}
_READABLE = "ETag, Retry-After, Content-Disposition, Mcp-Session-Id"

MiddlewareHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HostGuard:
    def __init__(self, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        """`hosts`: names besides this machine's own; `origins`: such as `https://notes.example`."""
        self._hosts = frozenset(host.lower().removesuffix(".") for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)

    def refusal_of(self, request: web.BaseRequest) -> str | None:
        """Why a request is refused before it is routed, or None."""
        target, hosts = request.raw_path, request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._is_own(hosts[0], request):
            return (
                "the Host header names no address of this machine's own; api.hosts in "
                "config.yaml can list more"
            )
        if not target.startswith("/") and not self._is_own(_authority(target), request):
            return "the request's target names another host"
        return self._refusal_of_page(request, hosts[0])

    def lists(self, origin: str) -> bool:
        return origin.lower() in self._origins

    def preflight(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to a browser's preflight request of a listed page; None for any other."""
        is_asked = request.method == "OPTIONS" and (
            "Access-Control-Request-Method" in request.headers
        )
        is_listed = is_asked and self.lists(request.headers.get("Origin", ""))
        return web.Response(status=204, headers=_PREFLIGHT) if is_listed else None

    async def seal(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers that say who may read the answer, to errors and streams too.

        After one that does not wait for the rest of the request's body the connection is closed:
        aiohttp would hang up later, which ends the client's next request.
        """
        headers = response.headers
        if not request.content.is_eof():
            headers["Connection"] = "close"
            response.force_close()
        for name, value in _ALWAYS.items():
            headers.setdefault(name, value)
        if self._origins:
            headers.add("Vary", "Origin")
            origin = request.headers.get("Origin", "")
            if self.lists(origin):
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = _READABLE

    def _refusal_of_page(self, request: web.BaseRequest, host: str) -> str | None:
        headers = request.headers
        origins = headers.getall("Origin", ())
        if origins:
            own = {f"http://{host}".lower(), f"https://{host}".lower()}  # another port is another
            if not all(self.lists(origin) or origin.lower() in own for origin in origins):
                return (
                    "requests from web pages of other origins are refused; api.cors_origins in "
                    "config.yaml can list some"
                )
        elif not _OWN_SITES.issuperset(headers.getall("Sec-Fetch-Site", ())):
            return "requests that a page of another site makes are refused"
        if "websocket" in headers.get("Upgrade", "").lower():
            return "this daemon speaks no WebSocket; GET /api/events streams"
        return None

    def _is_own(self, authority: str, request: web.BaseRequest) -> bool:
        if is_loopback(authority):
            return True
        name = _name(authority)
        return name is not None and (name in self._hosts or _is_address_of(name, request))


@lru_cache(maxsize=64)
def is_loopback(authority: str) -> bool:
    """Whether it is localhost or a loopback address, which no name server can claim."""
    name = _name(authority)
    if name is None:
        return False
    address = address_of(name)
    return name == "localhost" if address is None else address.is_loopback


def _name(authority: str) -> str | None:
    """The name in `name:port`, lower case; None unless it is spelled as browsers do."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None or int(match["port"] or 0) > _LAST_PORT:
        return None
    if match["six"] is not None:
        six = match["six"].lower()
        return six if str(address_of(six)) == six else None
    name = match["name"].lower()
    bare = name.removesuffix(".")
    return bare if bare == name or address_of(bare) is None else None


def address_of(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _is_address_of(name: str, request: web.BaseRequest) -> bool:
    """Whether this connection came in at that address: a page elsewhere has its own."""
    address = address_of(name)
    if address is None or request.transport is None:
        return False
    here = request.transport.get_extra_info("sockname")
    own = address_of(str(here[0]).partition("%")[0]) if isinstance(here, tuple) else None
    if isinstance(own, IPv6Address) and own.ipv4_mapped is not None:
        own = own.ipv4_mapped
    return own == address


def _authority(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return rest.split("/", 1)[0] if mark and scheme.lower() in {"http", "https"} else ""
