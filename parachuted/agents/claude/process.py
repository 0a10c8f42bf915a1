"""The CLI as a child process that never outlives its run.

The SDK's own transport passes on the whole environment, leaves the child in the daemon's process
group, and can hang on close.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, CLINotFoundError, ProcessError

from parachuted.agents.claude.transport import LINE_LIMIT, LOGGED_CHARS, AgentTransport, parse_line
from parachuted.processes.reaper import kill_family, kill_group

log = logging.getLogger(__name__)

_MARK = "PARACHUTE_AGENT_RUN"
_REAP_S = 1.0
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class AgentProcess(AgentTransport):
    """One CLI process in its own session; `kill` ends it at once, `close` also ends everything that
    it started.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        value = uuid4().hex
        self._command = tuple(command)
        self._mark = f"{_MARK}={value}"
        self._env = {**env, _MARK: value}
        self._cwd = cwd
        self._child: asyncio.SubprocessTransport | None = None
        self._pipes = _Pipes()
        self._grace_s = 0.0

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
        """Yield what the CLI prints, one JSON object a line; raises ProcessError when it ended
        badly.
        """
        while line := await self._line():
            if line.startswith(b"{"):
                yield parse_line(line)
        await self._pipes.exited.wait()
        code = self._child.get_returncode() if self._child else None
        if code:
            raise ProcessError("the agent's process failed", exit_code=code)

    async def close(self) -> None:
        """End the process and all that it ever started; seconds pass only where it was allowed
        some.
        """
        await self.end_input()
        child, self._child = self._child, None
        if child is None:
            return
        try:
            await self._wait(self._grace_s)
        finally:
            kill_group(child.get_pid())
            await asyncio.to_thread(kill_family, child.get_pid(), self._mark)
            child.close()
        await self._wait(_REAP_S)

    def allow_grace(self, seconds: float) -> None:
        """Let the process end by itself when it is closed, so that it writes its session down."""
        self._grace_s = seconds

    def kill(self) -> None:
        """End the process and its group, without waiting."""
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

    async def _line(self) -> bytes:
        try:
            return await self._pipes.stdout.readline()
        except ValueError as error:
            raise CLIJSONDecodeError(f"a line longer than {LINE_LIMIT} bytes", error) from error

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
