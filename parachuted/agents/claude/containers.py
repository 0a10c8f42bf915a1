"""Claude Code in a container: the SDK's transport there, and the transcripts that resume its
sessions.

A shell in there runs as the CLI's user and can print anything in its place. So the output is
bounded and checked: tool calls by the tool, files by the check-in, cost by the gateway, and the
session's id is chosen here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
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
from parachuted.agents.sandbox.archive import ArchiveWriter
from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    CLI_IN_BOX,
    HOME_IN_BOX,
    SOCKETS_IN_BOX,
    SandboxSpec,
    container_user,
)
from parachuted.errors import AgentFailedError, AgentUnavailableError
from parachuted.home_files.private import replace_private

log = logging.getLogger(__name__)

_MOST_BYTES = 256 * 1024 * 1024
_MOST_LINES = 100_000
_SHOWN_CHARS = 500
_LAST_WORDS_S = 2.0
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# The CLI names the folder after the one that it works in: /vault in every container.
_IN_BOX = ".claude/projects/-vault"
_LARGEST_TRANSCRIPT = 64 * 1024 * 1024
_KEEP_TRANSCRIPTS_S = 30 * 24 * 3600
_NO_ENGINE = (
    "this agent has tools that need a container, and there is none here; `parachute "
    "sandbox doctor` says what to install"
)
_NOT_LINUX = (
    "an agent with a shell runs only on Linux: a container cannot run the Claude Code of another "
    "system"
)
_NO_GATEWAY = (
    "in a container an agent reaches the model through the daemon alone, which has no "
    "login for it; see `parachute auth status`"
)


class AgentContainers:
    def __init__(self, settings: ClaudeSettings, home: Path) -> None:
        self._settings = settings
        self._transcripts = SandboxTranscripts(settings.folder / "boxed", home)

    @asynccontextmanager
    async def open(
        self, job: Job, native: NativeTools, toolbox: Toolbox, session: str | None, deadline: float
    ) -> AsyncIterator[AgentClient]:
        """`deadline` is the loop's time. Raises AgentUnavailableError.

        Of its HOME only the session's transcript is kept, and not that of a run that was stopped.
        """
        settings, folder = self._settings, native.sandbox.folder
        if settings.sandboxes is None:
            raise AgentUnavailableError(_NO_ENGINE)
        if settings.platform != "linux":
            raise AgentUnavailableError(_NOT_LINUX)
        if settings.gateway is None:
            raise AgentUnavailableError(_NO_GATEWAY)
        home = folder.path / "home.tar"
        is_known = session is not None and await self._bring_in(session, home)
        # a new one gets an id of our choice, since what runs in a container may print another
        chosen = session if session is not None and is_known else str(uuid4())
        options = make_options(settings, job, toolbox, chosen if is_known else None)
        options.session_id = None if is_known else chosen
        run_token = replace(make_run_token(settings, job), session=chosen)
        async with AsyncExitStack() as stack:
            opening = settings.gateway.open(run_token, folder.sockets)
            endpoint = await stack.enter_async_context(opening)
            prompt = await asyncio.to_thread(write_prompt, folder.sockets, job.system_prompt)
            stack.callback(prompt.unlink, missing_ok=True)
            prompt.chmod(0o644)  # the container's user reads it; the folder is private
            spec = SandboxSpec(
                sandbox=native.sandbox,
                command=make_command(CLI_IN_BOX, options, f"{SOCKETS_IN_BOX}/{prompt.name}"),
                env=make_container_environment(endpoint),
                cli=find_cli(settings.env),
                home=home if is_known else None,
            )
            try:
                async with asyncio.timeout_at(deadline):
                    container = await stack.enter_async_context(settings.sandboxes.open(spec))
            except TimeoutError as error:
                raise AgentUnavailableError(
                    "the agent's container did not begin in time"
                ) from error
            transport = ContainerTransport(container)
            end = partial(_end, container)
            try:
                yield AgentClient(options, toolbox, end, transport=transport, session=chosen)
            except AgentFailedError:
                await self._keep(container, chosen, home)
                raise
            await self._keep(container, chosen, home)

    async def _keep(self, container: Container, session: str, home: Path) -> None:
        """Take the transcript out, when nothing runs there that could put another in its place."""
        try:
            await container.stop()
            await container.read(f"{HOME_IN_BOX}/{_IN_BOX}/{session}.jsonl", home)
            await asyncio.to_thread(self._transcripts.keep, session, home)
        except AgentUnavailableError as error:
            log.warning("the agent's session is not kept: %s", error.message)

    async def _bring_in(self, session: str, home: Path) -> bool:
        owner = container_user()
        try:
            return await asyncio.to_thread(self._transcripts.bring_in, session, home, owner)
        except OSError as error:
            raise AgentUnavailableError(
                f"the agent's earlier session cannot be had: {error}"
            ) from error


async def _end(container: Container) -> None:
    try:
        await container.stop()
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


def is_session_id(text: str) -> bool:
    """Whether it can be nothing else: it becomes part of a path and of an argument."""
    return _ID.fullmatch(text) is not None


def has_transcript(home: Path, session_id: str) -> bool:
    return any(_transcripts(home, session_id))


def _transcripts(home: Path, session_id: str) -> Iterator[Path]:
    return (home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")


class SandboxTranscripts:
    """`folder` is private; `host_home` has the sessions of runs outside containers."""

    def __init__(self, folder: Path, host_home: Path) -> None:
        self._folder = folder
        self._host_home = host_home

    def bring_in(self, session_id: str, home: Path, owner: tuple[int, int]) -> bool:
        """Make the archive of a HOME with the transcript; False: it is not known. OSError."""
        name = f"{session_id}.jsonl"
        known = (self._folder / name, *_transcripts(self._host_home, session_id))
        found = next(filter(Path.is_file, known), None)
        if found is None:
            return False
        with closing(ArchiveWriter(home, owner)) as archive:
            archive.add(f"{_IN_BOX}/{name}", found.read_bytes())
        return True

    def keep(self, session_id: str, archive: Path) -> None:
        """One that is not a plain file of a sane size is left."""
        try:
            data = _only_file(archive)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._folder / f"{session_id}.jsonl", data)
            self._forget_old()
        except (OSError, tarfile.TarError) as error:
            log.warning("the agent's session is not kept: %s", error)

    def _forget_old(self) -> None:
        """As the CLI does with those in its own HOME."""
        for path in self._folder.glob("*.jsonl"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _KEEP_TRANSCRIPTS_S:
                    path.unlink()


def _only_file(archive: Path) -> bytes:
    """Raises OSError, TarError."""
    with tarfile.open(archive) as left:
        member = left.next()
        file = left.extractfile(member) if member is not None and member.isreg() else None
        if member is None or file is None or member.size > _LARGEST_TRANSCRIPT:
            raise OSError(0, "this file is not a transcript")
        return file.read()
