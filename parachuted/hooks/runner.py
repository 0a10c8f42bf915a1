"""Runs a hook's program within its limits, says why one could not be started, and leaves nothing
behind.

A helper process (parachuted/processes/hook_process.py) does it. Helpers are kept for a while, since
starting one costs more than most hooks.

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
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.processes.hook_process import (
    HookProcess,
    HookProcessGoneError,
    HookProcessLostError,
    ProcessOrder,
    ProcessOutcome,
)

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
_IDLE_S = 10.0
_NOT_FOUND = (
    126,
    127,
)  # how a shell, and `env` in a first line, say that a program could not be started


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """The result of a program.

    `exit_code`: negative for a signal; None if there is none, and `problem` says why. `is_cut`:
    part of the output was dropped. `strays`: how many processes it left behind, which were ended.
    `was_started`: false where the program or its interpreter never ran, or its supervisor was lost.
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
    as a hook for its own write. The caller closes it.
    """

    def __init__(self, concurrency: int = 8, *, idle_s: float = _IDLE_S) -> None:
        self._places = ConcurrencyLimit(concurrency)
        self._background = asyncio.Semaphore(max(1, concurrency // 2))
        self._idle_s = idle_s
        self._idle: dict[HookProcess, asyncio.TimerHandle] = {}
        self._leaving: set[HookProcess] = set()

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

        When cancelled, the program is ended first. `env` is its whole environment, apart from the
        marker by which its processes are found; `refusal` is asked when its turn comes, and returns
        why it must not start. Raises ValueError when there is nothing to run.
        """
        words = [_SHELL, "-c", command] if command else list(argv or ())
        if not words:
            raise ValueError("a hook needs a command, or words to run")
        program = words[0] if "/" in words[0] else shutil.which(words[0], path=env.get("PATH", ""))
        if program is None:
            return not_started(f"there is no program {words[0]} on the PATH")
        if any("\0" in text for text in (*words, *env, *env.values())):
            return not_started("a command or its environment cannot hold a null character")
        order = ProcessOrder(
            argv=[program, *words[1:]], env=env, cwd=cwd, stdin=stdin, timeout_s=timeout_s, cap=cap
        )
        async with self._place(is_background):
            if problem := refusal():
                return not_started(problem)
            return await self._run(order)

    async def close(self) -> None:
        """End the hook processes that wait for work; those at work end when their run does, or is
        cancelled.
        """
        idle, self._idle = self._idle, {}
        for hook_process, timer in idle.items():
            timer.cancel()
            await hook_process.close()
        leaving, self._leaving = self._leaving, set()
        for hook_process in leaving:
            await hook_process.close()

    @contextlib.asynccontextmanager
    async def _place(self, is_background: bool) -> AsyncIterator[None]:  # noqa: FBT001  its own
        async with contextlib.AsyncExitStack() as held:
            if is_background:
                await held.enter_async_context(self._background)
            await held.enter_async_context(self._places.slot())
            yield

    async def _run(self, order: ProcessOrder) -> ProcessResult:
        try:
            hook_process, outcome = await self._pass(order)
        except OSError as error:
            return not_started(explain(order, "program", error.errno or errno.EAGAIN))
        except RuntimeError:  # how Python says that the system has no room for another thread
            return not_started(explain(order, "program", errno.EAGAIN))
        except HookProcessLostError:
            return not_started(
                "it was lost: the process that watched over it ended; whatever it had started was "
                "ended too"
            )
        self._release(hook_process)
        return _result(order, outcome)

    async def _pass(self, order: ProcessOrder) -> tuple[HookProcess, ProcessOutcome]:
        hook_process = await self._take()
        try:
            return hook_process, await hook_process.run(order)
        except HookProcessGoneError:
            hook_process = await HookProcess.start()
            return hook_process, await hook_process.run(order)

    async def _take(self) -> HookProcess:
        while self._idle:
            hook_process, timer = self._idle.popitem()
            timer.cancel()
            if hook_process.is_ready:
                return hook_process
            await hook_process.close()
        return await HookProcess.start()

    def _release(self, hook_process: HookProcess) -> None:
        if hook_process.is_ready:
            self._idle[hook_process] = asyncio.get_running_loop().call_later(
                self._idle_s, self._discard, hook_process
            )
        else:
            self._dismiss(hook_process)

    def _discard(self, hook_process: HookProcess) -> None:
        self._idle.pop(hook_process)
        self._dismiss(hook_process)

    def _dismiss(self, hook_process: HookProcess) -> None:
        """Let it go; `close` waits for those that have not ended by then."""
        hook_process.dismiss()
        self._leaving = {one for one in self._leaving if one.is_running} | {hook_process}


def _result(order: ProcessOrder, outcome: ProcessOutcome) -> ProcessResult:
    return ProcessResult(
        exit_code=outcome.exit_code,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        took_ms=outcome.took_ms,
        timed_out=outcome.timed_out,
        problem=_problem(order, outcome),
        is_cut=outcome.is_cut,
        strays=outcome.strays,
        was_started=not outcome.failed and outcome.exit_code not in _NOT_FOUND,
    )


def _problem(order: ProcessOrder, outcome: ProcessOutcome) -> str | None:
    if outcome.failed:
        return explain(order, outcome.failed, outcome.errno)
    if outcome.stubborn:
        return f"it left processes that could not be ended: {', '.join(map(str, outcome.stubborn))}"
    if outcome.timed_out:
        return f"it was ended: it had not finished within {order.timeout_s:g} s"
    return (
        explain(order, "program", errno.ENOENT, is_sure=False)
        if outcome.exit_code in _NOT_FOUND
        else None
    )


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


def explain(order: ProcessOrder, failed: str, number: int, *, is_sure: bool = True) -> str | None:
    """Why `failed` ("folder" or "program") could not be entered or started, from what is on disk.

    Without `is_sure` something was started and exited with an error; None unless its first line
    explains that.
    """
    if failed == "folder":
        return f"the folder {order.cwd} could not be entered: {os.strerror(number)}"
    path = order.cwd / os.fsdecode(order.argv[0])
    line = _shebang(path)
    if line.endswith("\r"):
        return (
            f"the first line of {path.name} ends as Windows ends lines, so that no program has "
            "its name; save it with Unix line ends"
        )
    if not is_sure:
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
