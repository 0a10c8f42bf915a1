"""Claude Code in a container, and the SDK's transport there.

A shell in there runs as the CLI's user and can print anything in its place. So the output is
bounded and checked: tool calls by the tool, files by the check-in, cost by the gateway, and the
session's id is chosen here. The CLI's own transcript ends with the container.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError, Transport

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.client import AgentClient
from parachuted.agents.claude.launch import (
    LINE_LIMIT,
    find_cli,
    make_command,
    make_container_environment,
    make_options,
    make_run_token,
    write_prompt,
)
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.job import Job, NativeTools
from parachuted.agents.sandbox import Container
from parachuted.agents.sandbox.options import CLI_IN_BOX, SOCKETS_IN_BOX
from parachuted.errors import AgentUnavailableError

log = logging.getLogger(__name__)

_MOST_BYTES = 256 * 1024 * 1024
_MOST_LINES = 100_000
_SHOWN_CHARS = 500
_LAST_WORDS_S = 2.0
_NO_ENGINE = (
    "this agent has tools that need a container, and there is none here; `parachute "
    "sandbox doctor` says what to install"
)
_NOT_LINUX = (
    "an agent with a shell runs only on Linux: a container cannot run the Claude Code of another "
    "system"
)


@asynccontextmanager
async def open_in_container(
    settings: ClaudeSettings, job: Job, native: NativeTools, toolbox: Toolbox, deadline: float
) -> AsyncIterator[AgentClient]:
    """`deadline` is the loop's time. Raises AgentUnavailableError."""
    if settings.sandboxes is None:
        raise AgentUnavailableError(_NO_ENGINE)
    if settings.platform != "linux":
        raise AgentUnavailableError(_NOT_LINUX)
    sockets, session = native.sandbox.folder.sockets, str(uuid4())
    options = make_options(settings, job, toolbox, None)
    options.session_id = session
    run_token = replace(make_run_token(settings, job), session=session)
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(settings.gateway.open(run_token, sockets))
        prompt = await asyncio.to_thread(write_prompt, sockets, job.system_prompt)
        stack.callback(prompt.unlink, missing_ok=True)
        prompt.chmod(0o644)  # the container's user reads it; the folder is private
        opening = settings.sandboxes.open(
            native.sandbox,
            make_command(CLI_IN_BOX, options, f"{SOCKETS_IN_BOX}/{prompt.name}"),
            make_container_environment(endpoint),
            find_cli(settings.env),
        )
        try:
            async with asyncio.timeout_at(deadline):
                container = await stack.enter_async_context(opening)
        except TimeoutError as error:
            raise AgentUnavailableError("the agent's container did not begin in time") from error
        transport = ContainerTransport(container)
        end = partial(_end, container)
        yield AgentClient(options, toolbox, end, transport=transport, session=session)


async def _end(container: Container) -> None:
    try:
        await container.kill()
    except AgentUnavailableError as error:  # its opener tries again
        log.warning("the agent's container was not ended: %s", error.message)


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
    """Raises CLIJSONDecodeError."""
    try:
        return cast("dict[str, Any]", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise CLIJSONDecodeError(line[:_SHOWN_CHARS].decode(errors="replace"), error) from error
