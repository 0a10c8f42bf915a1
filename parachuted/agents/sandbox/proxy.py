"""The filtering proxy: the only way out of a sandbox with a network, by HTTP's CONNECT.

It resolves names itself and connects to the address that it checked. Inside, `relay.py` forwards
connections to its socket. It cannot see encrypted content, so an allowed host is trusted with
whatever the agent sends. What a host answers is untrusted text; `reached` reports it before the
agent sees any.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parachuted.access.grant import Network
from parachuted.agents.gateway.listeners import listen_in
from parachuted.agents.sandbox.options import PROXY_SOCKET
from parachuted.agents.sandbox.proxy_rules import ProxyTarget, is_public, objection, parse_target

log = logging.getLogger(__name__)

Allowed = Callable[[str, int], Awaitable[str | None]]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
_HEAD_BYTES = 16 << 10
_PIECE = 1 << 16
_LINGER_S = 1.0
_STATUS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """Of one run: connections at a time, bytes in all, seconds for a request to come, to connect,
    without a byte, and of a connection.
    """

    connections: int = 32
    total_bytes: int = 1 << 30
    head_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 120.0
    longest_s: float = 1800.0


async def no_objection(_host: str, _port: int) -> str | None:
    """The default of `allowed`: the list alone decides."""
    return None


async def resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class _RefusedError(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class Proxy:
    """The filtering proxy of one run.

    `allowed` may object to a host that is on the list, `beyond` may let one be reached that is not.
    """

    def __init__(
        self,
        network: Network,
        *,
        allowed: Allowed = no_objection,
        reached: Callable[[str], None],
        beyond: Allowed | None = None,
        resolve: Resolve = resolve,
        connect: Connect = asyncio.open_connection,
        limits: ProxyLimits | None = None,
    ) -> None:
        self._network, self._allowed, self._beyond = network, allowed, beyond
        self._reached = reached
        self._resolve, self._connect, self._limits = resolve, connect, limits or ProxyLimits()
        self._open: dict[asyncio.StreamWriter, asyncio.Task[object] | None] = {}
        self._answered: set[asyncio.StreamWriter] = set()
        self._bytes = 0

    async def serve(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._limits.connections:
            await _answer(
                near, writer, 503, f"{self._limits.connections} connections are open already"
            )
            return
        self._open[writer] = asyncio.current_task()
        try:
            async with asyncio.timeout(self._limits.longest_s):
                await self._pass(near, writer)
        except _RefusedError as refused:
            log.info("a box was refused a connection", extra={"reason": refused.words})
            await _answer(near, writer, refused.status, refused.words)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            log.info(
                "a connection of a box ended", extra={"reason": str(error) or type(error).__name__}
            )
        except asyncio.CancelledError:  # by `cut`: the server that began this waits for nothing
            log.info("a connection of a box was cut")
        finally:
            self._open.pop(writer, None)
            self._answered.discard(writer)
            writer.close()

    def cut(self, *, but_answered: bool = False) -> int:
        """Close all connections, or all without an answer so far; returns how many."""
        open_now = [
            (writer, task)
            for writer, task in self._open.items()
            if not (but_answered and writer in self._answered)
        ]
        for writer, task in open_now:
            writer.transport.abort()
            if task is not None:
                task.cancel()
        return len(open_now)

    async def close(self) -> None:
        working = [task for task in self._open.values() if task is not None]
        self.cut()
        if working:
            await asyncio.wait(working)

    async def _pass(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = await self._target(near)
        await self._check_name(target)
        far, out = await self._reach(target)
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with (
                asyncio.timeout(self._limits.idle_s) as silence,
                asyncio.TaskGroup() as group,
            ):
                group.create_task(self._carry(near, out, silence), name="out")
                answered = partial(self._answer_comes, writer, target.host)
                group.create_task(self._carry(far, writer, silence, answered), name="in")
        except* OSError as errors:
            raise ConnectionError(str(errors.exceptions[0])) from errors
        finally:
            out.close()

    async def _carry(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        silence: asyncio.Timeout,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        """Pass on what comes until its end; each piece of either direction ends the silence."""
        while data := await source.read(_PIECE):
            silence.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)
            answered()
            self._bytes += len(data)
            if self._bytes > self._limits.total_bytes:
                raise ConnectionError(
                    f"this run has moved {self._limits.total_bytes >> 20} MB, which is all that "
                    "it may"
                )
            target.write(data)
            await target.drain()
        with suppress(OSError):
            target.write_eof()

    def _answer_comes(self, writer: asyncio.StreamWriter, host: str) -> None:
        if writer not in self._answered:
            self._answered.add(writer)
            self._reached(host)

    async def _target(self, near: asyncio.StreamReader) -> ProxyTarget:
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

    async def _check_name(self, target: ProxyTarget) -> None:
        said = objection(self._network, target)
        if said is not None and self._beyond is not None:
            said = await self._beyond(target.host, target.port)
        elif said is None:
            said = await self._allowed(target.host, target.port)
        if said is not None:
            raise _RefusedError(403, said)

    async def _reach(
        self, target: ProxyTarget
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address of the name, which is resolved once.

        One that is not public among them refuses all: such a name is meant to lead inside.
        """
        failed: OSError = OSError("it has no address")
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._resolve(target.host, target.port)
                bad = [address for address in addresses if not is_public(address)]
                if bad or not addresses:
                    raise _RefusedError(
                        403,
                        f"{target.host} leads to {bad[0] if bad else 'no address'}, which is not "
                        "on the internet",
                    )
                for address in addresses:
                    try:
                        far, out = await self._connect(address, target.port)
                    except OSError as error:
                        failed = error
                        continue
                    if _is_this_machine(out):
                        out.transport.abort()
                        raise _RefusedError(403, "that is this machine itself")
                    return far, out
                raise failed
        except TimeoutError as error:
            raise _RefusedError(502, f"{target.host} does not answer") from error
        except OSError as error:
            raise _RefusedError(
                502, f"{target.host} cannot be reached: {error.strerror or error}"
            ) from error


@asynccontextmanager
async def open_proxy(sockets: Path, proxy: Proxy) -> AsyncIterator[Proxy]:
    """Serve the proxy on `proxy.sock` in a slot's folder of sockets; its connections end when it is
    left.
    """
    listening = await asyncio.to_thread(listen_in, sockets, PROXY_SOCKET)
    server = await asyncio.start_unix_server(proxy.serve, sock=listening, limit=_HEAD_BYTES)
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        with suppress(FileNotFoundError):
            await asyncio.to_thread((sockets / PROXY_SOCKET).unlink)


def _is_this_machine(out: asyncio.StreamWriter) -> bool:
    """Whether a public address turned out to be our own: what listens here for others is not for
    agents.
    """
    here, there = out.get_extra_info("sockname"), out.get_extra_info("peername")
    return here is not None and there is not None and here[0] == there[0]


async def _answer(
    near: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, words: str
) -> None:
    body = f"parachute: {words}\n".encode(errors="replace")
    head = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\ncontent-type: text/plain; "
        f"charset=utf-8\r\ncontent-length: {len(body)}\r\n"
    )
    with suppress(OSError, TimeoutError):
        writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
        writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await near.read(_PIECE):
                pass
    writer.close()
