"""How Claude Code is started: as a process of this machine, or in a container.

In a container a shell runs as the CLI's user and can print anything in its place. So the output is
bounded and checked: tool calls by the tool, files by the check-in, cost by the gateway, and the
session's id is chosen here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import claude_agent_sdk
from claude_agent_sdk import (
    ClaudeAgentOptions,
    CLIConnectionError,
    CLIJSONDecodeError,
    HookMatcher,
    ProcessError,
    Transport,
)

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.client import AgentClient
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.credentials import KEY_VARIABLE
from parachuted.agents.gateway.gateway import Endpoint
from parachuted.agents.gateway.usage import RunToken
from parachuted.agents.job import Job, NativeTools
from parachuted.agents.sandbox import Container
from parachuted.agents.sandbox.options import (
    CLI_IN_BOX,
    GATEWAY_SOCKET,
    HOME_IN_BOX,
    SOCKETS_IN_BOX,
    find_bundled_cli,
)
from parachuted.errors import AgentUnavailableError
from parachuted.processes.reaper import kill_family
from parachuted.processes.uninterrupted import run_uninterrupted

log = logging.getLogger(__name__)

_LINE_LIMIT = 32 * 1024 * 1024

# which hosts it may reach, our proxy decides, and no server of Anthropic's
_NO_PREFLIGHT = {"skipWebFetchPreflight": True}
# the CLI deletes older transcripts, whose sessions then cannot be resumed
_KEEP_TRANSCRIPTS = {"cleanupPeriodDays": 36_500}
# the prompt of this run holds, not the one that the session began with
_FRESH_PROMPT: dict[str, str | None] = {"system-prompt-snapshot": "off"}

_PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)
_OTHER_MODELS = (
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
_ALWAYS = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_MAX_RETRIES": "3",  # then the task waits, not a process
    "CLAUDE_AGENT_SDK_VERSION": claude_agent_sdk.__version__,
    # milliseconds: a tool may wait for a person's answer, and the run's own time bounds it
    "MCP_TOOL_TIMEOUT": "86400000",
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": "86400000",
}
# What it would do in a container for nothing: all but the transcript is gone afterwards, no person
# waits for what goes on in the background,
# and a copy of notes is not a repository to commit in.
_NOT_IN_CONTAINER = (
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
)

_LOGGED_CHARS = 500
_MOST_BYTES = 256 * 1024 * 1024
_MOST_LINES = 100_000
_LAST_WORDS_S = 2.0
_NO_ENGINE = (
    "this agent has tools that need a container, and there is none here; `parachute "
    "sandbox doctor` says what to install"
)
_NOT_LINUX = (
    "an agent with a shell runs only on Linux: a container cannot run the Claude Code of another "
    "system"
)
_MARK = "PARACHUTE_AGENT_RUN"
_CLI, _DROPPED = "PARACHUTE_CLI", "PARACHUTE_DROPPED"
_LAUNCHER = f"""#!/bin/sh
# Starts Claude Code without the daemon's environment, which the agent SDK passes on.
IFS='
'
set -f
set -- %s "${_CLI}" "$@"
for name in ${_DROPPED} {_CLI} {_DROPPED}; do set -- -u "$name" "$@"; done
exec env "$@"
"""


def make_run_token(settings: ClaudeSettings, job: Job) -> RunToken:
    return RunToken(
        run=job.id,
        agent=job.agent,
        causes=job.causes if job.pool == "work" else (),
        session=job.session_id,
        max_cost_usd=job.limits.max_cost_usd,
        model=job.model or settings.model,
        pool=job.pool,
    )


@asynccontextmanager
async def open_on_host(
    settings: ClaudeSettings, home: Path, job: Job, session: str | None
) -> AsyncIterator[AgentClient]:
    """A client whose process is yet to begin. Raises AgentUnavailableError."""
    async with settings.gateway.open(make_run_token(settings, job)) as endpoint:
        mark, cli, cwd = uuid4().hex, find_cli(settings.env), settings.folder / "work"
        try:
            for folder in (settings.folder, cwd, home):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            launcher = _write_launcher(settings.folder)
            prompt = _write_prompt(settings.folder, job.system_prompt)
        except OSError as error:
            raise AgentUnavailableError(f"the agent has no folder to work in: {error}") from error
        toolbox = Toolbox(job)
        options = _make_options(settings, job, toolbox, session)
        options.cli_path, options.cwd = launcher, cwd
        options.env = make_environment(settings.env, home, endpoint) | {
            _MARK: mark,
            _CLI: str(cli),
        }
        options.env[_DROPPED] = "\n".join(name for name in os.environ if name not in options.env)
        options.system_prompt = {"type": "file", "path": str(prompt)}
        options.max_buffer_size = _LINE_LIMIT
        options.stderr = lambda line: log.info("the agent's process says: %s", line[:_LOGGED_CHARS])
        end = partial(run_uninterrupted, kill_family, f"{_MARK}={mark}")
        yield AgentClient(options, toolbox, end, token=endpoint.token, prompt_file=prompt)


@asynccontextmanager
async def open_in_container(
    settings: ClaudeSettings, job: Job, native: NativeTools, deadline: float
) -> AsyncIterator[AgentClient]:
    """`deadline` is the loop's time. Raises AgentUnavailableError."""
    if settings.sandboxes is None:
        raise AgentUnavailableError(_NO_ENGINE)
    if settings.platform != "linux":
        raise AgentUnavailableError(_NOT_LINUX)
    sockets, session, toolbox = native.sandbox.folder.sockets, str(uuid4()), Toolbox(job)
    options = _make_options(settings, job, toolbox, None)
    options.session_id = session
    run_token = replace(make_run_token(settings, job), session=session)
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(settings.gateway.open(run_token, sockets))
        prompt = await asyncio.to_thread(_write_prompt, sockets, job.system_prompt)
        stack.callback(prompt.unlink, missing_ok=True)
        prompt.chmod(0o644)  # the container's user reads it; the folder is private
        opening = settings.sandboxes.open(
            native.sandbox,
            _make_command(CLI_IN_BOX, options, f"{SOCKETS_IN_BOX}/{prompt.name}"),
            make_container_environment(endpoint),
            find_cli(settings.env),
        )
        try:
            async with asyncio.timeout_at(deadline):
                container = await stack.enter_async_context(opening)
        except TimeoutError as error:
            raise AgentUnavailableError("the agent's container did not begin in time") from error
        transport = ContainerTransport(container)
        yield AgentClient(
            options, toolbox, partial(_end, container), transport=transport, session=session
        )


