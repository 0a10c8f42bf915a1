"""Runs a hook's program within its limits, in a session of its own, whose group ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from parachuted.processes.reaper import signal_group

_PATIENCE_S = 1.0
_CAP = 8_000_000
_TERM_S = 0.25  # to end when asked to
_FLUSH_S = 0.3  # for what still prints when its parent has ended, such as the `tee` of a shell
_FIRST_LINE = 256
_NOT_FOUND = (126, 127)  # how a shell, and `env` in a first line, say that nothing was started


class ConcurrencyLimit:
    """So many at a time, first come first served; after `patience_s` in which none ended, as many
    again, the last first: a hook asked about a write may write itself, and others then wait for its
    hooks. All on one loop.
    """

    def __init__(self, count: int, *, patience_s: float = _PATIENCE_S) -> None:
        self._count, self._patience_s = count, patience_s
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        if self._taken < self._count:
            self._taken += 1
        else:
            await self._wait()
        try:
            yield
        finally:
            self._leave()

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if self._timer is None:
            self._watch()
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        self._taken -= 1
        while self._taken < self._count and self._waiting:
            self._give(self._waiting.popleft())
        self._watch()

    def _give(self, turn: asyncio.Future[None]) -> None:
        self._taken += 1
        if not turn.done():
            turn.set_result(None)

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            asyncio.get_running_loop().call_later(self._patience_s, self._go_on)
            if self._waiting
            else None
        )

    def _go_on(self) -> None:
        for _ in range(min(self._count, len(self._waiting))):
            self._give(self._waiting.pop())
        self._watch()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """`exit_code`: negative for a signal; None with a `problem`. Of each output the first 8 MB.
    `was_started`: false where the program or its interpreter never ran.
    """

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    took_ms: float = 0.0
    timed_out: bool = False
    problem: str | None = None
    was_started: bool = True


def not_started(problem: str) -> ProcessResult:
    return ProcessResult(exit_code=None, problem=problem, was_started=False)


class HookRunner:
    """Up to `concurrency` programs at a time, in the background half as many. All on one loop."""

    def __init__(self, concurrency: int = 8, *, patience_s: float = _PATIENCE_S) -> None:
        self._places = ConcurrencyLimit(concurrency, patience_s=patience_s)
        self._background = asyncio.Semaphore(max(1, concurrency // 2))

    async def run(
        self,
        words: Sequence[str],
        *,
        stdin: bytes,
        env: Mapping[str, str],
        cwd: Path,
        timeout_s: float,
        is_background: bool = False,
        refusal: Callable[[], str | None] = lambda: None,
    ) -> ProcessResult:
        """Run the program until it ends or reaches its limit. When cancelled, it is ended first.
        `env` is its whole environment; `refusal` is asked when its turn comes.
        """
        program = words[0] if "/" in words[0] else shutil.which(words[0], path=env.get("PATH", ""))
        if program is None:
            return not_started(f"there is no program {words[0]} on the PATH")
        async with contextlib.AsyncExitStack() as places:
            if is_background:
                await places.enter_async_context(self._background)
            await places.enter_async_context(self._places.slot())
            if problem := refusal():
                return not_started(problem)
            return await _run([program, *words[1:]], stdin, env, cwd, timeout_s)


async def _run(
    words: Sequence[str], stdin: bytes, env: Mapping[str, str], cwd: Path, timeout_s: float
) -> ProcessResult:
    began = time.monotonic()
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(  # noqa: TID251  it is always waited for below
        loop.subprocess_exec(_Output, *words, env=env, cwd=cwd, start_new_session=True)
    )
    try:
        transport, output = await asyncio.shield(starting)
    except asyncio.CancelledError:  # it would leave its pipes open if it were cancelled itself
        await asyncio.wait([starting])
        if starting.exception() is None:
            await _end(*starting.result())
        raise
    except (OSError, RuntimeError, ValueError) as error:
        return not_started(_why_not_started(cwd, words[0], error))
    try:
        pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        pipe.write(stdin)
        pipe.close()  # once it is written
        timed_out = not await _within(timeout_s, output.has_exited)
        if not timed_out:
            await _within(_FLUSH_S, output.is_closed)
    finally:
        await _end(transport, output)
    code = None if timed_out else transport.get_returncode()
    return ProcessResult(
        exit_code=code,
        stdout=bytes(output.texts[1]),
        stderr=bytes(output.texts[2]),
        took_ms=(time.monotonic() - began) * 1000,
        timed_out=timed_out,
        problem=f"it had not finished within {timeout_s:g} s" if timed_out else None,
        was_started=code not in _NOT_FOUND,
    )


async def _end(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Ask its group to end where it has not ended itself, then end all that is left of it."""
    leader = transport.get_pid()
    if not output.has_exited.is_set():
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal_group(leader, number)
        await _within(_TERM_S, output.has_exited)
    signal_group(leader, signal.SIGKILL)
    transport.close()
    await output.has_exited.wait()


class _Output(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.texts = {1: bytearray(), 2: bytearray()}
        self.has_exited, self.is_closed = asyncio.Event(), asyncio.Event()
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.texts[fd] += data[: _CAP - len(self.texts[fd])]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        self._open.discard(fd)
        if not self._open:
            self.is_closed.set()

    def process_exited(self) -> None:
        self.has_exited.set()


async def _within(limit_s: float, happened: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await happened.wait()  # wait_for of Python 3.11 may lose a cancel
    return happened.is_set()


def _why_not_started(cwd: Path, program: str, error: Exception) -> str:
    path = cwd / program
    if not cwd.is_dir():
        return f"there is no folder {cwd}"
    if not isinstance(error, OSError):  # a null character, or no room for a thread
        return f"{path.name} could not be started: {error}"
    line = _first_line(path)
    if line.endswith("\r"):
        return f"the first line of {path.name} ends as Windows ends lines; save it with Unix ones"
    if isinstance(error, FileNotFoundError):
        missing = f"{line[2:].strip()}, which {path.name} names," if line[:2] == "#!" else path
        return f"there is no {missing}"
    if isinstance(error, PermissionError) and path.is_file() and not os.access(path, os.X_OK):
        return f"{path.name} may not be run; `chmod +x {path}` allows it"
    return f"{path.name} could not be started: {error.strerror}"


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_FIRST_LINE).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        return ""
