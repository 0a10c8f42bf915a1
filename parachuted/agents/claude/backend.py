"""The `claude` backend: the Claude Agent SDK with its bundled CLI, limited to the job's tools."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

from claude_agent_sdk import CLIConnectionError, ProcessError, ResultError

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.client import AgentClient, OpenClients
from parachuted.agents.claude.launch import make_run_token, open_in_container, open_on_host
from parachuted.agents.claude.steps import StepReader
from parachuted.agents.job import Job, RunResult, Step
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class _LostError(AgentFailedError):
    """The CLI does not know the session that was to be resumed, or the open client's process ended
    before the model was asked.
    """


class ClaudeBackend:
    """Each job has its own CLI: a child process, or a container for tools of the CLI's own."""

    name = "claude"

    def __init__(self, settings: ClaudeSettings) -> None:
        self._settings, self._spent = settings, settings.gateway.usage_store.spent
        self._home = settings.folder / "home"
        self._running: set[AgentClient] = set()
        self._open = OpenClients(settings.idle_s, settings.available_memory)
        for left_by_a_crash in settings.folder.glob("prompt-*"):
            left_by_a_crash.unlink(missing_ok=True)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        """A session of a container is not resumed: its transcript went with it."""
        deadline = asyncio.get_running_loop().time() + job.limits.timeout_s
        session = job.session_id if job.native is None else None
        opened = None
        if session is not None:
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
        reader, failure = StepReader(job, session, lambda: self._spent(job.id).usd), None
        client: AgentClient | None = None
        try:
            async with self._client(job, session, deadline, opened) as client:
                before = "" if session or not job.history else f"{job.history}\n\n"
                await client.begin(before + job.prompt, job.files, deadline)
                reader.chosen_session, reader.is_asked = client.session, True
                async with aclosing(client.messages(job.conversation)) as messages:
                    async for message in messages:
                        for step in reader.read(message):
                            yield step
                if client.session is None and client.toolbox.bug is None and job.ended() is None:
                    self._open.put(client, reader.session, job)
        except AgentFailedError as error:
            if client is not None and not reader.turns:
                _raise_lost(error, client, session)
            failure = error
        spent = self._spent(job.id)
        # a run that could not begin has no account to give
        if reader.is_asked and (spent.usd or not isinstance(failure, AgentUnavailableError)):
            yield RunResult(
                cost_usd=spent.usd,
                input_tokens=spent.prompt,
                output_tokens=spent.output_tokens,
                turns=reader.turns,
                session_id=reader.next_session,
                of_run=True,
            )
        if failure is not None:
            raise failure
        if client is not None and client.toolbox.bug is not None:
            raise client.toolbox.bug

    @asynccontextmanager
    async def _client(
        self, job: Job, session: str | None, deadline: float, opened: AgentClient | None
    ) -> AsyncIterator[AgentClient]:
        """The `opened` one, or one that is yet to begin. Raises AgentUnavailableError."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            if opened is not None:  # what follows may be cancelled
                stack.push_async_callback(opened.close_unless_kept)
                opened.toolbox.serve(job)
                run_token = make_run_token(settings, job)
                opening = settings.gateway.open(run_token, token=opened.token)
                await stack.enter_async_context(opening)
                client = opened
            elif job.native is None:
                client = await stack.enter_async_context(
                    open_on_host(settings, self._home, job, session)
                )
            else:
                client = await stack.enter_async_context(
                    open_in_container(settings, job, job.native, deadline)
                )
            if client is not opened:
                stack.push_async_callback(client.close_unless_kept)
            self._running.add(client)
            stack.callback(self._running.discard, client)
            yield client


def has_transcript(home: Path, session: str) -> bool:
    """Also whether it can be nothing else than a session's id: it becomes part of an argument."""
    known = (home / ".claude" / "projects").glob(f"*/{session}.jsonl")
    return _ID.fullmatch(session) is not None and any(known)


def _raise_lost(error: AgentFailedError, client: AgentClient, session: str | None) -> None:
    """Where a run without an answer failed as it may not with another client or session."""
    cause = error.__cause__
    if session and isinstance(cause, ResultError):
        raise _LostError("the agent's earlier session is gone") from error
    if client.is_reused and isinstance(cause, CLIConnectionError | ProcessError):
        raise _LostError(error.message) from error
