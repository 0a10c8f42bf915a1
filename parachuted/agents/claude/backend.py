"""The `claude` backend: the Claude Agent SDK with its bundled CLI, limited to the job's
tools.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace

from claude_agent_sdk import (
    ClaudeAgentOptions,
    CLIConnectionError,
    HookMatcher,
    ProcessError,
    ResultError,
)

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.cli_process import (
    CliProcess,
    Conversation,
    IdleProcess,
    IdleProcesses,
)
from parachuted.agents.claude.run_environment import RunEnvironment, RunEnvironments
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.claude.transcript import (
    Transcript,
    TranscriptUsage,
    has_transcript,
    is_session_id,
    load_spent,
)
from parachuted.agents.gateway import Endpoint
from parachuted.agents.job import Job, RunResult, SessionStep, Step, UsageStep
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_GRACE_S = 2.0
_SPARE_S = 60.0
_SPARE_AFTER_S = 2.0  # starting it takes the processor from a turn that follows at once
# which hosts it may reach, our proxy decides, and no server of Anthropic's
_NO_PREFLIGHT = {"skipWebFetchPreflight": True}
# the CLI deletes older transcripts, whose sessions then cannot be resumed
_KEEP_TRANSCRIPTS = {"cleanupPeriodDays": 36_500}
# the prompt of this run holds, not the one that the session began with
_FRESH_PROMPT = {"system-prompt-snapshot": "off"}


class _SessionLostError(AgentFailedError):
    """The CLI does not know the session that was to be resumed."""


class _ProcessLostError(AgentFailedError):
    """The idle process ended before the model was asked."""


class ClaudeBackend:
    """Runs each job in its own CLI: a child process, or a container where the job has tools of the
    CLI's own.
    """

    name = "claude"

    def __init__(self, settings: ClaudeSettings) -> None:
        self._settings = settings
        # With no login found, the CLI may still know of one: on macOS it is in the user's keychain.
        uses_keychain = (
            settings.is_direct and settings.credential is None and settings.base_url is None
        )
        self._home = settings.user_home if uses_keychain else settings.folder / "home"
        self._surroundings = RunEnvironments(settings, self._home)
        self._running: set[CliProcess] = set()
        self._idle = IdleProcesses(
            settings.keep_processes, settings.keep_s, has_spare=settings.has_spare
        )
        self._starting: asyncio.Task[None] | None = None
        for left_by_a_crash in settings.folder.glob("prompt-*"):
            left_by_a_crash.unlink(missing_ok=True)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        deadline = asyncio.get_running_loop().time() + job.limits.timeout_s
        session = job.session_id if job.session_id and is_session_id(job.session_id) else None
        idle = None
        if job.native is None:
            session, idle = await self._waiting(job, session)
        if idle is not None:
            try:
                async with aclosing(self._attempt(job, session, deadline, idle)) as steps:
                    async for step in steps:
                        yield step
            except _ProcessLostError:
                log.info("the agent's process is gone; another one is started")
            else:
                return
            finally:  # the run may have ended before its conversation began
                await self._idle.close_unless_kept(idle.process)
        try:
            async with aclosing(self._attempt(job, session, deadline)) as steps:
                async for step in steps:
                    yield step
        except _SessionLostError:
            log.info(
                "the agent's earlier session is gone; a new one was started",
                extra={"watcher": job.watcher},
            )
            async with aclosing(self._attempt(job, None, deadline)) as steps:
                async for step in steps:
                    yield step

    async def _waiting(
        self, job: Job, session: str | None
    ) -> tuple[str | None, IdleProcess | None]:
        """The session, unless it is lost, and the process that waits for such a run of it, or for
        such a new session.
        """
        if session is not None:
            idle = await self._idle.pop(session, _started_with(job))
            if idle is not None or await asyncio.to_thread(has_transcript, self._home, session):
                return session, idle
        is_taken = self._idle.takes(job)
        return None, await self._idle.pop(None, _started_with(job)) if is_taken else None

    async def close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        await asyncio.gather(*(process.transport.close() for process in self._running))
        await self._idle.close()

    async def _attempt(
        self, job: Job, session: str | None, deadline: float, idle: IdleProcess | None = None
    ) -> AsyncGenerator[Step, None]:
        """One go, in the `idle` process where there is one.

        The account comes last, when all that the run cost has been counted, and then what it failed
        of.
        """
        toolbox = Toolbox(job.tools, job.native, job.ended) if idle is None else idle.toolbox
        toolbox.serve(job.tools, job.ended, job.compacting)
        account, failure = None, None
        try:
            async with (
                self._surround(job, toolbox, session, deadline, idle) as around,
                aclosing(self._converse(job, around, toolbox, session, deadline)) as steps,
            ):
                async for step in steps:
                    if isinstance(step, RunResult):
                        account = replace(step, session_id=around.session or step.session_id)
                    else:
                        yield self._completed(step, job, around)
        except AgentFailedError as error:
            failure = error
        if account is not None:
            account = self._priced(job, account)
            if account.cost_usd or not isinstance(
                failure, AgentUnavailableError
            ):  # who could not begin has no account to give
                yield account
        if failure is not None:
            raise failure
        if toolbox.bug is not None:
            raise toolbox.bug

    async def _converse(
        self,
        job: Job,
        around: RunEnvironment,
        toolbox: Toolbox,
        session: str | None,
        deadline: float,
    ) -> AsyncGenerator[Step, None]:
        resumed = session if around.session in {None, session} else None
        transcript = Transcript(
            job.limits,
            await asyncio.to_thread(load_spent, self._home, session)
            if session
            else TranscriptUsage(),
            is_conversation=job.conversation is not None,
            resumed=resumed,
            names={tool.full_name: tool.name for tool in job.tools},
        )
        process = around.process
        self._running.add(process)
        try:
            async with Conversation(process, deadline) as conversation:
                before = "" if resumed or not job.history else f"{job.history}\n\n"
                await conversation.begin(before + job.prompt, job.files)
                transcript.asked = True
                async for message in conversation.messages(job.conversation):
                    for step in transcript.read(message):
                        if transcript.ended:
                            process.transport.allow_grace(_GRACE_S)
                        yield step
                self._keep(job, toolbox, transcript, around, conversation)
        except _ProcessLostError:
            raise
        except AgentFailedError as error:
            lost = _what_is_lost(error, transcript, process, session)
            if lost is not None:
                raise lost from error
            if not isinstance(error, AgentUnavailableError):
                for step in transcript.account_unfinished():
                    yield step
            if not transcript.ended and transcript.interruption is not None:
                raise transcript.interruption from error
            raise
        finally:
            self._running.discard(process)

    def _keep(
        self,
        job: Job,
        toolbox: Toolbox,
        transcript: Transcript,
        around: RunEnvironment,
        conversation: Conversation,
    ) -> None:
        """Keep the process for the next run of its session, where the run left it as it should be.

        Raises _ProcessLostError.
        """
        process, session = around.process, transcript.session
        if not transcript.ended:
            if process.is_used_again and not transcript.answered:
                raise _ProcessLostError("the process ended without a word")
            return
        is_well = toolbox.bug is None and job.ended() is None
        if around.way is not None and session and is_well and self._idle.takes(job):
            conversation.keep_process()
            self._idle.put(process, toolbox, session, _started_with(job), job)
            self._start_spare(job, around.way)

    def _start_spare(self, job: Job, way: Endpoint) -> None:
        """Start the CLI, which takes it a second or more, for the next conversation that begins as
        this one did.
        """
        is_starting = self._starting is not None and not self._starting.done()
        if not is_starting and self._idle.takes_spare(job):
            self._starting = asyncio.get_running_loop().create_task(
                self._wait_as_spare(job, way), name="a spare process for conversations"
            )

    async def _wait_as_spare(self, job: Job, way: Endpoint) -> None:
        await asyncio.sleep(_SPARE_AFTER_S)
        if not self._idle.takes_spare(job):
            return
        toolbox = Toolbox(job.tools, None, job.ended)
        process = self._surroundings.spare(job, self._make_options(job, toolbox, None), way)
        is_kept = False
        try:
            async with asyncio.timeout(_SPARE_S):
                await process.connect()
            self._idle.put(process, toolbox, None, _started_with(job), job)
            is_kept = True
        except Exception as error:  # noqa: BLE001  the SDK raises bare ones; the next run starts its own
            log.info("no process waits for a new conversation", extra={"why": str(error)})
        finally:
            if not is_kept:
                await process.close()

    def _surround(
        self,
        job: Job,
        toolbox: Toolbox,
        session: str | None,
        deadline: float,
        idle: IdleProcess | None,
    ) -> AbstractAsyncContextManager[RunEnvironment]:
        options = self._make_options(job, toolbox, session)
        if job.native is None:
            process = idle.process if idle is not None else None
            return self._surroundings.on_host(job, options, process)
        return self._surroundings.in_container(job, job.native, options, deadline)

    def _completed(self, step: Step, job: Job, around: RunEnvironment) -> Step:
        """The step with what we know better than the CLI: the session's name, and the cost."""
        gateway = self._settings.gateway
        if isinstance(step, SessionStep) and around.session is not None:
            return replace(step, session_id=around.session)
        if isinstance(step, UsageStep) and gateway is not None and not self._settings.is_direct:
            return replace(step, cost_usd=gateway.spent(job.id).usd)
        return step

    def _priced(self, job: Job, account: RunResult) -> RunResult:
        """With what the gateway has counted for the run, which is what holds, unless the CLI goes
        without it and tells by itself.
        """
        gateway = self._settings.gateway
        if gateway is None or self._settings.is_direct:
            return account
        spent = gateway.spent(job.id)
        return replace(
            account,
            cost_usd=spent.usd,
            input_tokens=spent.prompt,
            output_tokens=spent.output,
            at_most=False,
            of_run=True,
        )

    def _make_options(self, job: Job, toolbox: Toolbox, session: str | None) -> ClaudeAgentOptions:
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
                "PreToolUse": [
                    HookMatcher(hooks=[toolbox.gate], timeout=patience, on_failure="block")
                ],
                "PostToolUse": look_after,
                "PostToolUseFailure": look_after,
                "PreCompact": [HookMatcher(hooks=[toolbox.before_compaction], timeout=patience)],
            },
            model=job.model or self._settings.model,
            settings=json.dumps(
                _KEEP_TRANSCRIPTS | (_NO_PREFLIGHT if "WebFetch" in toolbox.native else {})
            ),
            include_partial_messages=job.conversation is not None,
            extra_args={**_FRESH_PROMPT},
            max_turns=job.limits.max_turns,
            max_budget_usd=job.limits.max_cost_usd if self._settings.is_direct else None,
            resume=session,
        )


def _started_with(job: Job) -> tuple[object, ...]:
    """All that a process is started with, and what its run was granted: a run that differs in any
    of it gets another one.
    """
    tools = [(one.full_name, one.description, one.schema) for one in job.tools]
    return (
        job.agent,
        job.model,
        job.system_prompt,
        json.dumps(tools, sort_keys=True),
        job.limits,
        job.grant,
        job.pool,
    )


def _what_is_lost(
    error: AgentFailedError, transcript: Transcript, process: CliProcess, session: str | None
) -> AgentFailedError | None:
    """Whether a run failed because the idle process had ended, or the session is not known."""
    if transcript.answered:
        return None
    cause = error.__cause__
    if isinstance(cause, ResultError):
        return _SessionLostError() if session else None
    if process.is_used_again and isinstance(cause, CLIConnectionError | ProcessError):
        return _ProcessLostError(error.message)
    return None
