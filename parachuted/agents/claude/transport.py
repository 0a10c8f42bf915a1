"""The SDK's transport into a container.

A shell in there runs as the CLI's user and can print anything in its place. So the output is
bounded and checked: tool calls by the tool, files by the check-in, cost by the gateway, and the
session's id is chosen here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError, Transport

from parachuted.agents.claude.launch import LINE_LIMIT
from parachuted.agents.sandbox.container import Container

_MOST_BYTES = 256 * 1024 * 1024
_MOST_LINES = 100_000
_SHOWN_CHARS = 500
_LAST_WORDS_S = 2.0


class ContainerTransport(Transport):
    """`close` lets the CLI write its session down; the code that opened the container ends it."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._is_open = False

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
        while line := await self._read_line():
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
        await self.end_input()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._container.wait()

    def is_ready(self) -> bool:
        return self._is_open and self._container.is_ready

    async def _read_line(self) -> bytes:
        try:
            return await self._container.stdout.readline()
        except ValueError as error:
            raise CLIJSONDecodeError(f"a line longer than {LINE_LIMIT} bytes", error) from error


def parse_line(line: bytes) -> dict[str, Any]:
    """Read a line that the CLI printed. Raises CLIJSONDecodeError."""
    try:
        return cast("dict[str, Any]", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise CLIJSONDecodeError(line[:_SHOWN_CHARS].decode(errors="replace"), error) from error
