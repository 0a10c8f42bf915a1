"""Where a run's CLI is started, as a process or in a container, and what is removed
afterwards.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from claude_agent_sdk import ClaudeAgentOptions

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.cli_process import CliProcess
from parachuted.agents.claude.command import (
    find_cli,
    make_command,
    make_container_environment,
    make_environment,
)
from parachuted.agents.claude.sessions import SandboxTranscripts
from parachuted.agents.claude.transport import AgentContainer, AgentProcess
from parachuted.agents.gateway import Endpoint, RunToken
from parachuted.agents.job import Job, NativeTools
from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.sandbox_spec import (
    CLI_IN_BOX,
    GATEWAY_SOCKET,
    HOME_IN_BOX,
    SOCKETS_IN_BOX,
    SandboxSpec,
)
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import AgentFailedError, AgentUnavailableError

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

    `session` is the session's name, where it is ours to give. `may_keep`: the process may serve
    another run, with another opening of its way to the gateway.
    """

    process: CliProcess
    session: str | None = None
    may_keep: bool = False


class RunEnvironments:
    """Makes them, for one backend. `home` is the HOME of the CLI on this machine."""

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
                yield RunEnvironment(process=idle, may_keep=True)
                return
            prompt = stack.enter_context(_prompt_file(settings.folder, job.system_prompt))
            command = make_command(str(find_cli(settings.env)), options, prompt)
            transport = AgentProcess(
                command, env=make_environment(settings, self._home, way), cwd=cwd
            )
            process = CliProcess(transport, options, way.token if way is not None else "")
            yield RunEnvironment(process=process, may_keep=way is not None)

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


@contextmanager
def _prompt_file(folder: Path, text: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, prefix="prompt-", suffix=".md", encoding="utf-8", errors="replace"
    ) as file:
        file.write(text)
        file.flush()
        yield file.name


def _write_prompt(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", errors="replace")
    path.chmod(0o644)  # the container's user reads it; the folder is private
