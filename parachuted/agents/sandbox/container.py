"""A program in a container, as streams. It can be ended at any time, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from parachuted.errors import AgentUnavailableError
from parachuted.processes.own_thread import in_own_thread
from parachuted.processes.uninterrupted import run_uninterrupted

if TYPE_CHECKING:  # it brings docker, which is loaded at its first use
    from parachuted.agents.sandbox.engine import Engine

log = logging.getLogger(__name__)

_LINE_LIMIT = 32 * 1024 * 1024
_LOGGED_CHARS = 500
_HEADER, _STDOUT = 8, 1
_KILLED = 137
_END_MARK = re.compile(rb"\0(?P<code>\d{1,3}) (?P<memory>\d+)\n")
_LONGEST_MARK = 32
_STOPS_S = 60.0
_OUT_OF_MEMORY = "it needed more memory than its sandbox has; `memory` in its sandbox raises that"


class Container(asyncio.Protocol):
    """`begin` it, `write` to its stdin, read its `stdout`, `wait` for its end or `kill` it.

    `problem` says, for a person, why it was ended or what ended it; `complaint` is its last line on
    stderr. The engine's stream, whose protocol this is, has a header of eight bytes (which stream,
    how much) before each piece. One whose first process is inside.py goes on when its program has
    ended, which a NUL in stdout tells, so that its files can be read.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        *,
        tells_its_end: bool = False,
    ) -> None:
        self.name = name
        self.problem: str | None = None
        self.complaint = ""
        self.stdout = asyncio.StreamReader(limit=_LINE_LIMIT)
        self._engine, self._tells_its_end, self._end_mark = engine, tells_its_end, b""
        self._is_made = threading.Event()
        self._is_made.set()
        self._stream: socket.socket | None = None
        self._transport: asyncio.Transport | None = None
        self._may_write, self._ended = asyncio.Event(), asyncio.Event()
        self._may_write.set()
        self._has_ended_input = False
        self._rest, self._left, self._kind, self._line = bytearray(), 0, 0, b""
        self._code: int | None = None
        self._ending = asyncio.Lock()
        self._is_ending = self._is_unread = self._is_gone = False

    @property
    def is_ready(self) -> bool:
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and not self._has_ended_input
            and not self._ended.is_set()
        )

    async def begin(self, options: Mapping[str, object]) -> None:
        """Raises AgentUnavailableError. A caller that is cancelled kills it."""
        self._is_made.clear()
        await run_uninterrupted(self._make, options)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=self._stream)

    def _make(self, options: Mapping[str, object]) -> None:
        try:
            self._stream = self._engine.start(options, self.name)
            self._stream.setblocking(False)  # noqa: FBT003  the standard library's
        finally:
            self._is_made.set()

    def _remove(self) -> None:
        """Nothing where none was made; a caller that is cancelled twice did not wait for that."""
        self._is_made.wait()
        if self._stream is not None:
            if self._transport is None:
                self._stream.close()
            self._engine.remove(self.name)

    async def fill(self, place: str, archive: Path) -> None:
        """Unpack an archive in a folder of it. Raises AgentUnavailableError."""
        await in_own_thread(partial(self._engine.fill, self.name, place, archive))

    async def write(self, data: bytes) -> None:
        """Waits while it does not read. BrokenPipeError when it has ended."""
        if not self.is_ready or self._transport is None:
            raise BrokenPipeError("the container has ended")
        self._transport.write(data)
        await self._may_write.wait()

    async def end_input(self) -> None:
        if self.is_ready and self._transport is not None:
            self._has_ended_input = True
            self._transport.write_eof()

    async def wait(self) -> int:
        await self._ended.wait()
        if self._code is None and not self._is_ending:
            try:
                self._code, is_out_of_memory = await asyncio.to_thread(
                    self._engine.exit_code, self.name
                )
            except AgentUnavailableError:
                if not self._is_ending:  # else it was removed while the engine was asked
                    raise
            else:
                if is_out_of_memory:
                    self.problem = _OUT_OF_MEMORY
        return self._code if self._code is not None else _KILLED

    async def kill(self) -> None:
        """End all that runs in it, and leave nothing of it. Raises AgentUnavailableError."""
        self._is_ending = True
        async with self._ending:
            if self._is_gone:
                return
            if self._transport is not None:
                self._transport.abort()  # the engine does not end one whose output is not read
            await in_own_thread(self._remove)
            self._is_gone = True
            self._end()

    async def stop(self) -> None:
        """End all that runs in it; its files can still be read. Raises AgentUnavailableError."""
        async with self._ending:
            if self._ended.is_set():
                return
            self._is_unread = True
            if self._transport is not None and not self._transport.is_reading():
                self._transport.resume_reading()
            await in_own_thread(partial(self._engine.stop, self.name))
            try:
                async with asyncio.timeout(_STOPS_S):
                    await self._ended.wait()
            except TimeoutError as error:
                raise AgentUnavailableError("the agent's container did not stop") from error

    async def read(self, place: str, archive: Path) -> None:
        """Read a file or folder of it into an archive. Raises AgentUnavailableError."""
        await in_own_thread(partial(self._engine.read, self.name, place, archive))

    def end_soon(self, problem: str) -> None:
        """End it from code that cannot wait; its streams end once it is gone."""
        self.problem, self._is_ending = self.problem or problem, True
        ending = asyncio.get_running_loop().run_in_executor(None, self._remove)
        ending.add_done_callback(self._ended_soon)

    def _ended_soon(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.error(
                "a container was not ended", extra={"container": self.name, "reason": str(error)}
            )
        self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.stdout.set_transport(transport)

    def data_received(self, data: bytes) -> None:
        if self._ended.is_set():
            return
        self._rest += data
        while self._rest:
            if self._left == 0:
                if len(self._rest) < _HEADER:
                    return
                self._kind, self._left = self._rest[0], int.from_bytes(self._rest[4:_HEADER], "big")
                del self._rest[:_HEADER]
                continue
            piece = bytes(self._rest[: self._left])
            del self._rest[: len(piece)]
            self._left -= len(piece)
            if self._kind == _STDOUT:
                self._print(piece)
            else:
                self._log(piece)

    def _print(self, piece: bytes) -> None:
        """Pass stdout on, up to the NUL after which inside.py says how its program ended."""
        if self._tells_its_end and not self._end_mark:
            piece, nul, rest = piece.partition(b"\0")
            self.stdout.feed_data(b"" if self._is_unread else piece)
            self._end_mark = nul + rest
        elif self._tells_its_end:
            self._end_mark += piece
        else:
            self.stdout.feed_data(piece)
        found = _END_MARK.search(self._end_mark)
        if found is not None and found["memory"] != b"0":
            self.problem = self.problem or _OUT_OF_MEMORY
        if found is not None or len(self._end_mark) > _LONGEST_MARK:
            self._code = int(found["code"]) if found is not None else _KILLED  # its own NUL
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the protocol
        self._end()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _end(self) -> None:
        self._may_write.set()
        if not self._ended.is_set():
            self._ended.set()
            self.stdout.feed_eof()
            self._log(b"\n")

    def _log(self, piece: bytes) -> None:
        *lines, rest = (self._line + piece).split(b"\n")
        self._line = rest[:_LOGGED_CHARS]
        for line in lines:
            text = line[:_LOGGED_CHARS].decode(errors="replace").strip()
            if text:
                self.complaint = text
                log.info("the agent's container says: %s", text, extra={"container": self.name})
