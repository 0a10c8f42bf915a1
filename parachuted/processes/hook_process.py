"""Hook process: a small child process that runs hook programs one at a time, and leaves none of
their processes behind.

asyncio alone waits for any process that holds a pipe, and a process group can be left;
parachuted/processes/hook_program.py is what runs in it.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast
from uuid import uuid4

from parachuted.processes.hook_program import KILL_S, LENGTH, TERM_S, Report, frame
from parachuted.processes.own_thread import in_own_thread
from parachuted.processes.reaper import kill_below, kill_family, kill_group

MARK = "PARACHUTE_KEEPER"

_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from parachuted.processes.hook_program import "
    "main; main()"
)
_PACKAGE = Path(__file__).resolve().parents[2]
# how late a hook process may be; a later one was stopped, or starved, and its program's limit still
# holds
_SPARE_S = 0.2
_BUFFER = 1 << 20


class HookProcessLostError(Exception):
    """The hook process ended before its command did; what the command had started was ended."""


class HookProcessGoneError(HookProcessLostError):
    """It ended before it took its order: nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrder:
    """A program and what it is given. `argv[0]` is a path; `cap`: the bytes kept of each output."""

    argv: Sequence[str | bytes]
    env: Mapping[str, str]
    cwd: Path
    stdin: bytes
    timeout_s: float
    cap: int


class ProcessOutcome(NamedTuple):
    """What became of it, in the order of the hook program's `Report`.

    `failed`: "folder" or "program" when it could not be started, with the `errno`.

    `strays`: how many processes it had left behind, which were ended; `stubborn`: those that could
    not be.
    """

    exit_code: int | None
    failed: str
    errno: int
    stdout: bytes
    stderr: bytes
    took_ms: float
    timed_out: bool
    is_cut: bool
    strays: int
    stubborn: Sequence[int]


class HookProcess:
    """A process of this daemon.

    Make it with `start`; `dismiss` or `close` ends it, and so does our own end.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._mark = uuid4().hex
        self._is_whole = True

    @classmethod
    async def start(cls) -> HookProcess:
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(_PACKAGE)),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, *await asyncio.open_unix_connection(sock=ours, limit=_BUFFER))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        return self._is_whole and self._process.returncode is None and not self._reader.at_eof()

    async def run(self, order: ProcessOrder) -> ProcessOutcome:
        """Run it to its end or its limit; raises HookProcessLostError.

        When this is cancelled, the program is ended first.
        """
        self._is_whole = False
        env = {
            os.fsencode(name): os.fsencode(value)
            for name, value in {**order.env, MARK: self._mark}.items()
        }
        words = [os.fsencode(word) for word in order.argv]
        try:
            async with asyncio.timeout(order.timeout_s + TERM_S + KILL_S + _SPARE_S):
                folder = os.fsencode(order.cwd)
                self._writer.write(
                    frame((words, env, folder, order.stdin, order.timeout_s, order.cap))
                )
                await self._writer.drain()
                size = int.from_bytes(await self._reader.readexactly(LENGTH), "big")
                report = cast("Report", marshal.loads(await self._reader.readexactly(size)))  # noqa: S302  from our own process
        except TimeoutError:
            await self._kill()
            return _late(order)
        except EOFError as error:
            await self._discard()
            raise HookProcessLostError from error
        except OSError as error:  # what was written to it was not read
            await self._discard()
            raise HookProcessGoneError from error
        except asyncio.CancelledError:
            await self.close()
            raise
        outcome = ProcessOutcome(*report)
        self._is_whole = not outcome.stubborn
        return outcome._replace(exit_code=None) if outcome.timed_out else outcome

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def dismiss(self) -> None:
        self._is_whole = False
        self._writer.close()

    async def close(self) -> None:
        """End it and whatever runs in it; when this returns, nothing of it is left."""
        self.dismiss()
        try:
            async with asyncio.timeout(TERM_S + KILL_S + _SPARE_S):
                if await self._process.wait() == 0:
                    return
        except TimeoutError:
            await self._kill()
        else:
            await self._discard()

    async def _kill(self) -> None:
        """For one that does not answer, such as one that was stopped: what it runs is all
        below it.
        """
        self.dismiss()
        await in_own_thread(partial(kill_below, self._process.pid))
        kill_group(self._process.pid)
        await self._process.wait()

    async def _discard(self) -> None:
        """For one that was killed: what it ran is found by its mark."""
        self.dismiss()
        await self._process.wait()
        await in_own_thread(partial(kill_family, self._process.pid, f"{MARK}={self._mark}"))


def _late(order: ProcessOrder) -> ProcessOutcome:
    """The outcome of a program that was ended because its hook process did not answer in time: what
    it printed is lost.
    """
    took_ms = (order.timeout_s + TERM_S + KILL_S + _SPARE_S) * 1000
    return ProcessOutcome(None, "", 0, b"", b"", took_ms, True, False, 0, ())  # noqa: FBT003  by its place
