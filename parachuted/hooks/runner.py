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
    """What became of a program.

    `exit_code`: negative is the signal that ended it; None: it has none, and `problem` says why in
    words.

    `is_cut`: it printed more than was kept. `strays`: how many processes it left behind, which were
    ended. `was_started`: false where the program, or the interpreter that its first line names,
    never ran, or the process that watched over it was lost.
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
    """Runs as many at a time as `concurrency` says; of those begun in the background, half as many,
    so that they hold nobody up.

    Where all of them are taken for long, more begin: what runs may be waiting for one, as a hook
    does for a write of its own.

    Who makes one closes it.
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
        """Run `argv` as it is, or `command` by a shell, to its end or its limit.

        When this is cancelled, the program is ended first.

        `env` is all of its environment, but for the mark by which it is found again; `refusal`
        says, when its turn has come, why it is not to begin after all. Raises ValueError when there
        is nothing to run.
        """
        words = [_SHELL, "-c", command] if command else list(argv or ())
        if not words:
            raise ValueError("a hook needs a command, or words to run")
        program = words[0] if "/" in words[0] else shutil.which(words[0], path=env.get("PATH", ""))
        if program is None:
            return _not_begun(f"there is no program {words[0]} on the PATH")
        if any("\0" in text for text in (*words, *env, *env.values())):
            return _not_begun("a command or its environment cannot hold a null character")
        order = ProcessOrder(
            argv=[program, *words[1:]], env=env, cwd=cwd, stdin=stdin, timeout_s=timeout_s, cap=cap
        )
        async with self._place(is_background):
            if problem := refusal():
                return _not_begun(problem)
            return await self._run(order)

    async def close(self) -> None:
        """End the keepers that wait for work; those at work end when their run does, or is
        cancelled.
        """
        idle, self._idle = self._idle, {}
        for keeper, timer in idle.items():
            timer.cancel()
            await keeper.close()

    @contextlib.asynccontextmanager
    async def _place(self, is_background: bool) -> AsyncIterator[None]:  # noqa: FBT001  its own
        async with contextlib.AsyncExitStack() as held:
            if is_background:
                await held.enter_async_context(self._background)
            await held.enter_async_context(self._places.one())
            yield

    async def _run(self, order: ProcessOrder) -> ProcessResult:
        try:
            keeper, kept = await self._keep(order)
        except OSError as error:
            return _not_begun(explain(order, "program", error.errno or errno.EAGAIN))
        except RuntimeError:  # how Python says that the system has no room for another thread
            return _not_begun(explain(order, "program", errno.EAGAIN))
        except HookProcessLostError:
            return _not_begun(
                "it was lost: the process that watched over it ended; whatever it had started was "
                "ended too"
            )
        self._give_back(keeper)
        return _tell(order, kept)

    async def _keep(self, order: ProcessOrder) -> tuple[HookProcess, ProcessOutcome]:
        """Give it to a keeper; to a new one, where the first had ended while it waited for work."""
        keeper = await self._take()
        try:
            return keeper, await keeper.run(order)
        except HookProcessGoneError:
            keeper = await HookProcess.start()
            return keeper, await keeper.run(order)

    async def _take(self) -> HookProcess:
        while self._idle:
            keeper, timer = self._idle.popitem()
            timer.cancel()
            if keeper.is_ready:
                return keeper
            await keeper.close()
        return await HookProcess.start()

    def _give_back(self, keeper: HookProcess) -> None:
        if keeper.is_ready:
            self._idle[keeper] = asyncio.get_running_loop().call_later(
                self._idle_s, self._let_go, keeper
            )
        else:
            keeper.dismiss()

    def _let_go(self, keeper: HookProcess) -> None:
        self._idle.pop(keeper)
        keeper.dismiss()


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


def _not_begun(problem: str | None) -> ProcessResult:
    return ProcessResult(
        exit_code=None, stdout=b"", stderr=b"", took_ms=0.0, problem=problem, was_started=False
    )
