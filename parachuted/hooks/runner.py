"""Runs a hook's program within its limits, in a session of its own, whose group ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from parachuted.processes.reaper import signal_group

_CAP = 8_000_000
_TERM_S = 0.25  # to end when asked to
_FLUSH_S = 0.3  # for what still prints when its parent has ended, such as the `tee` of a shell
_NOT_FOUND = (126, 127)  # how a shell, and `env` in a first line, say that nothing was started


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


async def run_program(
    words: Sequence[str], *, stdin: bytes, env: Mapping[str, str], cwd: Path, timeout_s: float
) -> ProcessResult:
    """Run a program until it ends or reaches its limit. When cancelled, it is ended first. `env` is
    its whole environment.
    """
    began = time.monotonic()
    loop = asyncio.get_running_loop()
    program = shutil.which(words[0], path=env.get("PATH", "")) or words[0]
    starting = asyncio.ensure_future(  # noqa: TID251  it is always waited for below
        loop.subprocess_exec(_Output, program, *words[1:], env=env, cwd=cwd, start_new_session=True)
    )
    try:
        transport, output = await asyncio.shield(starting)
    except asyncio.CancelledError:  # it would leave its pipes open if it were cancelled itself
        await asyncio.wait([starting])
        if starting.exception() is None:
            await _end(*starting.result())
        raise
    except (OSError, RuntimeError, ValueError) as error:  # the last two: no thread, a null
        why = error.strerror if isinstance(error, OSError) else str(error)
        return not_started(f"{program}, or the program in its first line, cannot start: {why}")
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
