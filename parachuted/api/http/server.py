"""Server: listens, and keeps room for active connections.

aiohttp's handler has no limit for connections: some hundred idle ones take every file descriptor,
and no middleware sees them.
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

from parachuted.api.http.answers import JSON, error_body, json_answer, json_bytes
from parachuted.processes.addresses import BACKLOG, listening_sockets

log = logging.getLogger(__name__)

_SHUTDOWN_S, _HANDSHAKE_S = 2.0, 10.0
_LINE, _FIELD, _FIELDS, _READ_AHEAD = 16_384, 8_190, 64, 1 << 16
_NO_REQUEST = (
    "the request is malformed: its method must be one of HTTP's own, each of its lines at most "
    "8 KB long, and its query percent-encoded UTF-8"
)
_NO_ROOM = json_bytes(error_body(503, "too many connections; come back later", "none"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """`idle_s`: how long a connection may take to make a request."""

    connections: int = 512
    idle_s: float = 75.0
    linger_s: float = 1.0


class HttpServer:
    def __init__(self, app: web.Application, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = min(self.limits.connections, max(16, files // 2))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        self._listening: list[asyncio.Server] = []
        self.connections: dict[_Connection, None] = {}  # the oldest first

    async def open(self, host: str, port: int) -> int:
        """Listen; the port. Raises DaemonError when it cannot be used."""
        sockets = listening_sockets(host, port)
        await self.open_at(sockets)
        return int(sockets[0].getsockname()[1])

    async def open_at(self, sockets: Sequence[socket], tls: SSLContext | None = None) -> None:
        """Listen there, with TLS where given; it may be called once more for others."""
        if self._runner.server is None:
            await self._runner.setup()
        for listening in sockets:
            server = await asyncio.get_running_loop().create_server(
                self._connection,
                sock=listening,
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else _HANDSHAKE_S,
            )
            self._listening.append(server)

    async def close(self) -> None:
        for listening in self._listening:
            listening.close()
        await self._runner.cleanup()
        for connection in tuple(self.connections):
            connection.cut()

    def has_room(self) -> bool:
        """Whether one more fits; the oldest connection that is idle makes room."""
        if len(self.connections) < self.most:
            return True
        oldest = next((connection for connection in self.connections if connection.is_idle), None)
        if oldest is None:
            return False
        del self.connections[oldest]
        oldest.cut()
        return True

    def _connection(self) -> _Connection:
        if self._runner.server is None:
            raise RuntimeError("the server was not opened")
        return _Connection(self, self._runner.server, asyncio.get_running_loop())


class _Connection(web.RequestHandler):
    """aiohttp's connection, counted, with errors in the API's one shape."""

    __slots__ = ("_server", "_wire")

    def __init__(
        self, server: HttpServer, manager: web.Server, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=server.limits.idle_s,
            max_line_size=_LINE,
            max_field_size=_FIELD,
            max_headers=_FIELDS,
            lingering_time=server.limits.linger_s,
            read_bufsize=_READ_AHEAD,
            auto_decompress=False,
        )
        self.access_logger, self._logging_enabled = None, False
        self._server = server
        self._wire: asyncio.Transport | None = None

    @property
    def is_idle(self) -> bool:
        return self._current_request is None and not self._messages

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a connection is a stream")
        if self._server.has_room():
            self._wire = transport
            self._server.connections[self] = None
            super().connection_made(transport)
            return
        head = f"Content-Type: {JSON}\r\nContent-Length: {len(_NO_ROOM)}\r\nConnection: close"
        transport.write(f"HTTP/1.1 503 Service Unavailable\r\n{head}\r\n\r\n".encode() + _NO_ROOM)
        transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.connections.pop(self, None)
        if self._wire is not None:
            super().connection_lost(exc)
            self._messages.clear()  # what was refused remembers where, and so keeps what was sent

    def data_received(self, data: bytes) -> None:
        if self._wire is not None:
            super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("a request failed outside its route", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has already started")
        if exc is not None:  # its frames would keep what was sent until garbage is looked for
            exc.__traceback__ = exc.__context__ = None
        answer = json_answer(error_body(status, _NO_REQUEST, "none"), status=status)
        answer.force_close()
        return answer

    def cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()
