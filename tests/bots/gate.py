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
        self._loses_answers = False
        self.url = ""

    async def open(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()

    @asynccontextmanager
    async def cut(self) -> AsyncIterator[None]:
        """Inside, nothing gets through."""
        await self.close()
        try:
            yield
        finally:
            await self.open(urlsplit(self.url).port or 0)

    @asynccontextmanager
    async def losing_answers(self) -> AsyncIterator[None]:
        """Inside, what is asked gets through, and its answers do not."""
        self._loses_answers = True
        try:
            yield
        finally:
            self._loses_answers = False

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.hostname, self._target.port
        there, to_there = await asyncio.open_connection(host, port)
        pair = {writer, to_there}
        self._writers |= pair
        try:
            await asyncio.gather(
                self._copy(reader, to_there), self._copy(there, writer, is_answer=True)
            )
        finally:
            self._writers -= pair

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_answer: bool = False,
    ) -> None:
        with suppress(OSError):
            while (data := await reader.read(1 << 16)) and not (is_answer and self._loses_answers):
                writer.write(data)
                await writer.drain()
        writer.close()
