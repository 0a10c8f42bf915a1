"""Where a run's CLI is started, as a process or in a container, and what is removed
afterwards.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.cli_process import CliProcess
from parachuted.agents.claude.transcript import SandboxTranscripts
from parachuted.agents.claude.transport import AgentContainer, AgentProcess
from parachuted.agents.credentials import KEY_VARIABLE
from parachuted.agents.gateway import Endpoint, RunToken, is_on_this_machine
from parachuted.agents.job import Job, NativeTools
from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    CLI_IN_BOX,
    GATEWAY_SOCKET,
    HOME_IN_BOX,
    SOCKETS_IN_BOX,
    SandboxSpec,
)
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import AgentFailedError, AgentUnavailableError

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
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_BEHIND_SOCKET = "http://localhost"
_NO_KEY = "no-key-needed"
_OTHER_MODELS = (
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
_SAID = {
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
_WITHOUT = (
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
)


def find_cli(env: Mapping[str, str]) -> Path:
    """Find the CLI in the SDK's wheel, else on PATH; raises AgentUnavailableError."""
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if bundled.is_file():
        return bundled
    installed = shutil.which("claude", path=env.get("PATH"))
    if installed is None:
        raise AgentUnavailableError(
            "Claude Code is not bundled for this system and not on PATH; install it, or set "
            "agent.backend to offline"
        )
    return Path(installed)


