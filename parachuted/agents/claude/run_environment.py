"""Where a run's Claude Code is: a process of this machine or a container, and its access to the
gateway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

from claude_agent_sdk import ClaudeAgentOptions

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.client import AgentClient
from parachuted.agents.claude.launch import (
    LINE_LIMIT,
    MARK,
    find_cli,
    launched,
    make_command,
    make_container_environment,
    make_environment,
    write_launcher,
    write_prompt,
)
from parachuted.agents.claude.sessions import SandboxTranscripts
from parachuted.agents.claude.transport import ContainerTransport
from parachuted.agents.gateway import Endpoint, RunToken
from parachuted.agents.job import Job, NativeTools
from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    CLI_IN_BOX,
    GATEWAY_SOCKET,
    HOME_IN_BOX,
    SOCKETS_IN_BOX,
    SandboxSpec,
)
from parachuted.errors import AgentFailedError, AgentUnavailableError
from parachuted.processes.reaper import kill_family
from parachuted.processes.uninterrupted import run_uninterrupted

log = logging.getLogger(__name__)

_LOGGED_CHARS = 500
_BACKGROUND_NICENESS = 10
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
    """The run's client; `session` is the session's id, where we choose it."""

    client: AgentClient
    session: str | None = None


class RunEnvironments:
    def __init__(self, settings: ClaudeSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._launcher: Path | None = None
        self._transcripts = SandboxTranscripts(settings.folder / "boxed", home)

    @asynccontextmanager
    async def on_host(
        self, job: Job, options: ClaudeAgentOptions, opened: AgentClient | None = None
    ) -> AsyncIterator[RunEnvironment]:
        """A child process, for an agent that has only our tools; that of the `opened` client where
        there is one.

        Raises AgentUnavailableError.
        """
        gateway = None if self._settings.is_direct else self._settings.gateway
        async with AsyncExitStack() as stack:
            endpoint = None
            if gateway is not None:
                token = opened.token if opened is not None else None
                endpoint = await stack.enter_async_context(
                    gateway.open(self._run_token(job), token=token)
                )
            client = opened or self._make_client(job, options, endpoint)
            yield RunEnvironment(client=client)

    def _make_client(
        self, job: Job, options: ClaudeAgentOptions, endpoint: Endpoint | None
    ) -> AgentClient:
        settings, mark = self._settings, uuid4().hex
        cli, cwd = find_cli(settings.env), settings.folder / "work"
        try:
            for folder in (settings.folder, cwd, self._home):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._launcher = self._launcher or write_launcher(settings.folder)
            prompt = write_prompt(settings.folder, job.system_prompt)
        except OSError as error:
            raise AgentUnavailableError(f"the agent has no folder to work in: {error}") from error
        niceness = 0 if job.conversation is not None else _BACKGROUND_NICENESS
        env = make_environment(settings, self._home, endpoint) | {MARK: mark}
        options = replace(
            options,
            cli_path=self._launcher,
            cwd=cwd,
            env=launched(env, cli, niceness),
            system_prompt={"type": "file", "path": str(prompt)},
            max_buffer_size=LINE_LIMIT,
            stderr=_log_complaint,
        )
        return AgentClient(
            options,
            partial(run_uninterrupted, kill_family, -1, f"{MARK}={mark}"),
            token=endpoint.token if endpoint is not None else "",
            prompt_file=prompt,
        )

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
        failure: AgentFailedError | None = None
        async with AsyncExitStack() as stack:
            sockets = native.sandbox.sockets
            endpoint = await stack.enter_async_context(
                gateway.open(replace(self._run_token(job), session=session), sockets)
            )
            prompt = await asyncio.to_thread(write_prompt, sockets, job.system_prompt)
            stack.callback(prompt.unlink, missing_ok=True)
            prompt.chmod(0o644)  # the container's user reads it; the folder is private
            spec = self._spec(native, options, endpoint, prompt.name)
            try:
                async with asyncio.timeout_at(deadline):
                    container = await stack.enter_async_context(sandboxes.open(spec))
            except TimeoutError as error:
                raise AgentUnavailableError(
                    "the agent's container did not begin in time"
                ) from error
            transport = ContainerTransport(container)
            client = AgentClient(options, partial(_end, container), transport=transport)
            try:
                yield RunEnvironment(client=client, session=session)
            except AgentFailedError as error:
                failure = error
        # nothing runs there any more that could put something else in its place
        await asyncio.to_thread(self._transcripts.keep, session, native.sandbox.home)
        if failure is not None:
            raise failure

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
        """The earlier session, where there is one, else a new one, with an id of our choice, since
        what runs in a container may print another.
        """
        earlier = options.resume
        try:
            if earlier is not None and await asyncio.to_thread(
                self._transcripts.bring_in, earlier, home
            ):
                return options, earlier
        except OSError as error:
            raise AgentUnavailableError(
                f"the agent's earlier session cannot be had: {error}"
            ) from error
        session = str(uuid4())
        return replace(options, resume=None, session_id=session), session

    def _spec(
        self,
        native: NativeTools,
        options: ClaudeAgentOptions,
        endpoint: Endpoint,
        prompt: str,
    ) -> SandboxSpec:
        socket = f"{SOCKETS_IN_BOX}/{GATEWAY_SOCKET}"
        return SandboxSpec(
            sandbox=native.sandbox,
            command=tuple(make_command(CLI_IN_BOX, options, f"{SOCKETS_IN_BOX}/{prompt}")),
            env=make_container_environment(endpoint, HOME_IN_BOX, socket),
            cli=find_cli(self._settings.env),
        )


def _log_complaint(line: str) -> None:
    log.info("the agent's process says: %s", line[:_LOGGED_CHARS])


async def _end(container: Container) -> None:
    try:
        await container.kill()
    except AgentUnavailableError as error:  # its opener tries again
        log.warning("the agent's container was not ended: %s", error.message)
