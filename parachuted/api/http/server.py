"""Server: listens, and gives each connection only the room and time that it needs.

aiohttp reads and answers; what it lets a hostile peer do without end (connect, send slowly, read
slowly, pipeline) has a limit here. Its request handler is subclassed for that: a slow head never
becomes a request, so no middleware sees it, and aiohttp has no limit for slow readers, for slow
bodies or for connections.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from socket import socket
from ssl import SSLContext

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_writer import StreamWriter
from aiohttp.streams import EMPTY_PAYLOAD

from parachuted.addresses import BACKLOG, listening_sockets
from parachuted.api.http.answers import error_body, json_answer
from parachuted.api.http.handshake import CountedConnection, TlsHandshake, peer_of
from parachuted.api.http.middleware import FRONT

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
    """What one who connects is given.

    `per_peer` does not bind this machine, whose programs all have one address.
    """

    connections: int = 512
    per_peer: int = 64
    head_bytes: int = 32_768
    ahead: int = 8
    head_s: float = 10.0
    idle_s: float = 75.0
    body_s: float = 10.0
    body_bytes_per_s: int = 512
    read_s: float = 30.0
    linger_s: float = 1.0


class HttpServer:
    """The listening socket and all that came in by it."""

    def __init__(self, app: web.Application, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        self.most = min(
            self.limits.connections, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        self._listening: list[asyncio.Server] = []
        self._connections: set[CountedConnection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self.front = app.get(FRONT)
        self._peers: Counter[str] = Counter()
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
        self._listening += [
            await loop.create_server(
                self._connection if tls is None else partial(self._handshake, tls),
                sock=one,
                backlog=BACKLOG,
            )
            for one in sockets
        ]

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for one in self._listening:
            one.close()
        await self._runner.cleanup()
        for connection in tuple(self._connections):
            connection.cut()
        await asyncio.gather(*self._handshakes)

    def takes(self, connection: CountedConnection, peer: str) -> bool:
        """Whether there is room for one more from there; it is counted then.

        The connection that has asked nothing for the longest time, of the same peer where that one
        has its share, makes room, so that none is kept out by others that only stand there.
        """
        if peer != "here" and self._peers[peer] >= self.limits.per_peer:
            if not self._make_room([one for one in self._connections if one.peer == peer]):
                return False
        elif len(self._connections) >= self.most and not self._make_room(self._connections):
            return False
        self._connections.add(connection)
        self._peers[peer] += 1
        return True

    def _make_room(self, among: Collection[CountedConnection]) -> bool:
        idle = min(
            (one for one in among if one.is_idle), key=lambda one: one.heard_at, default=None
        )
        if idle is None:
            return False
        self.loses(idle, idle.peer or "")
        idle.cut()
        return True

    def loses(self, connection: CountedConnection, peer: str) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._peers[peer] -= 1
        if self._peers[peer] <= 0:
            del self._peers[peer]

    def _connection(self) -> _Connection:
        manager = self._runner.server
        if manager is None:
            raise RuntimeError("the server was not opened")
        loop = asyncio.get_running_loop()
        if self._looking is None:  # no timer runs without connections
            self._looking = loop.call_later(_LOOK_EVERY_S, self._look)
        return _Connection(self, manager, loop)

    def _handshake(self, tls: SSLContext) -> TlsHandshake:
        return TlsHandshake(self, tls, self._connection, self._handshakes)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._connections):
            connection.look(now)
        self._looking = loop.call_later(_LOOK_EVERY_S, self._look) if self._connections else None


class _Connection(web.RequestHandler):
    """One connection: aiohttp's, watched. `look` is called once a second."""

    __slots__ = (
        *(
            "_asking_since",
            "_body",
            "_body_mark",
            "_head",
            "_held_since",
            "_left",
            "_seen",
            "_server",
            "_taken",
            "_wire",
        ),
        *("heard_at", "peer"),
    )

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
        self.peer: str | None = None
        self.heard_at = loop.time()
        self._asking_since: float | None = loop.time()
        self._head = self._taken = self._seen = 0
        self._body: StreamReader | None = None
        self._body_mark = (0.0, 0)
        self._held_since: float | None = None
        self._left = (0, 0.0)

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered, nor has come whole and waits for that."""
        return self._current_request is None and not self._messages

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a connection is a stream")
        self._wire = transport
        peer = peer_of(transport)
        if self._server.takes(self, peer):
            self.peer = peer
            super().connection_made(transport)
        else:
            transport.write(_plain(503, "too many connections; come back later"))
            transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.peer is not None:
            self._server.loses(self, self.peer)
            super().connection_lost(exc)
            self._messages.clear()  # what was refused remembers where, and so keeps what was sent
            self._body = None

    def data_received(self, data: bytes) -> None:
        """Count what comes: a head is small and whole soon, and few requests are sent before the
        first is answered.
        """
        if self.peer is None:
            return
        self._taken += len(data)
        self.heard_at = self._loop.time()
        was_asking = self._is_asking()  # or it is the end of a body, however large
        waiter, self._waiter = self._waiter, None
        super().data_received(data)
        self._waiter = waiter
        if (
            waiter is not None
            and self._messages
            and not waiter.done()
            and not self._answers_at_hand()
        ):
            waiter.set_result(None)
        if len(self._messages) > self._server.limits.ahead:
            self.cut()
        elif not self._has_come() and data and was_asking and self._is_asking():
            self._head += len(data)
            if self._asking_since is None:
                self._asking_since = self._loop.time()
            if self._head > self._server.limits.head_bytes:
                self._refuse(431, "the head of the request is too large")

    def _answers_at_hand(self) -> bool:
        """Answer the one request that has come at once, without a task and its turns of the loop,
        if the app has the answer at hand.
        """
        (message, payload), front, parser, task = (
            self._messages[0],
            self._server.front,
            self._parser,
            self._task_handler,
        )
        if (
            front is None
            or parser is None
            or task is None
            or self._wire is None
            or self._request_factory is None
        ):
            return False
        if len(self._messages) > 1 or payload is not EMPTY_PAYLOAD:
            return False
        if (
            not isinstance(message, RawRequestMessage)
            or message.method != "GET"
            or not front.knows(message.path)
        ):
            return False
        is_usual = (
            message.version == HttpVersion11 and not message.should_close and not message.upgrade
        )
        is_settled = (
            is_usual
            and self._keepalive
            and self._keepalive_handle is not None
            and self._current_request is None
        )
        if not is_settled or self._wire.get_write_buffer_size():
            return False
        request = self._request_factory(
            message, payload, self, StreamWriter(self, self._loop), task
        )
        answer = front.at_hand(request) if isinstance(request, web.Request) else None
        if answer is None:
            return False
        self._messages.popleft()
        parser.message_consumed()
        self._next_keepalive_close_time = self._loop.time() + self._server.limits.idle_s
        self._wire.write(answer)
        return True

    def pause_writing(self) -> None:
        """What is written waits for the reader from now on."""
        super().pause_writing()
        self._held_since = self._loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._held_since = None

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
        if exc is not None:
            exc.__traceback__ = exc.__context__ = (
                None  # whose frames would keep what was sent until garbage is looked for
            )
        answer = json_answer(error_body(status, _NO_REQUEST, "none"), status=status)
        answer.force_close()
        return answer

    def look(self, now: float) -> None:
        """Cut it when its peer sends or takes too slowly."""
        limits = self._server.limits
        self._has_come()
        if self._holds_up(now):
            self.cut()
        elif (
            self._asking_since is not None
            and self._is_asking()
            and now - self._asking_since > limits.head_s
        ):
            self._refuse(408, "the request took too long to come")
        elif self._is_slow_body(now):
            self.cut()

    def cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()

    def _has_come(self) -> bool:
        """Whether the head of another request is whole; then its body begins, if it has one."""
        if self._request_count == self._seen:
            return False
        self._seen = self._request_count
        self._body = self._messages[-1][1] if self._messages else None
        self._asking_since, self._head, self._body_mark = None, 0, (self._loop.time(), self._taken)
        return True

    def _is_asking(self) -> bool:
        """Whether what comes next is the head of a request: the body of the last one is whole."""
        return self._body is None or self._body.is_eof()

    def _is_slow_body(self, now: float) -> bool:
        (since, taken), limits = self._body_mark, self._server.limits
        if self._is_asking() or self._reading_paused or self._buffer_paused:
            self._body_mark = (now, self._taken)
            return False
        if now - since < limits.body_s:
            return False
        self._body_mark = (now, self._taken)
        return self._taken - taken < limits.body_bytes_per_s * (now - since)

    def _holds_up(self, now: float) -> bool:
        """Whether what was written has waited too long: as good as nothing of it was taken."""
        if self._held_since is not None:
            return now - self._held_since > self._server.limits.read_s
        size = self._wire.get_write_buffer_size() if self._wire is not None else 0
        if size == 0 or size != self._left[0]:
            self._left = (size, now)
        return size > 0 and now - self._left[1] > self._server.limits.read_s

    def _refuse(self, status: int, message: str) -> None:
        if self._current_request is None and self._wire is not None and not self._messages:
            self._wire.write(_plain(status, message))
            self.force_close()
        else:
            self.cut()


def _plain(status: int, message: str) -> bytes:
    body = json_answer(error_body(status, message, "none"), status=status).body
    if not isinstance(body, bytes):
        raise TypeError("an error is not bytes")
    head = (
        *(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "Content-Type: application/json; charset=utf-8",
        ),
        *(f"Content-Length: {len(body)}", "Connection: close", "", ""),
    )
    return "\r\n".join(head).encode() + body
