"""The `claude` backend: the Claude Agent SDK with its bundled CLI, limited to the job's tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace

from claude_agent_sdk import CLIConnectionError, ProcessError, ResultError, ResultMessage

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.client import AgentClient, OpenClients
from parachuted.agents.claude.containers import AgentContainers, has_transcript, is_session_id
from parachuted.agents.claude.launch import make_host_client, make_run_token
from parachuted.agents.claude.steps import StepReader
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.job import ConversationInput, Job, RunResult, Step, UsageStep
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)


class _LostError(AgentFailedError):
    """The CLI does not know the session that was to be resumed, or the open client's process ended
    before the model was asked.
    """


class ClaudeBackend:
    """Each job has its own CLI: a child process, or a container for tools of the CLI's own."""

    name = "claude"

    def __init__(self, settings: ClaudeSettings) -> None:
        self._settings = settings
        self._gateway = None if settings.is_direct else settings.gateway
        # With no login found, the CLI may still know of one: on macOS it is in the user's keychain.
        uses_keychain = (
            settings.is_direct and settings.credential is None and settings.base_url is None
        )
        self._home = settings.user_home if uses_keychain else settings.folder / "home"
        self._containers = AgentContainers(settings, self._home)
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
        attempts: list[tuple[str | None, AgentClient | None]] = [(session, None), (None, None)]
        if opened is not None:
            attempts.insert(0, (session, opened))
        for resumed, client in attempts:
            try:
                async with aclosing(self._attempt(job, resumed, deadline, client)) as steps:
                    async for step in steps:
                        yield step
            except _LostError as lost:
                log.info("%s", lost.message, extra={"watcher": job.watcher})
            else:
                return

    async def close(self) -> None:
        await asyncio.gather(*(client.end() for client in self._running))
        await self._open.close()

    async def _attempt(
        self, job: Job, session: str | None, deadline: float, opened: AgentClient | None
    ) -> AsyncGenerator[Step, None]:
        """The account comes last, when all costs have been counted, then the failure."""
        toolbox = Toolbox(job) if opened is None else opened.toolbox
        toolbox.serve(job)
        account, failure = None, None
        try:
            async with (
                self._client(job, toolbox, session, deadline, opened) as client,
                aclosing(self._converse(job, client, session, deadline)) as steps,
            ):
                async for step in steps:
                    if isinstance(step, RunResult):
                        account = step
                    elif isinstance(step, UsageStep) and self._gateway is not None:
                        yield replace(step, cost_usd=self._gateway.usage_store.spent(job.id).usd)
                    else:
                        yield step
        except AgentFailedError as error:
            failure = error
        if account is not None:
            account = self._priced(job, account)
            # a run that could not begin has no account to give
            if account.cost_usd or not isinstance(failure, AgentUnavailableError):
                yield account
        if failure is not None:
            raise failure
        if toolbox.bug is not None:
            raise toolbox.bug

    @asynccontextmanager
    async def _client(
        self,
        job: Job,
        toolbox: Toolbox,
        session: str | None,
        deadline: float,
        opened: AgentClient | None,
    ) -> AsyncIterator[AgentClient]:
        """The `opened` one, or one that is yet to begin. Raises AgentUnavailableError."""
        async with AsyncExitStack() as stack:
            if opened is not None:  # what follows may be cancelled
                stack.push_async_callback(opened.close_unless_kept)
            if job.native is not None:
                client = await stack.enter_async_context(
                    self._containers.open(job, job.native, toolbox, session, deadline)
                )
            else:
                endpoint = None
                if self._gateway is not None:
                    token = opened.token if opened is not None else None
                    opening = self._gateway.open(make_run_token(self._settings, job), token=token)
                    endpoint = await stack.enter_async_context(opening)
                client = opened or make_host_client(
                    self._settings, self._home, job, toolbox, session, endpoint
                )
            if client is not opened:
                stack.push_async_callback(client.close_unless_kept)
            self._running.add(client)
            stack.callback(self._running.discard, client)
            yield client

    async def _converse(
        self, job: Job, client: AgentClient, session: str | None, deadline: float
    ) -> AsyncGenerator[Step, None]:
        resumed = session if client.session in {None, session} else None
        reader = StepReader(
            job, job.model or self._settings.model, resumed=resumed, session_id=client.session
        )
        try:
            before = "" if resumed or not job.history else f"{job.history}\n\n"
            await client.begin(before + job.prompt, job.files, deadline)
            reader.asked = True
            async with aclosing(_answers(client, reader, job.conversation)) as steps:
                async for step in steps:
                    yield step
            if client.session is None and client.toolbox.bug is None and job.ended() is None:
                self._open.put(client, reader.session, job)
        except AgentFailedError as error:
            lost = None if reader.answered else _what_is_lost(error, client, session)
            if lost is not None:
                raise lost from error
            account = reader.account_unfinished()
            if account is not None and not isinstance(error, AgentUnavailableError):
                yield account
            if not reader.ended and reader.interruption is not None:
                raise reader.interruption from error
            raise

    def _priced(self, job: Job, account: RunResult) -> RunResult:
        if self._gateway is None:
            return account
        spent = self._gateway.usage_store.spent(job.id)
        return replace(
            account,
            cost_usd=spent.usd,
            input_tokens=spent.prompt,
            output_tokens=spent.output_tokens,
            of_run=True,
        )


async def _answers(
    client: AgentClient, reader: StepReader, said: ConversationInput | None
) -> AsyncGenerator[Step, None]:
    async with aclosing(client.messages(said)) as messages:
        async for message in messages:
            if isinstance(message, ResultMessage) and not client.is_done:
                reader.count(message)
            else:
                for step in reader.read(message):
                    yield step


def _what_is_lost(
    error: AgentFailedError, client: AgentClient, session: str | None
) -> _LostError | None:
    """Why a run without an answer failed, if with another client or session it may not."""
    if isinstance(error.__cause__, ResultError):
        return _LostError("the agent's earlier session is gone") if session else None
    if client.is_reused and isinstance(error.__cause__, CLIConnectionError | ProcessError):
        return _LostError(error.message)
    return None
