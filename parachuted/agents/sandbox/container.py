"""A program in a container, as streams. It can be ended at any time, and leaves nothing
behind.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from parachuted.errors import AgentUnavailableError
from parachuted.processes.own_thread import in_own_thread

log = logging.getLogger(__name__)

_LINE_LIMIT = 32 * 1024 * 1024
_LOGGED_CHARS = 500
_HEADER, _STDOUT = 8, 1
_KILLED = 137


class Container:
    """A running container: `write` to its stdin, read its `stdout`, `wait` for its end or `kill`
    it.

    `problem` says, for a person, why it was ended or what ended it.
    """

    def __init__(
        self, name: str, *, exit_code: Callable[[], tuple[int, bool]], remove: Callable[[], None]
    ) -> None:
        self.id = name
        self.problem: str | None = None
        self._exit_code, self._remove = exit_code, remove
        self._streams = _Streams(name)
        self._transport: asyncio.Transport | None = None
        self._code: int | None = None
        self._ending = asyncio.Lock()
        self._is_ending = self._is_gone = False

    @property
    def stdout(self) -> asyncio.StreamReader:
        """What the program prints; it is slowed down when that is not read."""
        return self._streams.stdout

    @property
    def is_ready(self) -> bool:
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and not self._streams.has_ended_input
        )

    @property
    def complaint(self) -> str:
        """The last line that it printed on stderr."""
        return self._streams.complaint

    async def begin(self, stream: socket.socket) -> None:
        stream.setblocking(False)  # noqa: FBT003  the standard library's
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: self._streams, sock=stream
        )
        self._transport = transport

    async def write(self, data: bytes) -> None:
        """Give it input, waiting while it does not read. BrokenPipeError when it has ended."""
        if not self.is_ready or self._transport is None:
            raise BrokenPipeError("the container has ended")
        self._transport.write(data)
        await self._streams.may_write.wait()

    async def end_input(self) -> None:
        if self.is_ready and self._transport is not None:
            self._streams.has_ended_input = True
            self._transport.write_eof()

    async def wait(self) -> int:
        await self._streams.ended.wait()
        if self._code is None and not self._is_ending:
            try:
                self._code, is_out_of_memory = await asyncio.to_thread(self._exit_code)
            except AgentUnavailableError:
                if not self._is_ending:  # else it was removed while the engine was asked
                    raise
            else:
                if is_out_of_memory:
                    self.problem = (
                        "it needed more memory than its sandbox has; `memory` in its "
                        "sandbox raises that"
                    )
        return self._code if self._code is not None else _KILLED

    async def kill(self, problem: str | None = None) -> None:
        """End it and all that runs in it, and leave nothing of it.

        Raises AgentUnavailableError when the engine does not answer.
        """
        self.problem, self._is_ending = self.problem or problem, True
        async with self._ending:
            if self._is_gone:
                return
            if self._transport is not None:
                self._transport.abort()  # the engine does not end one whose output is not read
            await in_own_thread(self._remove)
            self._is_gone = True
            self._streams.end()

    def end_soon(self, problem: str) -> None:
        """End it from code that cannot wait; its streams end once it is gone."""
        self.problem, self._is_ending = self.problem or problem, True
        ending = asyncio.get_running_loop().run_in_executor(None, self._remove)
        ending.add_done_callback(self._ended_soon)

    def _ended_soon(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.error(
                "a container was not ended", extra={"container": self.id[:12], "reason": str(error)}
            )
        self._streams.end()


class _Streams(asyncio.Protocol):
    """The engine's stream: a header of eight bytes (which stream, how much) before each piece of
    it.
    """

    def __init__(self, name: str) -> None:
        self.stdout = asyncio.StreamReader(limit=_LINE_LIMIT)
        self.ended = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.has_ended_input = False
        self._name = name[:12]
        self._rest = bytearray()
        self._left = 0
        self._kind = 0
        self._line = b""
        self.complaint = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stdout.set_transport(transport)

    def data_received(self, data: bytes) -> None:
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
                self.stdout.feed_data(piece)
            else:
                self._log(piece)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the protocol
        self.end()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def end(self) -> None:
        self.may_write.set()
        if not self.ended.is_set():
            self.ended.set()
            self.stdout.feed_eof()
            self._log(b"\n")

    def _log(self, piece: bytes) -> None:
        *lines, rest = (self._line + piece).split(b"\n")
        self._line = rest[:_LOGGED_CHARS]
        for line in lines:
            text = line[:_LOGGED_CHARS].decode(errors="replace").strip()
            if text:
                self.complaint = text
                log.info("the agent's container says: %s", text, extra={"container": self._name})
