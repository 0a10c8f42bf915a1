"""Where the gateway listens: a port of this machine, and a socket for each run with no network."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextvars import Context
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

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
        others = [each for each in self.connections if each.transport is not None]
        if len(others) >= _MOST_CONNECTIONS:
            idle = next((each for each in others if each not in self._busy), None)
            if idle is not None:
                idle.force_close()
            else:
                asyncio.get_running_loop().call_later(0, made.force_close)  # once it is connected
        return made

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            return await self._serve(request)
        finally:
            self._busy.discard(request.protocol)


async def start_server(serve: RequestHandler, bound: socket.socket) -> web.ServerRunner:
    """In its own context: else requests would act for the module whose call was the first."""
    runner = web.ServerRunner(_LimitedServer(serve), shutdown_timeout=0.1)

    async def begin() -> None:
        await runner.setup()
        await web.SockSite(runner, bound).start()

    loop = asyncio.get_running_loop()
    try:
        await loop.create_task(begin(), name="opening the gateway", context=Context())
    except BaseException:
        await runner.cleanup()
        bound.close()
        raise
    return runner
