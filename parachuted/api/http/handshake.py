"""Handshake: a connection until it is encrypted.

It counts as one from its first moment on, so that who only connects is limited as others are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address
from ssl import SSLContext, SSLError
from typing import Protocol


class CountedConnection(Protocol):
    """A connection as the server counts it: from whom, and since when it has been quiet."""

    peer: str | None
    heard_at: float

    @property
    def is_idle(self) -> bool: ...
    def look(self, now: float) -> None: ...
    def cut(self) -> None: ...


class _Limits(Protocol):
    @property
    def head_s(self) -> float: ...


class _Server(Protocol):
    @property
    def limits(self) -> _Limits: ...
    def takes(self, connection: CountedConnection, peer: str) -> bool: ...
    def loses(self, connection: CountedConnection, peer: str) -> None: ...


class TlsHandshake(asyncio.Protocol):
    """Encrypts a connection, then leaves it to the one that `make` makes."""

    is_idle = True

    def __init__(
        self,
        server: _Server,
        tls: SSLContext,
        make: Callable[[], asyncio.Protocol],
        tasks: set[asyncio.Task[None]],
    ) -> None:
        """`tasks` holds the handshakes that go on."""
        self._server, self._tls, self._make, self._tasks = server, tls, make, tasks
        self.peer: str | None = None
        self.heard_at = asyncio.get_running_loop().time()
        self._wire: asyncio.Transport | None = None
        self._follower: asyncio.Protocol | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a connection is a stream")
        transport.pause_reading()  # until the handshake reads
        peer = peer_of(transport)
        if not self._server.takes(self, peer):
            transport.abort()
            return
        self.peer, self._wire = peer, transport
        task = asyncio.get_running_loop().create_task(self._encrypt(transport), name="a handshake")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def data_received(self, data: bytes) -> None:
        """Keep what comes before the connection that follows is there."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._follower is not None:
            self._follower.connection_lost(exc)

    def look(self, now: float) -> None:
        """The handshake has its own time limit."""

    def cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()

    async def _encrypt(self, transport: asyncio.Transport) -> None:
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._tls,
                server_side=True,
                ssl_handshake_timeout=self._server.limits.head_s,
            )
        except (OSError, SSLError):  # the peer speaks no TLS, does not trust us, or is gone
            transport.abort()
            return
        finally:
            self._server.loses(self, self.peer or "")
        if encrypted is None or encrypted.is_closing():
            return  # it was cut meanwhile
        self._follower = self._make()
        encrypted.set_protocol(self._follower)
        self._follower.connection_made(encrypted)
        if self._early:
            self._follower.data_received(b"".join(self._early))


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Whom connections are counted for: `here`, an address, or the network that one household has
    of the longer kind.
    """
    name = transport.get_extra_info("peername")
    try:
        address = ip_address(str(name[0])) if isinstance(name, tuple) else None
    except ValueError:
        address = None
    if address is None:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return "here"
    return (
        str(IPv6Network((int(address), 64), strict=False))
        if isinstance(address, IPv6Address)
        else str(address)
    )
