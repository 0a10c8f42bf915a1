"""A way to a server on loopback that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Gate:
    """Passes connections on to the server at that address."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.url = ""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut()

    @asynccontextmanager
    async def cut(self) -> AsyncIterator[None]:
        """Inside, nothing gets through."""
        self._is_cut = True
        self._cut()
        try:
            yield
        finally:
            self._is_cut = False

    def _cut(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        host, port = self._target.hostname, self._target.port
        there, to_there = await asyncio.open_connection(host, port)
        pair = {writer, to_there}
        self._writers |= pair
        try:
            await asyncio.gather(_copy(reader, to_there), _copy(there, writer))
        finally:
            self._writers -= pair


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
