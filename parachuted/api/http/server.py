"""Server: listens, and keeps room for those who ask something.

aiohttp's request handler is subclassed for one reason: it knows no limit for connections, nor for
the time that a request's head may take. Without one, some hundred connections that only stand there
take every file descriptor of the daemon; no middleware sees them, as they never become a request.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from socket import socket
from ssl import SSLContext

from aiohttp import web

from parachuted.addresses import BACKLOG, listening_sockets
from parachuted.api.http.answers import error_body, json_answer

log = logging.getLogger(__name__)

_SHUTDOWN_S = 2.0
_LOOK_EVERY_S = 1.0
_LINE = 16_384
_FIELD = 8_190
_FIELDS = 64
_READ_AHEAD = 1 << 16
_NO_REQUEST = (
    "the request is malformed: its method must be one of HTTP's own, each of its lines at most "
    "8 KB long, and its query percent-encoded UTF-8"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """How many connections there may be, for how many seconds one may stand without a whole request
    (`head_s` before its first, `idle_s` later), and how many requests may wait for an answer.
    """

    connections: int = 512
    head_s: float = 10.0
    idle_s: float = 75.0
    ahead: int = 8
    linger_s: float = 1.0


class HttpServer:
    """The listening sockets and all that came in by them."""

    def __init__(self, app: web.Application, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        self.most = min(
            self.limits.connections, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        self._listening: list[asyncio.Server] = []
        self.connections: set[_Connection] = set()
        self._looking: asyncio.TimerHandle | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; the port. Raises DaemonError when it cannot be used."""
        sockets = listening_sockets(host, port)
        await self.open_at(sockets)
        return int(sockets[0].getsockname()[1])

    async def open_at(self, sockets: Sequence[socket], tls: SSLContext | None = None) -> None:
        """Listen there, encrypted where `tls` is given; it may be called once more for others."""
        if self._runner.server is None:
            await self._runner.setup()
        loop = asyncio.get_running_loop()
        limit_s = None if tls is None else self.limits.head_s
        self._listening += [
            await loop.create_server(
                self._connection,
                sock=listening,
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=limit_s,
            )
            for listening in sockets
        ]

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for listening in self._listening:
            listening.close()
        await self._runner.cleanup()
        for connection in tuple(self.connections):
            connection.cut()

    def has_room(self) -> bool:
        """Whether there is room for one more; the connection that has asked nothing for the longest
        time makes some.
        """
        if len(self.connections) < self.most:
            return True
        idle = [connection for connection in self.connections if connection.is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda connection: connection.idle_since)
        self.connections.discard(oldest)
        oldest.cut()
        return True

    def _connection(self) -> _Connection:
        manager = self._runner.server
        if manager is None:
            raise RuntimeError("the server was not opened")
        loop = asyncio.get_running_loop()
        if self._looking is None:  # no timer runs without connections
            self._looking = loop.call_later(_LOOK_EVERY_S, self._look)
        return _Connection(self, manager, loop)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self.connections):
            connection.look(now)
        self._looking = loop.call_later(_LOOK_EVERY_S, self._look) if self.connections else None


class _Connection(web.RequestHandler):
    """A connection: aiohttp's, counted, and with a time in which it must ask something."""

    __slots__ = ("_limit_s", "_server", "_wire", "idle_since")

    def __init__(
        self, server: HttpServer, manager: web.Server, loop: asyncio.AbstractEventLoop
    ) -> None:
        limits = server.limits
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=limits.idle_s,
            max_line_size=_LINE,
            max_field_size=_FIELD,
            max_headers=_FIELDS,
            lingering_time=limits.linger_s,
            read_bufsize=_READ_AHEAD,
            auto_decompress=False,
        )
        self.access_logger, self._logging_enabled = None, False
        self._server = server
        self._wire: asyncio.Transport | None = None
        self.idle_since, self._limit_s = loop.time(), limits.head_s

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered, nor has come whole and waits for that."""
        return self._current_request is None and not self._messages

    def look(self, now: float) -> None:
        """Once a second: cut it when it has stood too long without a whole request."""
        if not self.is_idle:
            self.idle_since, self._limit_s = now, self._server.limits.idle_s
        elif now - self.idle_since > self._limit_s:
            self.cut()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a connection is a stream")
        if self._server.has_room():
            self._wire = transport
            self._server.connections.add(self)
            super().connection_made(transport)
        else:
            transport.write(_no_room())
            transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.connections.discard(self)
        if self._wire is not None:
            super().connection_lost(exc)
            self._messages.clear()  # what was refused remembers where, and so keeps what was sent

    def data_received(self, data: bytes) -> None:
        if self._wire is None:
            return
        super().data_received(data)
        if len(self._messages) > self._server.limits.ahead:
            self.cut()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Every error in the one shape of the API's."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("a request failed outside its route", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has already started")
        if exc is not None:
            exc.__traceback__ = exc.__context__ = (
                None  # whose frames would keep what was sent until garbage is looked for
            )
        answer = json_answer(error_body(status, _NO_REQUEST, "none"), status=status)
        answer.force_close()
        return answer

    def cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()


def _no_room() -> bytes:
    body = json_answer(
        error_body(503, "too many connections; come back later", "none"), status=503
    ).body
    if not isinstance(body, bytes):
        raise TypeError("an error is not bytes")
    head = (
        "HTTP/1.1 503 Service Unavailable",
        "Content-Type: application/json; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(head).encode() + body
