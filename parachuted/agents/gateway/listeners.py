"""Where the gateway listens: a port of this machine, and a socket for each run with no network."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

NAME = "gateway.sock"
_BACKLOG = 128
_MOST_CONNECTIONS = 256

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def listen_in(folder: Path, name: str) -> socket.socket:
    """Bind a unix socket, replacing an old one. Raises OSError.

    The folder's permissions decide who can connect: a container's user has another uid. A path may
    have about a hundred bytes, so it goes through the folder's descriptor where the system allows.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        through = Path(f"/proc/self/fd/{at}")
        path = (through if through.exists() else folder) / name
        path.unlink(missing_ok=True)
        bound.bind(os.fspath(path))
        path.chmod(0o666)
        bound.setblocking(False)  # noqa: FBT003  the standard library's
    except BaseException:
        bound.close()
        raise
    finally:
        os.close(at)
    return bound


def _is_no_protocol_error(record: logging.LogRecord) -> bool:
    """An agent could flood the log with malformed HTTP."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log = logging.getLogger(f"{__name__}.http")
_log.addFilter(_is_no_protocol_error)


class GatewayListeners:
    def __init__(self, serve: RequestHandler) -> None:
        self._serve = serve
        self._opening = asyncio.Lock()
        self._runner: web.ServerRunner | None = None

    async def port(self) -> int:
        async with self._opening:
            if self._runner is None:
                self._runner = await _listen(self._serve, socket.create_server(("127.0.0.1", 0)))
            return int(self._runner.addresses[0][1])

    @asynccontextmanager
    async def socket(
        self, folder: Path | None, serve: RequestHandler
    ) -> AsyncIterator[Path | None]:
        if folder is None:
            yield None
            return
        runner = await _listen(serve, listen_in(folder, NAME))
        try:
            yield folder / NAME
        finally:
            await runner.cleanup()
            with suppress(OSError):
                (folder / NAME).unlink(missing_ok=True)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


class _LimitedServer(web.Server):
    """An agent may open any number of connections: of too many, the oldest idle is closed."""

    def __init__(self, serve: RequestHandler) -> None:
        super().__init__(
            self._answer,
            handler_cancellation=True,  # an agent that goes away ends what it asked for, also there
            access_log=None,
            auto_decompress=False,
            logger=_log,
        )
        self._serve = serve
        self._busy: set[web.RequestHandler] = set()

    def __call__(self) -> web.RequestHandler:
        made = super().__call__()
        inside = [each for each in self.connections if each.transport is not None]
        if len(inside) < _MOST_CONNECTIONS:
            return made
        idle = next((each for each in inside if each not in self._busy), None)
        if idle is None:
            return _RefuseConnection(self, loop=asyncio.get_running_loop())
        idle.force_close()
        return made

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            return await self._serve(request)
        finally:
            self._busy.discard(request.protocol)


class _RefuseConnection(web.RequestHandler):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None: ...


async def _listen(serve: RequestHandler, bound: socket.socket) -> web.ServerRunner:
    """In its own context: else requests would end with the module whose call was the first."""
    runner = web.ServerRunner(_LimitedServer(serve), shutdown_timeout=0.1)

    async def begin() -> None:
        await runner.setup()
        await web.SockSite(runner, bound, backlog=_BACKLOG).start()

    loop = asyncio.get_running_loop()
    try:
        await loop.create_task(begin(), name="opening the gateway", context=Context())
    except BaseException:
        await runner.cleanup()
        bound.close()
        raise
    return runner
