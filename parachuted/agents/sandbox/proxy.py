"""The filtering proxy: the only way out of a sandbox with a network, by HTTP's CONNECT.

It resolves names itself and connects to the address that it checked. It cannot see encrypted
content, so an allowed host is trusted with whatever the agent sends. What a host answers is
untrusted text; `reached` reports it before the agent sees any.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import TypeAlias

from parachuted.access.grant import Network
from parachuted.agents.gateway.listeners import listen_in
from parachuted.agents.sandbox.options import PROXY_SOCKET

log = logging.getLogger(__name__)

Decide = Callable[[str, int, str | None], Awaitable[str | None]]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
_HEAD_BYTES = 16 << 10
_PIECE = 1 << 16
_LINGER_S = 1.0
_STATUS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}
_WEB_PORTS = frozenset({80, 443})
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})+", re.ASCII)
# what some resolvers take for an address, such as 127.1 or 0x7f.1
_LAST_IS_NUMBER = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)", re.ASCII)
_PORT = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_INDOORS = re.compile(
    r"(.*\.)?(localhost|local|internal|intranet|lan|home|corp|home\.arpa|localdomain)", re.ASCII
)
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # special purposes, a cloud's metadata (192.0.0.192) among them
        "192.88.99.0/24",  # relays into IPv6
        "168.63.129.16/32",  # a cloud's own services on each of its machines, at a public address
        "2001::/23",  # tunnels and special purposes
        "2001:db8::/32",  # examples
        "2002::/16",  # carries an IPv4 address
        "3fff::/20",  # examples
    )
)
_IPV6_PUBLIC = ip_network("2000::/3")


Target: TypeAlias = tuple[str, int]
"""A host by name, in lower case without a final dot, and a port."""


def parse_target(authority: str) -> Target | None:
    """None if it is not `host:port`. Addresses are refused: rules are about names."""
    name, _, number = authority.partition(":")
    host = name.lower().removesuffix(".")
    is_name = _NAME.fullmatch(host) and not _LAST_IS_NUMBER.fullmatch(host)
    if not is_name or not _PORT.fullmatch(number) or int(number) > 0xFFFF:  # noqa: PLR2004  the largest port
        return None
    return host, int(number)


def objection(network: Network, target: Target) -> str | None:
    """Why the sandbox may not reach that host; None if its name is allowed.

    `bridge` allows any public host on the web's ports. In a list, `example.org` is that host alone,
    `*.example.org` all below it, and `example.org:8443` that port alone.
    """
    host, port = target
    if _INDOORS.fullmatch(host):
        return f"{host} is a name of this machine's own surroundings, which no agent reaches"
    if network == "bridge":
        why = f"port {port} is not one of the web's, which are all that it may reach"
        return None if port in _WEB_PORTS else why
    if network == "none" or not any(_means(pattern, host, port) for pattern in network):
        return f"{host}:{port} is not on the list of hosts that this agent may reach"
    return None


def _means(pattern: str, host: str, port: int) -> bool:
    name, colon, only = pattern.lower().partition(":")
    is_port = port == int(only) if colon else port in _WEB_PORTS
    return is_port and (host.endswith(name[1:]) if name.startswith("*.") else host == name)


def is_public(address: str) -> bool:
    """Whether an address is out on the internet: not here, nor near, nor a way back to either."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if not ip.is_global or ip.is_multicast or any(ip in one for one in _NOT_PUBLIC):
        return False
    return isinstance(ip, IPv4Address) or (ip.scope_id is None and ip in _IPV6_PUBLIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """Of one run: connections at a time, bytes in all, and seconds."""

    connections: int = 32
    total_bytes: int = 1 << 30
    head_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 120.0
    longest_s: float = 1800.0


async def resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class _RefusedError(Exception):
    """A status of HTTP, and the words for the agent."""


class Proxy:
    """`decide` has the last word on a host and its port, with what the list objects to them."""

    def __init__(
        self,
        network: Network,
        *,
        reached: Callable[[str], None],
        decide: Decide,
        resolve: Resolve = resolve,
        connect: Connect = asyncio.open_connection,
        limits: ProxyLimits | None = None,
    ) -> None:
        self._network, self._decide, self._reached = network, decide, reached
        self._resolve, self._connect, self._limits = resolve, connect, limits or ProxyLimits()
        self._open: dict[asyncio.StreamWriter, asyncio.Task[object] | None] = {}
        self._answered: set[asyncio.StreamWriter] = set()
        self._bytes = 0

    async def serve(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        try:
            async with asyncio.timeout(self._limits.longest_s):
                await self._pass(near, writer)
        except _RefusedError as refused:
            log.info("a box was refused a connection", extra={"reason": refused.args[1]})
            await _answer(near, writer, *refused.args)
        # `cut` cancels: the server that began this waits for nothing
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
            reason = str(error) or type(error).__name__
            log.info("a connection of a box ended", extra={"reason": reason})
        finally:
            self._open.pop(writer, None)
            self._answered.discard(writer)
            writer.close()

    def cut(self, *, but_answered: bool = False) -> int:
        """Close all connections, or all without an answer so far; returns how many."""
        writers = self._answered if but_answered else set()
        cut = {writer: task for writer, task in self._open.items() if writer not in writers}
        for writer, task in cut.items():
            writer.transport.abort()
            if task is not None:
                task.cancel()
        return len(cut)

    async def close(self) -> None:
        working = [task for task in self._open.values() if task is not None]
        self.cut()
        if working:
            await asyncio.wait(working)

    async def _pass(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        most = self._limits.connections
        if len(self._open) > most:
            raise _RefusedError(503, f"{most} connections are open already")
        host, port = target = await self._target(near)
        said = await self._decide(host, port, objection(self._network, target))
        if said is not None:
            raise _RefusedError(403, said)
        far, out = await self._reach(host, port)
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with (
                asyncio.timeout(self._limits.idle_s) as silence,
                asyncio.TaskGroup() as group,
            ):
                group.create_task(self._carry(near, out, silence), name="out")
                group.create_task(self._carry(far, writer, silence, host), name="in")
        except* OSError as errors:
            raise ConnectionError(str(errors.exceptions[0])) from errors
        finally:
            out.close()

    async def _carry(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        silence: asyncio.Timeout,
        answers: str | None = None,
    ) -> None:
        """A piece of either direction ends the silence. `answers` is the host it comes from."""
        while data := await source.read(_PIECE):
            silence.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)
            if answers is not None and target not in self._answered:
                self._answered.add(target)
                self._reached(answers)
            self._bytes += len(data)
            if self._bytes > self._limits.total_bytes:
                most = self._limits.total_bytes >> 20
                raise ConnectionError(f"this run has moved {most} MB, which is all that it may")
            target.write(data)
            await target.drain()
        with suppress(OSError):
            target.write_eof()

    async def _target(self, near: asyncio.StreamReader) -> Target:
        try:
            async with asyncio.timeout(self._limits.head_s):
                head = await near.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError as error:
            raise _RefusedError(400, f"a request's head has at most {_HEAD_BYTES} bytes") from error
        method, _, rest = head.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")
        name, _, version = rest.partition(" ")
        if version not in {"HTTP/1.1", "HTTP/1.0"} or not method.isalpha():
            raise _RefusedError(400, "that is not a request to a proxy")
        target = parse_target(name) if method == "CONNECT" else None
        if target is None:
            raise _RefusedError(
                403,
                "only a host's name and a port can be reached, by CONNECT, such as example.org:443",
            )
        return target

    async def _reach(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One address that is not public refuses all: such a name is meant to lead inside."""
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._resolve(host, port)
                bad = [address for address in addresses if not is_public(address)]
                if bad or not addresses:
                    where = bad[0] if bad else "no address"
                    why = f"{host} leads to {where}, which is not on the internet"
                    raise _RefusedError(403, why)
                return await self._connect_to(addresses, port)
        except TimeoutError as error:
            raise _RefusedError(502, f"{host} does not answer") from error
        except OSError as error:
            reason = error.strerror or error
            raise _RefusedError(502, f"{host} cannot be reached: {reason}") from error

    async def _connect_to(
        self, addresses: Sequence[str], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for address in addresses:
            try:
                far, out = await self._connect(address, port)
            except OSError:
                if address == addresses[-1]:
                    raise
                continue
            here, there = out.get_extra_info("sockname"), out.get_extra_info("peername")
            if here is None or there is None or here[0] != there[0]:
                return far, out
            out.transport.abort()  # the public address turned out to be our own
            break
        raise _RefusedError(403, "that is this machine itself")


@asynccontextmanager
async def open_proxy(sockets: Path, proxy: Proxy) -> AsyncIterator[Proxy]:
    """On `proxy.sock` in a run's folder of sockets; its connections end when it is left."""
    listening = await asyncio.to_thread(listen_in, sockets, PROXY_SOCKET)
    server = await asyncio.start_unix_server(proxy.serve, sock=listening, limit=_HEAD_BYTES)
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await asyncio.to_thread((sockets / PROXY_SOCKET).unlink, missing_ok=True)


async def _answer(
    near: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, words: str
) -> None:
    body = f"parachute: {words}\n".encode(errors="replace")
    head = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    with suppress(OSError, TimeoutError):
        writer.write(head.encode() + body)
        writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await near.read(_PIECE):
                pass
