"""The `claude` backend: the Claude Agent SDK with its bundled CLI, limited to the job's tools, and
its conversations of several turns.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    HookMatcher,
    Message,
    ResultError,
    ResultMessage,
)

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.run_environment import RunEnvironment, RunEnvironments
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.claude.transcript import (
    SERVER,
    Transcript,
    TranscriptUsage,
    has_transcript,
    is_session_id,
    load_spent,
)
from parachuted.agents.claude.transport import AgentTransport
from parachuted.agents.job import (
    ConversationInput,
    Job,
    PromptFile,
    RunResult,
    SessionStep,
    Step,
    UsageStep,
)
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_Answer = TypeVar("_Answer")


class Conversation:
    """An async context manager: however it is left, nothing of the process is left behind.

    `deadline` is the loop's time.
    """

    def __init__(
        self, process: AgentTransport, options: ClaudeAgentOptions, deadline: float
    ) -> None:
        self._process = process
        self._client = ClaudeSDKClient(options, process)
        self._deadline = deadline
        self._unread: set[str] = set()

    async def __aenter__(self) -> Self:
        # A timer, since the deadline also holds while the reader of our messages is busy with one.
        self._timer = asyncio.get_running_loop().call_at(self._deadline, self._process.kill)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._client.disconnect()
        except TimeoutError:
            log.warning("the agent's process did not close in time")
        finally:
            await self._process.close()

    async def begin(self, prompt: str, files: tuple[PromptFile, ...] = ()) -> None:
        """Start the process and hand it the prompt; raises AgentUnavailableError."""
        try:
            await self._bound(self._client.connect())
            await self._bound(self._say(prompt, files))
        except AgentFailedError as error:
            raise AgentUnavailableError(
                f"the agent could not begin: {error.message}"
            ) from error.__cause__

    async def messages(self, said: ConversationInput | None = None) -> AsyncIterator[Message]:
        """Yield what comes back, the result last; raises AgentFailedError.

        What is `said` meanwhile is passed on, and the result is that of the last of it.
        """
        passing = None
        if said is not None:
            passing = asyncio.get_running_loop().create_task(
                self._pass_on(said), name="what a person says to an agent"
            )
        stream = aiter(self._client.receive_messages())
        try:
            while (message := await self._bound(anext(stream, None))) is not None:
                if not isinstance(message, ResultMessage):
                    yield message
                elif said is None or not self._goes_on(message, said):
                    yield message
                    return
        finally:
            if passing is not None:
                passing.cancel()

    def _goes_on(self, result: ResultMessage, said: ConversationInput) -> bool:
        """Whether the CLI answers something more after this; if not, nothing more is taken."""
        taken = result.user_message_uuids
        self._unread = set() if taken is None else self._unread.difference(taken)
        if not result.is_error and (self._unread or said.has_text):
            return True
        said.close()
        return False

    async def _pass_on(self, said: ConversationInput) -> None:
        while True:
            text = await said.next_text()
            try:
                await self._say(text)
            except CLIConnectionError:  # it has ended, as the reader of its messages sees too
                return

    async def _say(self, text: str, files: tuple[PromptFile, ...] = ()) -> None:
        """Hand the CLI a message of the person's, by a name that its result repeats."""
        name = str(uuid4())
        self._unread.add(name)
        message = {
            "type": "user",
            "message": {"role": "user", "content": _content(text, files)},
            "parent_tool_use_id": None,
            "uuid": name,
        }

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._client.query(messages())

    async def _bound(self, answer: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await answer
        except Exception as error:  # the SDK also raises bare ones
            if asyncio.get_running_loop().time() >= self._deadline:
                raise AgentFailedError("the agent ran out of time and was ended") from error
            raise AgentFailedError(f"the agent's process failed: {error}") from error


def _content(text: str, files: tuple[PromptFile, ...]) -> str | list[dict[str, Any]]:
    """The message as the Messages API has it."""
    if not files:
        return text
    blocks: list[dict[str, Any]] = [
        {
            "type": "image" if file.media_type.startswith("image/") else "document",
            "source": {
                "type": "base64",
                "media_type": file.media_type,
                "data": base64.b64encode(file.data).decode(),
            },
        }
        for file in files
    ]
    return [*blocks, {"type": "text", "text": text}]


_GRACE_S = 2.0
# which hosts it may reach, our proxy decides, and no server of Anthropic's
_NO_PREFLIGHT = {"skipWebFetchPreflight": True}
# the CLI deletes older transcripts, whose sessions then cannot be resumed
_KEEP_TRANSCRIPTS = {"cleanupPeriodDays": 36_500}
# the prompt of this run holds, not the one that the session began with
_FRESH_PROMPT = {"system-prompt-snapshot": "off"}


class _SessionLostError(AgentFailedError):
    """The CLI does not know the session that was to be resumed."""


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
        self._running: set[AgentTransport] = set()
        for left_by_a_crash in settings.folder.glob("prompt-*"):
            left_by_a_crash.unlink(missing_ok=True)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        deadline = asyncio.get_running_loop().time() + job.limits.timeout_s
        session = job.session_id if job.session_id and is_session_id(job.session_id) else None
        if session and job.native is None:
            known = await asyncio.to_thread(has_transcript, self._home, session)
            session = session if known else None
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

    async def close(self) -> None:
        await asyncio.gather(*(transport.close() for transport in self._running))

    async def _attempt(
        self, job: Job, session: str | None, deadline: float
    ) -> AsyncGenerator[Step, None]:
        """One go.

        The account comes last, when all that the run cost has been counted, and then what it failed
        of.
        """
        toolbox = Toolbox(job.tools, job.native, job.ended)
        account, failure = None, None
        try:
            async with (
                self._surround(job, self._make_options(job, toolbox, session), deadline) as around,
                aclosing(self._converse(job, around, session, deadline)) as steps,
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
        self, job: Job, around: RunEnvironment, session: str | None, deadline: float
    ) -> AsyncGenerator[Step, None]:
        resumed = session if around.session in {None, session} else None
        transcript = Transcript(
            job.limits,
            await asyncio.to_thread(load_spent, self._home, session)
            if session
            else TranscriptUsage(),
            is_conversation=job.conversation is not None,
            resumed=resumed,
        )
        transport = around.transport
        self._running.add(transport)
        try:
            async with Conversation(transport, around.options, deadline) as conversation:
                before = "" if resumed or not job.history else f"{job.history}\n\n"
                await conversation.begin(before + job.prompt, job.files)
                transcript.asked = True
                async for message in conversation.messages(job.conversation):
                    for step in transcript.read(message):
                        if transcript.ended:
                            transport.allow_grace(_GRACE_S)
                        yield step
        except AgentFailedError as error:
            if session and not transcript.answered and isinstance(error.__cause__, ResultError):
                raise _SessionLostError from error
            if not isinstance(error, AgentUnavailableError):
                for step in transcript.account_unfinished():
                    yield step
            if not transcript.ended and transcript.interruption is not None:
                raise transcript.interruption from error
            raise
        finally:
            self._running.discard(transport)

    def _surround(
        self, job: Job, options: ClaudeAgentOptions, deadline: float
    ) -> AbstractAsyncContextManager[RunEnvironment]:
        if job.native is None:
            return self._surroundings.on_host(job, options)
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
            mcp_servers={SERVER: toolbox.server},
            allowed_tools=[*toolbox.names, *toolbox.native],
            permission_mode="dontAsk",
            hooks={
                "PreToolUse": [
                    HookMatcher(hooks=[toolbox.gate], timeout=patience, on_failure="block")
                ],
                "PostToolUse": look_after,
                "PostToolUseFailure": look_after,
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
