"""The CLI in a container, over the container's attached streams.

A shell in the container runs as the CLI's user and can print anything in its place. So the output
is bounded and checked: tool calls by the tool, files by the check-in, cost by the gateway. The
session's name is chosen here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError

from parachuted.agents.claude.transport import LINE_LIMIT, AgentTransport, parse_line
from parachuted.agents.sandbox.container import Container
from parachuted.errors import AgentUnavailableError

log = logging.getLogger(__name__)

_MOST_BYTES = 256 * 1024 * 1024
_MOST_LINES = 100_000


class AgentContainer(AgentTransport):
    """The CLI in one container, which is used once."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._is_open = False
        self._grace_s = 0.0
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
        """Yield what the CLI prints, one JSON object a line; raises ProcessError when it ended
        badly.
        """
        lines = size = 0
        while line := await self._line():
            lines, size = lines + 1, size + len(line)
            if lines > _MOST_LINES or size > _MOST_BYTES:
                raise CLIJSONDecodeError(
                    f"{lines} lines and {size} bytes, more than any agent says", ValueError(size)
                )
            if line.startswith(b"{"):
                yield parse_line(line)
        code = await self._container.wait()
        if code:
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

    def allow_grace(self, seconds: float) -> None:
        self._grace_s = seconds

    def kill(self) -> None:
        if self._killing is None:
            self._killing = asyncio.get_running_loop().create_task(
                self._end(), name="the end of an agent's container"
            )

    def is_ready(self) -> bool:
        return self._is_open and self._container.is_ready

    async def _line(self) -> bytes:
        try:
            return await self._container.stdout.readline()
        except ValueError as error:
            raise CLIJSONDecodeError(f"a line longer than {LINE_LIMIT} bytes", error) from error

    async def _end(self) -> None:
        try:
            await self._container.kill()
        except (
            AgentUnavailableError
        ) as error:  # whoever opened the container tries again, and the next start of the daemon
            log.warning("the agent's container was not ended: %s", error.message)
