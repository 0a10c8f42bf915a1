"""Runs a hook's program within its limits, and leaves nothing behind.

A helper process (parachuted/processes/hook_process.py) does it. Helpers are kept for a while, since
starting one costs more than most hooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.hooks.concurrency import ConcurrencyLimit
from parachuted.hooks.starting import explain
from parachuted.processes.hook_process import (
    HookProcess,
    HookProcessGoneError,
    HookProcessLostError,
    ProcessOrder,
    ProcessOutcome,
)

_SHELL = "/bin/sh"
_CAP = 8_000_000
_IDLE_S = 10.0
_NOT_FOUND = (
    126,
    127,
)  # how a shell, and `env` in a first line, say that a program could not be begun


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
            return _not_started(f"there is no program {words[0]} on the PATH")
        if any("\0" in text for text in (*words, *env, *env.values())):
            return _not_started("a command or its environment cannot hold a null character")
        order = ProcessOrder(
            argv=[program, *words[1:]], env=env, cwd=cwd, stdin=stdin, timeout_s=timeout_s, cap=cap
        )
        async with self._place(is_background):
            if problem := refusal():
                return _not_started(problem)
            return await self._run(order)

    async def close(self) -> None:
        """End the keepers that wait for work; those at work end when their run does, or is
        cancelled.
        """
        idle, self._idle = self._idle, {}
        for hook_process, timer in idle.items():
            timer.cancel()
            await hook_process.close()

    @contextlib.asynccontextmanager
    async def _place(self, is_background: bool) -> AsyncIterator[None]:  # noqa: FBT001  its own
        async with contextlib.AsyncExitStack() as held:
            if is_background:
                await held.enter_async_context(self._background)
            await held.enter_async_context(self._places.one())
            yield

    async def _run(self, order: ProcessOrder) -> ProcessResult:
        try:
            hook_process, kept = await self._keep(order)
        except OSError as error:
            return _not_started(explain(order, "program", error.errno or errno.EAGAIN))
        except RuntimeError:  # how Python says that the system has no room for another thread
            return _not_started(explain(order, "program", errno.EAGAIN))
        except HookProcessLostError:
            return _not_started(
                "it was lost: the process that watched over it ended; whatever it had started was "
                "ended too"
            )
        self._release(hook_process)
        return _tell(order, kept)

    async def _keep(self, order: ProcessOrder) -> tuple[HookProcess, ProcessOutcome]:
        """Pass it to an idle helper process, or to a new one if that has ended."""
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
            hook_process.dismiss()

    def _discard(self, hook_process: HookProcess) -> None:
        self._idle.pop(hook_process)
        hook_process.dismiss()


def _tell(order: ProcessOrder, kept: ProcessOutcome) -> ProcessResult:
    return ProcessResult(
        exit_code=kept.exit_code,
        stdout=kept.stdout,
        stderr=kept.stderr,
        took_ms=kept.took_ms,
        timed_out=kept.timed_out,
        problem=_problem(order, kept),
        is_cut=kept.is_cut,
        strays=kept.strays,
        was_started=not kept.failed and kept.exit_code not in _NOT_FOUND,
    )


def _problem(order: ProcessOrder, kept: ProcessOutcome) -> str | None:
    if kept.failed:
        return explain(order, kept.failed, kept.errno)
    if kept.stubborn:
        return f"it left processes that could not be ended: {', '.join(map(str, kept.stubborn))}"
    if kept.timed_out:
        return f"it was ended: it had not finished within {order.timeout_s:g} s"
    return (
        explain(order, "program", errno.ENOENT, is_sure=False)
        if kept.exit_code in _NOT_FOUND
        else None
    )


def _not_started(problem: str | None) -> ProcessResult:
    return ProcessResult(
        exit_code=None, stdout=b"", stderr=b"", took_ms=0.0, problem=problem, was_started=False
    )