def make_command(cli: str, options: ClaudeAgentOptions, prompt_file: str) -> list[str]:
    """Spell the options as arguments.

    The system prompt comes from a file: an argument has a short limit, and everybody can read it.

    `cli` and `prompt_file` are paths where the CLI runs.
    """
    servers = (
        {name: {"type": "sdk", "name": name} for name in options.mcp_servers}
        if isinstance(options.mcp_servers, dict)
        else {}
    )
    command = [cli, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    command += [
        "--system-prompt-file",
        prompt_file,
        "--model",
        str(options.model),
        "--thinking",
        "disabled",
    ]
    command += [
        "--tools",
        ",".join(map(str, options.tools or ())),
        f"--setting-sources={','.join(options.setting_sources or ())}",
    ]
    command += [
        "--mcp-config",
        json.dumps({"mcpServers": servers}),
        "--permission-mode",
        str(options.permission_mode),
    ]
    command += ["--max-turns", str(options.max_turns)]
    command += (
        ["--max-budget-usd", str(options.max_budget_usd)]
        if options.max_budget_usd is not None
        else []
    )
    command += ["--allowedTools", ",".join(options.allowed_tools)] if options.allowed_tools else []
    command += ["--settings", options.settings] if options.settings else []
    command += ["--include-partial-messages"] if options.include_partial_messages else []
    for name, value in options.extra_args.items():
        command += [f"--{name}"] + ([] if value is None else [value])
    command += ["--strict-mcp-config"] if options.strict_mcp_config else []
    command += [f"--session-id={options.session_id}"] if options.session_id else []
    return command + ([f"--resume={options.resume}"] if options.resume else [])


def make_environment(settings: ClaudeSettings, home: Path, way: Endpoint | None) -> dict[str, str]:
    """Make the CLI's environment on this machine, with a way through the gateway or without one.

    It holds no credential: the gateway adds that. The value in the key's place is valid for one
    run.
    """
    env, base_url = settings.env, settings.base_url
    made = {name: env[name] for name in _PASSED_ON if name in env} | _SAID
    made["HOME"] = str(home)
    if way is not None:
        return made | _models(way) | {"ANTHROPIC_BASE_URL": way.url, KEY_VARIABLE: way.token}
    if base_url is None or not is_on_this_machine(base_url):
        made |= {name: env[name] for name in _PROXIES if name in env}
    return made | (
        {"ANTHROPIC_BASE_URL": base_url, KEY_VARIABLE: _NO_KEY} if base_url is not None else {}
    )


def make_container_environment(way: Endpoint, home: str, socket: str) -> dict[str, str]:
    """Make the environment of the CLI in a container, whose only way out is the gateway's
    socket.
    """
    made = {
        "HOME": home,
        "ANTHROPIC_UNIX_SOCKET": socket,
        "ANTHROPIC_BASE_URL": _BEHIND_SOCKET,
        KEY_VARIABLE: way.token,
    }
    return made | _models(way) | _SAID | dict.fromkeys(_WITHOUT, "1")


def _models(way: Endpoint) -> dict[str, str]:
    """What it does in the background it does with the run's own model, since the gateway takes no
    other.
    """
    return dict.fromkeys(_OTHER_MODELS, way.model) if way.model is not None else {}


_PROMPT = "prompt.md"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """What is there for one run's CLI.

    `session` is the session's name, where it is ours to give. `way`: the process may serve another
    run, with another opening of this way to the gateway.
    """

    process: CliProcess
    session: str | None = None
    way: Endpoint | None = None


class RunEnvironments:
    def __init__(self, settings: ClaudeSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._sessions = SandboxTranscripts(settings.folder / "boxed", home)

    @asynccontextmanager
    async def on_host(
        self, job: Job, options: ClaudeAgentOptions, idle: CliProcess | None = None
    ) -> AsyncIterator[RunEnvironment]:
        """Run the CLI as a child process, for an agent that has only our tools; in the `idle` one
        where there is one.

        Raises AgentUnavailableError.
        """
        settings = self._settings
        cwd = settings.folder / "work"
        try:
            for folder in (settings.folder, cwd, self._home):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AgentUnavailableError(f"the agent has no folder to work in: {error}") from error
        async with AsyncExitStack() as stack:
            way = None
            if settings.gateway is not None and not settings.is_direct:
                token = idle.token if idle is not None else None
                way = await stack.enter_async_context(
                    settings.gateway.open(self._run_token(job), token=token)
                )
            if idle is not None:
                yield RunEnvironment(process=idle, way=way)
                return
            yield RunEnvironment(process=self._process(job, options, way), way=way)

    def spare(self, job: Job, options: ClaudeAgentOptions, way: Endpoint) -> CliProcess:
        """A process for a run such as this that is still to come. Its key leads nowhere until that
        run opens its way with it.
        """
        return self._process(job, options, replace(way, token=secrets.token_urlsafe(32)))

    def _process(self, job: Job, options: ClaudeAgentOptions, way: Endpoint | None) -> CliProcess:
        settings = self._settings
        prompt = _write_prompt_file(settings.folder, job.system_prompt)
        command = make_command(str(find_cli(settings.env)), options, str(prompt))
        env = make_environment(settings, self._home, way)
        transport = AgentProcess(
            command,
            env=env,
            cwd=settings.folder / "work",
            is_background=job.conversation is None,
        )
        return CliProcess(transport, options, way.token if way is not None else "", prompt)

    @asynccontextmanager
    async def in_container(
        self, job: Job, native: NativeTools, options: ClaudeAgentOptions, deadline: float
    ) -> AsyncIterator[RunEnvironment]:
        """A container, for an agent with tools of the CLI's own.

        `deadline` is the loop's time. Raises AgentUnavailableError.

        Of its HOME the session's transcript is kept, and nothing else; not even that of a run that
        was stopped.
        """
        sandboxes, gateway = self._settings.sandboxes, self._settings.gateway
        if sandboxes is None:
            raise AgentUnavailableError(_NO_ENGINE)
        if self._settings.platform != "linux":
            raise AgentUnavailableError(_NOT_LINUX)
        if gateway is None:
            raise AgentUnavailableError(_NO_GATEWAY)
        options, session = await self._place_session(options, native.sandbox.home)
        async with AsyncExitStack() as stack:
            sockets = native.sandbox.sockets
            way = await stack.enter_async_context(
                gateway.open(replace(self._run_token(job), session=session), sockets)
            )
            await asyncio.to_thread(_write_prompt, sockets / _PROMPT, job.system_prompt)
            stack.callback((sockets / _PROMPT).unlink, missing_ok=True)
            container = await _open(
                stack, sandboxes, self._spec(job, native, options, way), deadline
            )
            try:
                process = CliProcess(AgentContainer(container), options)
                yield RunEnvironment(process=process, session=session)
            except AgentFailedError:
                await asyncio.to_thread(self._sessions.keep, session, native.sandbox.home)
                raise
            await asyncio.to_thread(self._sessions.keep, session, native.sandbox.home)

    def _run_token(self, job: Job) -> RunToken:
        return RunToken(
            run=job.id,
            agent=job.agent,
            causes=job.causes if job.pool == "work" else (),
            session=job.session_id,
            max_cost_usd=job.limits.max_cost_usd,
            models=(job.model or self._settings.model,),
            pool=job.pool,
        )

    async def _place_session(
        self, options: ClaudeAgentOptions, home: Path
    ) -> tuple[ClaudeAgentOptions, str]:
        """The earlier session, where there is one, else a new one: we name it, since what the CLI
        tells is not to be believed.
        """
        earlier = options.resume
        try:
            if earlier is not None and await asyncio.to_thread(
                self._sessions.bring_in, earlier, home
            ):
                return options, earlier
        except OSError as error:
            raise AgentUnavailableError(
                f"the agent's earlier session cannot be had: {error}"
            ) from error
        session = str(uuid4())
        return replace(options, resume=None, session_id=session), session

    def _spec(
        self, job: Job, native: NativeTools, options: ClaudeAgentOptions, way: Endpoint
    ) -> SandboxSpec:
        cli = find_cli(self._settings.env)
        return SandboxSpec(
            sandbox=native.sandbox,
            sockets=native.sandbox.sockets,
            command=tuple(make_command(CLI_IN_BOX, options, f"{SOCKETS_IN_BOX}/{_PROMPT}")),
            env=make_container_environment(way, HOME_IN_BOX, f"{SOCKETS_IN_BOX}/{GATEWAY_SOCKET}"),
            run=job.id,
            agent=job.agent,
            cli=cli,
        )


async def _open(
    stack: AsyncExitStack, sandboxes: Sandboxes, spec: SandboxSpec, deadline: float
) -> Container:
    try:
        async with asyncio.timeout_at(deadline):
            return await stack.enter_async_context(sandboxes.open(spec))
    except TimeoutError as error:
        raise AgentUnavailableError("the agent's container did not begin in time") from error


def _write_prompt_file(folder: Path, text: str) -> Path:
    with tempfile.NamedTemporaryFile(
        "w",
        dir=folder,
        prefix="prompt-",
        suffix=".md",
        encoding="utf-8",
        errors="replace",
        delete=False,
    ) as file:
        file.write(text)
    return Path(file.name)


def _write_prompt(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", errors="replace")
    path.chmod(0o644)  # the container's user reads it; the folder is private
