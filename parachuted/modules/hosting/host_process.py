"""The operating system process of a module host: its pipe, its output and its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import cast
from uuid import uuid4

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.framing import (
    Frame,
    FrameBudget,
    Unpacker,
    WireError,
    cost_of,
    parse_frame,
)
from parachuted.modules.hosting.isolation import MARK, IsolatedLaunch
from parachuted.modules.hosting.isolation_rules import MOST_THREADS
from parachuted.modules.hosting.rpc import RpcConnection
from parachuted.processes.beat import next_beat
from parachuted.processes.reaper import family_threads, kill_family, kill_group, thread_count
from parachuted.visible import visible

_MOST_LINES_A_SECOND = 100
_MOST_LOGGED = 4_000


class CappedLog:
    """What is left out is counted."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second, self._lines, self._left_out = 0, 0, 0

    def say(self, level: int, text: str) -> None:
        """Log it, unless there were too many in this second."""
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                self._log.warning("%d lines of its log were left out", self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        self._lines += 1
        if self._lines > _MOST_LINES_A_SECOND:
            self._left_out += 1
        else:
            self._log.log(level, "%s", visible(_cut(text), keep="\n\t"))


def _cut(text: str) -> str:
    """The text shortened to its beginning and end, since a traceback's error is at the end."""
    return (
        text
        if len(text) <= _MOST_LOGGED
        else f"{text[: _MOST_LOGGED // 4]}\n...\n{text[-_MOST_LOGGED // 4 * 3 :]}"
    )


_CHUNK = 1 << 16
_LARGE = (
    1 << 15
)  # bytes of a frame that takes long enough to read that the loop leaves it to a thread
_TURN_S = 0.005
_WATCH_S, _WATCH_PART = 0.25, 0.05
_MOST_WATCHED = 2 * MOST_THREADS
_MOST_UNREAD = 64 * 1024 * 1024
_MOST_LINE = 2_000
_LAST_LINES = 20
_GONE_S = 5.0
_ENDING_S = 1.0
_LAST_WORDS_S = 0.2
_STDOUT, _STDERR = 1, 2


def new_mark() -> str:
    """What a process and its descendants carry in their environment, so that they are found."""
    return uuid4().hex


class ModuleHostProcess:
    """Made by `start`. `read` lasts as long as the process; `close` leaves nothing of it."""

    def __init__(
        self, process: asyncio.subprocess.Process, pipes: _Pipes, launch: IsolatedLaunch, mark: str
    ) -> None:
        self._process, self._pipes, self._exited = process, pipes, pipes.exited
        self._launch = launch
        self._mark = mark
        self._why: str | None = None
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    @classmethod
    async def start(cls, launch: IsolatedLaunch, mark: str) -> ModuleHostProcess:
        """Begin it; raises ModuleFailedError."""
        loop = asyncio.get_running_loop()
        try:
            transport, pipes = await loop.subprocess_exec(
                lambda: _Pipes(loop),
                *launch.command,
                env=dict(launch.env),
                cwd=launch.cwd,
                start_new_session=True,
            )
        except OSError as error:
            await launch.end()
            raise ModuleFailedError(
                f"the module's process could not be started: {error}"
            ) from error
        process = asyncio.subprocess.Process(transport, pipes, loop)
        launch.began(process.pid)
        return cls(process, pipes, launch, mark)

    @property
    def pid(self) -> int:
        """Of the process, or of the command that holds the container."""
        return self._process.pid

    @property
    def is_grouped(self) -> bool:
        """Whether the kernel counts it and all that it starts."""
        return self._launch.group is not None and self.pid in self._launch.group.members()

    @property
    def limits(self) -> str:
        if self._launch.kind == "docker":
            return "its container"
        if self.is_grouped and self._launch.group is not None:
            return self._launch.group.limits()
        return (
            f"rlimit of memory, and a watch that ends it above {_MOST_WATCHED} threads (no "
            "cgroup can be made here)"
        )

    @property
    def reason(self) -> str:
        if self._why is not None:
            return self._why
        code = self._process.returncode
        ended = (
            "it closed its pipe"
            if code is None
            else f"it ended with code {code}"
            if code >= 0
            else f"it was ended by {_signal(-code)}"
        )
        return "\n".join([ended, *self._last])

    def send(self, data: bytes) -> None:
        """Write to its pipe; a process that does not read is ended."""
        pipe = self._process.stdin
        if pipe is None or pipe.is_closing():
            return
        pipe.write(data)
        if pipe.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.kill("it does not read what it is sent")

    async def read(self, connection: RpcConnection) -> None:
        loop = asyncio.get_running_loop()
        unpacker, budget, turn = Unpacker(), FrameBudget(loop.time()), loop.time() + _TURN_S
        pipe = self._process.stdout
        try:
            while pipe is not None and (data := await pipe.read(_CHUNK)):
                for text in unpacker.texts(data):
                    frame, took_s = (
                        _parsed(text)
                        if len(text) < _LARGE
                        else await asyncio.to_thread(_parsed, text)
                    )
                    wait_s = budget.spend(cost_of(frame, took_s), loop.time())
                    if (
                        wait_s or loop.time() > turn
                    ):  # one that never stops talking must not keep the loop for itself
                        await asyncio.sleep(wait_s)
                        turn = loop.time() + _TURN_S
                    connection.take(frame)
                await asyncio.sleep(0)
        except WireError as error:
            self.kill(f"it broke the rules of the pipe: {error}")
        await self._has_exited()

    async def lines(self, longest: int) -> AsyncIterator[bytes]:
        """What it prints, line by line, until it ends; one that is too long ends it."""
        pipe, rest = self._process.stdout, b""
        while pipe is not None and (data := await pipe.read(_CHUNK)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line
            if len(rest) > longest:
                self.kill(f"it printed a line of more than {longest:,} bytes")
                break
            await asyncio.sleep(0)
        await self._has_exited()

    async def watch(self) -> None:
        """End it when it has more threads than a module needs: they use up the numbers that the
        whole machine has for processes.
        """
        while not self._exited.is_set():
            began = time.monotonic()
            if await self._threads() > _MOST_WATCHED:
                self.kill(f"it had more than {_MOST_WATCHED} threads")
            await next_beat(max(_WATCH_S, (time.monotonic() - began) / _WATCH_PART))

    async def listen(self, log: Callable[[str], None]) -> None:
        pipe, rest = self._process.stderr, b""
        while pipe is not None and (data := await pipe.read(_CHUNK)):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:_MOST_LINE]
            for line in lines:
                self._said(line, log)
            await asyncio.sleep(0)
        self._said(rest, log)

    def kill(self, why: str) -> None:
        self._why = self._why or why
        if self._launch.group is not None:
            self._launch.group.kill()
        kill_group(self._process.pid)

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        kill_group(self._process.pid)
        await asyncio.to_thread(kill_family, self._process.pid, f"{MARK}={self._mark}")
        await self._launch.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GONE_S):
                await self._process.wait()

    def let_go(self) -> None:
        """Close our ends of its pipes, when its last words have been read."""
        self._pipes.close()

    async def _threads(self) -> int:
        """How many it has, with those of what it started where it can start anything: that alone
        makes looking through /proc worth it.
        """
        pid = self._process.pid
        if self._launch.kind != "process" or self.is_grouped:
            return thread_count(pid)
        return await asyncio.to_thread(family_threads, pid, f"{MARK}={self._mark}")

    async def _has_exited(self) -> None:
        """Its pipe is closed, and its end follows, if it is not a child that holds on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_S):
                await self._exited.wait()

    def _said(self, line: bytes, log: Callable[[str], None]) -> None:
        text = line[:_MOST_LINE].decode(errors="replace").rstrip()
        if text:
            self._last.append(text)
            log(text)


class _Pipes(asyncio.subprocess.SubprocessStreamProtocol):
    """Closes the pipes soon after the process has ended: a stray child may hold the other ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited = asyncio.Event()
        self._child: asyncio.SubprocessTransport | None = None
        self._on = loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._child = cast("asyncio.SubprocessTransport", transport)

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
        self._on.call_later(_LAST_WORDS_S, self.close)

    def close(self) -> None:
        for number in (_STDOUT, _STDERR):
            pipe = self._child.get_pipe_transport(number) if self._child else None
            if pipe is not None:
                pipe.close()


def _parsed(text: bytes) -> tuple[Frame, float]:
    """The frame, and the processor's time that it took, in seconds; raises WireError."""
    began = time.thread_time()
    frame = parse_frame(text)
    return frame, time.thread_time() - began


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
