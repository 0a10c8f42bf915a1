"""The CLI as a child process or in a container, over its streams; neither outlives its run.

The SDK's own transport passes on the whole environment, leaves the child in the daemon's process
group, and can hang on close.

A shell in a container runs as the CLI's user and can print anything in its place. So the output is
bounded and checked: tool calls by the tool, files by the check-in, cost by the gateway. The
session's name is chosen here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from claude_agent_sdk import (
    CLIConnectionError,
    CLIJSONDecodeError,
    CLINotFoundError,
    ProcessError,
    Transport,
)

from parachuted.agents.sandbox.container import Container
from parachuted.errors import AgentUnavailableError
from parachuted.processes.reaper import kill_family, kill_group
from parachuted.processes.uninterrupted import run_uninterrupted

log = logging.getLogger(__name__)

LINE_LIMIT = 32 * 1024 * 1024
LOGGED_CHARS = 500


class AgentTransport(Transport):
    """The SDK's transport, which we can end: `close` leaves nothing of what the CLI ever
    started.
    """

    def __init__(self) -> None:
        self._grace_s = 0.0

    @abstractmethod
    def kill(self) -> None: ...

    def allow_grace(self, seconds: float) -> None:
        """Let the CLI end by itself when it is closed, so that it writes its session down."""
        self._grace_s = seconds


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError as error:
        raise CLIJSONDecodeError(f"a line longer than {LINE_LIMIT} bytes", error) from error


def parse_line(line: bytes) -> dict[str, Any]:
    """Read a line that the CLI printed. Raises CLIJSONDecodeError."""
    try:
        return cast("dict[str, Any]", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise CLIJSONDecodeError(line[:LOGGED_CHARS].decode(errors="replace"), error) from error


_MARK = "PARACHUTE_AGENT_RUN"
_REAP_S = 1.0
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_BACKGROUND_NICENESS = 10


class AgentProcess(AgentTransport):
    """One CLI process in its own session; `kill` ends it at once, `close` also ends everything that
    it started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        is_background: bool = False,
    ) -> None:
        """`is_background`: a person does not wait for it, so it takes the processor last."""
        super().__init__()
        self._is_background = is_background
        value = uuid4().hex
        self._command = tuple(command)
        self._mark = f"{_MARK}={value}"
        self._env = {**env, _MARK: value}
        self._cwd = cwd
        self._child: asyncio.SubprocessTransport | None = None
        self._pipes = _Pipes()

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        if shutil.which(self._command[0], path=self._env.get("PATH")) is None:
            raise CLINotFoundError(f"there is no program {self._command[0]}")
        try:
            self._child, _ = await loop.subprocess_exec(
                lambda: self._pipes,
                *_bind(self._command),
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise CLINotFoundError(f"the agent could not be started: {error}") from error
        if self._is_background:
            with suppress(OSError):  # it has ended already
                os.setpriority(os.PRIO_PROCESS, self._child.get_pid(), _BACKGROUND_NICENESS)

    async def write(self, data: str) -> None:
        pipe = self._stdin()
        if pipe is None:
            raise CLIConnectionError("the agent has ended")
        pipe.write(data.encode())

    async def end_input(self) -> None:
        pipe = self._stdin()
        if pipe is not None:
            pipe.close()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        has_answered = False
        while line := await _read_line(self._pipes.stdout):
            if line.startswith(b"{"):
                has_answered = True
                yield parse_line(line)
        await self._pipes.exited.wait()
        code = self._child.get_returncode() if self._child else None
        if code or not has_answered:
            raise ProcessError("the agent's process failed", exit_code=code)

    async def close(self) -> None:
        await self.end_input()
        child, self._child = self._child, None
        if child is None:
            return
        try:
            await self._wait(self._grace_s)
        finally:
            await self._end(child)

    async def _end(self, child: asyncio.SubprocessTransport) -> None:
        """End it with its family, and close its pipes, also for a caller that is cancelled."""
        kill_group(child.get_pid())
        try:
            await run_uninterrupted(kill_family, child.get_pid(), self._mark)
        finally:
            child.close()
            await self._wait(_REAP_S)

    def kill(self) -> None:
        if self._child is not None:
            kill_group(self._child.get_pid())

    def is_ready(self) -> bool:
        return self._stdin() is not None

    def _stdin(self) -> asyncio.WriteTransport | None:
        pipe = (
            cast("asyncio.WriteTransport | None", self._child.get_pipe_transport(_STDIN))
            if self._child
            else None
        )
        return None if pipe is None or pipe.is_closing() else pipe

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pipes.exited.wait()


class _Pipes(asyncio.SubprocessProtocol):
    """What the child prints: stdout as a stream that slows its writer down, stderr line by line
    into the log.
    """

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader(limit=LINE_LIMIT)
        self.exited = asyncio.Event()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        child = cast("asyncio.SubprocessTransport", transport)
        pipe = child.get_pipe_transport(_STDOUT)
        if pipe is not None:
            self.stdout.set_transport(pipe)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDOUT:
            self.stdout.feed_data(data)
            return
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LOGGED_CHARS]
        for line in lines:
            self._log(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol
        if fd == _STDOUT:
            self.stdout.feed_eof()
        elif fd == _STDERR:
            self._log(self._rest)

    def process_exited(self) -> None:
        self.exited.set()

    def _log(self, line: bytes) -> None:
        text = line[:LOGGED_CHARS].decode(errors="replace").strip()
        if text:
            log.info("the agent's process says: %s", text)


def _bind(command: Sequence[str]) -> list[str]:
    """Let the process end with ours, should that be killed, where util-linux can arrange it."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *command]


_MOST_BYTES = 256 * 1024 * 1024
_MOST_LINES = 100_000


class AgentContainer(AgentTransport):
    def __init__(self, container: Container) -> None:
        super().__init__()
        self._container = container
        self._is_open = False
        self._killing: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self._is_open = True

    async def write(self, data: str) -> None:
        if not self.is_ready():
            raise CLIConnectionError("the agent has ended")
        try:
            await self._container.write(data.encode())
        except OSError as error:
            raise CLIConnectionError("the agent has ended") from error

    async def end_input(self) -> None:
        self._is_open = False
        with suppress(OSError):
            await self._container.end_input()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        lines = size = 0
        has_answered = False
        while line := await _read_line(self._container.stdout):
            lines, size = lines + 1, size + len(line)
            if lines > _MOST_LINES or size > _MOST_BYTES:
                raise CLIJSONDecodeError(
                    f"{lines} lines and {size} bytes, more than any agent says", ValueError(size)
                )
            if line.startswith(b"{"):
                has_answered = True
                yield parse_line(line)
        code = await self._container.wait()
        if code or not has_answered:
            raise ProcessError(
                self._container.problem or "the agent's process failed", exit_code=code
            )

    async def close(self) -> None:
        """End the container and all that runs in it; seconds pass only where it was allowed
        some.
        """
        await self.end_input()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self._container.wait()
        await self._end()
        if self._killing is not None:
            await self._killing

    def kill(self) -> None:
        if self._killing is None:
            self._killing = asyncio.get_running_loop().create_task(
                self._end(),
                name="the end of an agent's container",
                context=Context(),  # it goes on when the module that began the run has ended
            )

    def is_ready(self) -> bool:
        return self._is_open and self._container.is_ready

    async def _end(self) -> None:
        try:
            await self._container.kill()
        except AgentUnavailableError as error:  # its opener tries again
            log.warning("the agent's container was not ended: %s", error.message)
