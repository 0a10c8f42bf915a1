"""The `claude` backend: the Claude Agent SDK with its bundled CLI, limited to the job's tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace

from claude_agent_sdk import CLIConnectionError, ProcessError, ResultError, ResultMessage

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.client import AgentClient
from parachuted.agents.claude.launch import make_options
from parachuted.agents.claude.open_clients import OpenClient, OpenClients
from parachuted.agents.claude.run_environment import RunEnvironment, RunEnvironments
from parachuted.agents.claude.sessions import has_transcript, is_session_id
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.claude.transcript import Transcript
from parachuted.agents.job import Job, RunResult, SessionStep, Step, UsageStep
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)


class _SessionLostError(AgentFailedError):
    """The CLI does not know the session that was to be resumed."""


class _ClientLostError(AgentFailedError):
    """The open client's process ended before the model was asked."""


class ClaudeBackend:
    """Runs each job in its own CLI: a child process, or a container where the job has tools of the
    CLI's own. The client of a conversation stays open for its next turn.
    """

    name = "claude"

    def __init__(self, settings: ClaudeSettings) -> None:
        self._settings = settings
        self._gateway = None if settings.is_direct else settings.gateway
        # With no login found, the CLI may still know of one: on macOS it is in the user's keychain.
        uses_keychain = (
            settings.is_direct and settings.credential is None and settings.base_url is None
        )
        self._home = settings.user_home if uses_keychain else settings.folder / "home"
        self._environments = RunEnvironments(settings, self._home)
        self._running: set[AgentClient] = set()
        self._open = OpenClients(settings.idle_s, settings.available_memory)
        for left_by_a_crash in settings.folder.glob("prompt-*"):
            left_by_a_crash.unlink(missing_ok=True)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        deadline = asyncio.get_running_loop().time() + job.limits.timeout_s
        session = job.session_id if job.session_id and is_session_id(job.session_id) else None
        opened = None
        if session is not None and job.native is None:
            opened = await self._open.pop(job, session)
            if opened is None and not await asyncio.to_thread(has_transcript, self._home, session):
                session = None
        attempts: list[tuple[str | None, OpenClient | None]] = [(session, None), (None, None)]
        if opened is not None:
            attempts.insert(0, (session, opened))
        try:
            for resumed, client in attempts:
                try:
                    async with aclosing(self._attempt(job, resumed, deadline, client)) as steps:
                        async for step in steps:
                            yield step
                except (_ClientLostError, _SessionLostError) as lost:
                    log.info("%s", lost.message, extra={"watcher": job.watcher})
                else:
                    return
        finally:
            if opened is not None:  # the run may have ended before it was used
                await self._open.close_unless_kept(opened.client)

    async def close(self) -> None:
        await asyncio.gather(*(client.end() for client in self._running))
        await self._open.close()

    async def _attempt(
        self, job: Job, session: str | None, deadline: float, opened: OpenClient | None
    ) -> AsyncGenerator[Step, None]:
        """One go, with the `opened` client where there is one.

        The account comes last, when all that the run cost has been counted, and then what it failed
        of.
        """
        toolbox = Toolbox(job.tools, job.native) if opened is None else opened.toolbox
        toolbox.serve(job.tools, job.ended, job.compacting)
        account, failure = None, None
        try:
            async with (
                self._environment(job, toolbox, session, deadline, opened) as environment,
                aclosing(self._converse(job, environment, toolbox, session, deadline)) as steps,
            ):
                async for step in steps:
                    if isinstance(step, RunResult):
                        account = replace(step, session_id=environment.session or step.session_id)
                    else:
                        yield self._completed(step, job, environment)
        except AgentFailedError as error:
            failure = error
        if account is not None:
            account = self._priced(job, account)
            if account.cost_usd or not isinstance(
                failure, AgentUnavailableError
            ):  # a run that could not begin has no account to give
                yield account
        if failure is not None:
            raise failure
        if toolbox.bug is not None:
            raise toolbox.bug

    async def _converse(
        self,
        job: Job,
        environment: RunEnvironment,
        toolbox: Toolbox,
        session: str | None,
        deadline: float,
    ) -> AsyncGenerator[Step, None]:
        client = environment.client
        resumed = session if environment.session in {None, session} else None
        transcript = Transcript(
            job.limits,
            job.model or self._settings.model,
            is_conversation=job.conversation is not None,
            resumed=resumed,
            names={tool.full_name: tool.name for tool in job.tools},
        )
        self._running.add(client)
        is_kept = False
        try:
            async with aclosing(_answers(job, client, transcript, resumed, deadline)) as steps:
                async for step in steps:
                    yield step
            if environment.session is None and toolbox.bug is None and job.ended() is None:
                is_kept = self._open.put(client, toolbox, transcript.session, job)
        except AgentFailedError as error:
            lost = _what_is_lost(error, transcript, client, session)
            if lost is not None:
                raise lost from error
            if not isinstance(error, AgentUnavailableError):
                for step in transcript.account_unfinished():
                    yield step
            if not transcript.ended and transcript.interruption is not None:
                raise transcript.interruption from error
            raise
        finally:
            self._running.discard(client)
            if not is_kept:
                await client.close(is_done=transcript.ended)

    def _environment(
        self,
        job: Job,
        toolbox: Toolbox,
        session: str | None,
        deadline: float,
        opened: OpenClient | None,
    ) -> AbstractAsyncContextManager[RunEnvironment]:
        options = make_options(self._settings, job, toolbox, session)
        if job.native is None:
            return self._environments.on_host(job, options, opened.client if opened else None)
        return self._environments.in_container(job, job.native, options, deadline)

    def _completed(self, step: Step, job: Job, environment: RunEnvironment) -> Step:
        """The step with what we know better than the CLI: the session's id, and the cost."""
        if isinstance(step, SessionStep) and environment.session is not None:
            return replace(step, session_id=environment.session)
        if isinstance(step, UsageStep) and self._gateway is not None:
            return replace(step, cost_usd=self._gateway.spent(job.id).usd)
        return step

    def _priced(self, job: Job, account: RunResult) -> RunResult:
        """With what the gateway has counted for the run, unless the CLI goes without it."""
        if self._gateway is None:
            return account
        spent = self._gateway.spent(job.id)
        return replace(
            account,
            cost_usd=spent.usd,
            input_tokens=spent.prompt,
            output_tokens=spent.output,
            at_most=False,
            of_run=True,
        )


async def _answers(
    job: Job, client: AgentClient, transcript: Transcript, resumed: str | None, deadline: float
) -> AsyncGenerator[Step, None]:
    """What comes of the prompt, and of all that a person says until the last answer."""
    said = job.conversation
    before = "" if resumed or not job.history else f"{job.history}\n\n"
    await client.begin(before + job.prompt, job.files, deadline)
    transcript.asked = True
    async with aclosing(client.messages(said)) as messages:
        async for message in messages:
            if isinstance(message, ResultMessage) and client.goes_on(message, said):
                transcript.count(message)
                continue
            for step in transcript.read(message):
                yield step
            if transcript.ended:
                return


def _what_is_lost(
    error: AgentFailedError, transcript: Transcript, client: AgentClient, session: str | None
) -> AgentFailedError | None:
    """Whether a run failed because the open client's process had ended, or the session is not
    known.
    """
    if transcript.answered:
        return None
    if isinstance(error.__cause__, ResultError):
        return _SessionLostError("the agent's earlier session is gone") if session else None
    if client.is_reused and isinstance(error.__cause__, CLIConnectionError | ProcessError):
        return _ClientLostError(error.message)
    return None