def _make_options(
    settings: ClaudeSettings, job: Job, toolbox: Toolbox, session: str | None
) -> ClaudeAgentOptions:
    patience = job.limits.timeout_s  # a person may be asked
    look_after = [HookMatcher(hooks=[toolbox.look_after], timeout=patience)]
    return ClaudeAgentOptions(
        tools=toolbox.native,
        setting_sources=[],
        strict_mcp_config=True,
        verbatim_prompts=True,
        mcp_servers={**toolbox.servers},
        allowed_tools=[*toolbox.names, *toolbox.native],
        permission_mode="dontAsk",
        hooks={
            "PreToolUse": [HookMatcher(hooks=[toolbox.gate], timeout=patience, on_failure="block")],
            "PostToolUse": look_after,
            "PostToolUseFailure": look_after,
        },
        model=job.model or settings.model,
        thinking={"type": "disabled"},
        settings=json.dumps(
            _KEEP_TRANSCRIPTS | (_NO_PREFLIGHT if "WebFetch" in toolbox.native else {})
        ),
        include_partial_messages=job.conversation is not None,
        extra_args={**_FRESH_PROMPT},
        max_turns=job.limits.max_turns,
        resume=session,
    )


def _make_command(cli: str, options: ClaudeAgentOptions, prompt_file: str) -> tuple[str, ...]:
    """For a container: the SDK spells them for a process. Paths are those in there."""
    servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
    listed = {name: {"type": "sdk", "name": name} for name in servers}
    stream = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    command = [cli, *stream, "--strict-mcp-config", "--thinking", "disabled"]
    for name, value in {
        "system-prompt-file": prompt_file,
        "model": options.model,
        "tools": ",".join(map(str, options.tools or ())),
        "setting-sources": "",
        "mcp-config": json.dumps({"mcpServers": listed}),
        "permission-mode": options.permission_mode,
        "max-turns": options.max_turns,
        "allowedTools": ",".join(options.allowed_tools) or None,
        "settings": options.settings,
        "session-id": options.session_id,
        "resume": options.resume,
        **options.extra_args,
    }.items():
        command += [] if value is None else [f"--{name}={value}"]
    if options.include_partial_messages:
        command.append("--include-partial-messages")
    return tuple(command)


