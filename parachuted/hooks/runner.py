"""Runs a hook's program within its limits, in a session of its own, and says why one could not be
started.

What it leaves running in its process group is ended with it. A descendant that made a session of
its own is not followed: a hook runs as the person who installed it.

How many run at once is limited, without deadlock: a hook that is asked about a write may write
itself and so trigger another hook. When the limit is reached and nothing ends for a while, the last
arrivals run anyway: the others may be waiting for one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from parachuted.processes.reaper import count_group, signal_group

_PATIENCE_S = 1.0


class ConcurrencyLimit:
    """So many at a time, first come first served; after `patience_s` in which none ended, as many
    again. All on one loop.
    """

    def __init__(self, count: int, *, patience_s: float = _PATIENCE_S) -> None:
        self._count, self._patience_s = count, patience_s
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Run one hook within the limit, while the block lasts."""
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
        """From now on, for as long as anyone waits."""
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


_SHELL = "/bin/sh"
_CAP = 8_000_000
_TERM_S = 0.25  # to end when asked to
_FLUSH_S = 0.3  # for what still prints when its parent has ended, such as the `tee` of a shell
_ROUND_S = 0.02
_NOT_FOUND = (126, 127)  # how a shell, and `env` in a first line, say that nothing was started


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """The result of a program.

    `exit_code`: negative for a signal; None if there is none, and `problem` says why. `is_cut`:
    part of the output was dropped. `strays`: how many processes it left in its group, which were
    ended. `was_started`: false where the program or its interpreter never ran.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    took_ms: float
    timed_out: bool = False
    problem: str | None = None
    is_cut: bool = False
    strays: int = 0
    was_started: bool = True


class HookRunner:
    """Runs up to `concurrency` programs at a time; of those in the background at most half as many.

    When all have been busy for long, more are started: a running hook may be waiting for one, such
    as a hook for its own write.
    """

    def __init__(self, concurrency: int = 8) -> None:
        self._places = ConcurrencyLimit(concurrency)
        self._background = asyncio.Semaphore(max(1, concurrency // 2))

    async def run(  # noqa: PLR0913  what a run is, by name
        self,
        *,
        argv: Sequence[str] | None,
        command: str | None,
        stdin: bytes,
        env: Mapping[str, str],
        cwd: Path,
        timeout_s: float,
        cap: int = _CAP,
        is_background: bool = False,
        refusal: Callable[[], str | None] = lambda: None,
    ) -> ProcessResult:
        """Run `argv`, or `command` by a shell, until it ends or reaches its limit.

        When cancelled, the program is ended first. `env` is its whole environment; `cap`: the bytes
        kept of each output; `refusal` is asked when its turn comes, and returns why it must not
        start. Raises ValueError when there is nothing to run.
        """
        words = [_SHELL, "-c", command] if command else list(argv or ())
        if not words:
            raise ValueError("a hook needs a command, or words to run")
        program = words[0] if "/" in words[0] else shutil.which(words[0], path=env.get("PATH", ""))
        if program is None:
            return not_started(f"there is no program {words[0]} on the PATH")
        if any("\0" in text for text in (*words, *env, *env.values())):
            return not_started("a command or its environment cannot hold a null character")
        async with contextlib.AsyncExitStack() as places:
            if is_background:
                await places.enter_async_context(self._background)
            await places.enter_async_context(self._places.slot())
            if problem := refusal():
                return not_started(problem)
            return await _run([program, *words[1:]], stdin, env, cwd, timeout_s, cap)


async def _run(
    words: Sequence[str],
    stdin: bytes,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float,
    cap: int,
) -> ProcessResult:
    began = time.monotonic()
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(  # noqa: TID251  it is always waited for below
        loop.subprocess_exec(lambda: _Output(cap), *words, env=env, cwd=cwd, start_new_session=True)
    )
    try:
        transport, output = await asyncio.shield(starting)
    except asyncio.CancelledError:  # it would leave its pipes open if it were cancelled itself
        await asyncio.wait([starting])
        if starting.exception() is None:
            await _kill(*starting.result())
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: the system has no room for a thread
        number = getattr(error, "errno", None) or errno.EAGAIN
        failed = "program" if os.access(cwd, os.X_OK) else "folder"
        return not_started(explain(cwd, words[0], failed, number))
    timed_out, strays, leader = False, 0, transport.get_pid()
    try:
        pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        pipe.write(stdin)
        pipe.close()  # once it is written
        timed_out = not await _within(timeout_s, output.has_exited)
        if not timed_out:
            await _within(_FLUSH_S, output.is_closed)
        strays = await _end_group(leader, output.has_exited)
    finally:
        await _kill(transport, output)
    code = transport.get_returncode()
    problem = explain(cwd, words[0]) if code in _NOT_FOUND else None
    if timed_out:
        code, problem = None, f"it was ended: it had not finished within {timeout_s:g} s"
    return ProcessResult(
        exit_code=code,
        stdout=bytes(output.texts[1]),
        stderr=bytes(output.texts[2]),
        took_ms=(time.monotonic() - began) * 1000,
        timed_out=timed_out,
        problem=problem,
        is_cut=output.is_cut,
        strays=strays,
        was_started=code not in _NOT_FOUND,
    )


async def _kill(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    signal_group(transport.get_pid(), signal.SIGKILL)
    transport.close()
    await output.has_exited.wait()


class _Output(asyncio.SubprocessProtocol):
    """What a program prints, by descriptor, and whether it has ended."""

    def __init__(self, cap: int) -> None:
        self.texts = {1: bytearray(), 2: bytearray()}
        self.is_cut = False
        self.has_exited, self.is_closed = asyncio.Event(), asyncio.Event()
        self._cap, self._open = cap, {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        room = self._cap - len(self.texts[fd])
        self.texts[fd] += data[:room]
        self.is_cut = self.is_cut or len(data) > room

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        self._open.discard(fd)
        if not self._open:
            self.is_closed.set()

    def process_exited(self) -> None:
        self.has_exited.set()


async def _within(limit_s: float, happened: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(happened.wait(), limit_s)
    return happened.is_set()


async def _end_group(leader: int, has_exited: asyncio.Event) -> int:
    """Ask what is left of the group to end, then end it; returns how many there were but the leader
    itself.
    """
    left = count_group(leader)
    if not left:
        return 0
    strays = left - (not has_exited.is_set())
    for number in (signal.SIGTERM, signal.SIGCONT):
        signal_group(leader, number)
    end = time.monotonic() + _TERM_S
    while count_group(leader) and time.monotonic() < end:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(_ROUND_S)
    signal_group(leader, signal.SIGKILL)
    await has_exited.wait()
    return strays


def not_started(problem: str | None) -> ProcessResult:
    """The result of a program that never ran."""
    return ProcessResult(
        exit_code=None, stdout=b"", stderr=b"", took_ms=0.0, problem=problem, was_started=False
    )


_FIRST_LINE = 256
_SAYS = {
    errno.E2BIG: "its arguments and its environment are longer than the system takes",
    errno.ETXTBSY: "it is being written at this moment; it can run when that is done",
    errno.ENOEXEC: "it has no first line such as #!/bin/sh, and is not a program otherwise",
    errno.EAGAIN: "the system has no room for another process",
    errno.ENOMEM: "the system has no memory left for it",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open on this machine",
}
_LINE_IS_WRONG = {errno.ENOENT: "not on this machine", errno.ENOEXEC: "not a program"}


def explain(
    cwd: Path, program: str, failed: str = "program", number: int | None = None
) -> str | None:
    """Why `failed` ("folder" or "program") could not be entered or started, from what is on disk.

    Without a `number` something was started and exited with an error; None unless its first line
    explains that.
    """
    path = cwd / program
    if failed == "folder" and number is not None:
        return f"the folder {cwd} could not be entered: {os.strerror(number)}"
    line = _shebang(path)
    if line.endswith("\r"):
        return (
            f"the first line of {path.name} ends as Windows ends lines, so that no program has "
            "its name; save it with Unix line ends"
        )
    if number is None:
        return None
    if number == errno.EACCES:
        return _forbidden(path, line)
    if line and number in _LINE_IS_WRONG:
        return f"the first line of {path.name} names {line}, which is {_LINE_IS_WRONG[number]}"
    return (
        f"there is no {path}"
        if number == errno.ENOENT
        else f"{path.name} could not be started: {_SAYS.get(number, os.strerror(number))}"
    )


def _forbidden(path: Path, line: str) -> str:
    if path.is_dir():
        return f"{path} is a folder, not a program"
    if not os.access(path, os.X_OK):
        return f"{path.name} may not be run; `chmod +x {path}` allows it"
    return f"{path.name} could not be started: {line or path} may not be run"


def _shebang(path: Path) -> str:
    """The program named in the first line, as written; empty if none."""
    try:
        with path.open("rb") as file:
            line = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return ""
    return line[2:].decode(errors="replace").lstrip(" ") if line.startswith(b"#!") else ""