def find_cli(env: Mapping[str, str]) -> Path:
    """In the SDK's wheel, else on PATH. Raises AgentUnavailableError."""
    cli = find_bundled_cli() or shutil.which("claude", path=env.get("PATH"))
    if cli is None:
        raise AgentUnavailableError(
            "Claude Code is not bundled for this system and not on PATH; install it, or set "
            "agent.backend to offline"
        )
    return Path(cli)


def make_environment(env: Mapping[str, str], home: Path, endpoint: Endpoint) -> dict[str, str]:
    """It holds no credential: the gateway's token in its place is valid for one run at a time."""
    made = {name: env[name] for name in _PASSED_ON if name in env} | _ALWAYS | {"HOME": str(home)}
    return made | _through(endpoint, endpoint.url)


def make_container_environment(endpoint: Endpoint) -> dict[str, str]:
    """Of the CLI in a container, whose only way out is the gateway's socket."""
    socket = f"{SOCKETS_IN_BOX}/{GATEWAY_SOCKET}"
    own = {"HOME": HOME_IN_BOX, "ANTHROPIC_UNIX_SOCKET": socket}
    own |= dict.fromkeys(_NOT_IN_CONTAINER, "1")
    return _ALWAYS | own | _through(endpoint, "http://localhost")


def _through(endpoint: Endpoint, url: str) -> dict[str, str]:
    """In the background it asks the run's own model too, since the gateway takes no other."""
    models = dict.fromkeys(_OTHER_MODELS, endpoint.model)
    return {"ANTHROPIC_BASE_URL": url, KEY_VARIABLE: endpoint.token} | models


def _write_launcher(folder: Path) -> Path:
    """What it starts ends with the daemon, and is no target of the terminal's signals."""
    setpriv = "setpriv --pdeathsig KILL --" if shutil.which("setpriv") else ""
    setsid = "setsid" if shutil.which("setsid") else ""
    path, text = folder / "launch-claude", _LAUNCHER % f"{setsid} {setpriv}"
    # one that is there already may just be started, and so must not be open for writing
    if not path.exists() or path.read_text("ascii") != text:
        path.write_text(text, "ascii")
        path.chmod(0o700)
    return path


def _write_prompt(folder: Path, text: str) -> Path:
    """As a file: an argument has a short limit, and everybody can read it."""
    descriptor, name = tempfile.mkstemp(".md", "prompt-", folder)
    os.close(descriptor)
    Path(name).write_text(text, "utf-8", "replace")
    return Path(name)


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
            raise CLIJSONDecodeError(f"a line longer than {_LINE_LIMIT} bytes", error) from error


def parse_line(line: bytes) -> dict[str, Any]:
    """Raises CLIJSONDecodeError."""
    try:
        return cast("dict[str, Any]", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise CLIJSONDecodeError(line[:_LOGGED_CHARS].decode(errors="replace"), error) from error
