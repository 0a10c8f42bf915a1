"""The `claude` backend: the Claude Agent SDK with its bundled CLI, whose only tools are the job's."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultError

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.command import find_cli, make_command, make_environment
from parachuted.agents.claude.conversation import Conversation
from parachuted.agents.claude.process import AgentProcess
from parachuted.agents.claude.sessions import is_session_id, load_spent
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.claude.transcript import SERVER, Spent, Transcript
from parachuted.agents.job import Job, Step
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_GRACE_S = 2.0


class _SessionLostError(AgentFailedError):
    """The CLI does not know the session that was to be resumed."""


class ClaudeBackend:
    """Runs each job in a CLI process of its own."""

    name = "claude"

    def __init__(self, settings: ClaudeSettings) -> None:
        self._settings = settings
        # With no login found, the CLI may still know of one: on macOS it is in the user's keychain.
        has_own_home = settings.credential is not None or settings.base_url is not None
        self._home = settings.folder / "home" if has_own_home else settings.user_home
        self._running: set[AgentProcess] = set()
        for left_by_a_crash in settings.folder.glob("prompt-*"):
            left_by_a_crash.unlink(missing_ok=True)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        deadline = asyncio.get_running_loop().time() + job.limits.timeout_s
        session = job.session_id if job.session_id and is_session_id(job.session_id) else None
        try:
            async with aclosing(self._attempt(job, session, deadline)) as steps:
                async for step in steps:
                    yield step
        except _SessionLostError:
            log.info("the agent's earlier session is gone; a new one is begun", extra={"watcher": job.watcher})
            async with aclosing(self._attempt(job, None, deadline)) as steps:
                async for step in steps:
                    yield step

    async def close(self) -> None:
        await asyncio.gather(*(process.close() for process in self._running))

    async def _attempt(self, job: Job, session: str | None, deadline: float) -> AsyncGenerator[Step, None]:
        toolbox = Toolbox(job.tools)
        transcript = Transcript(job.limits, await asyncio.to_thread(load_spent, self._home, session) if session else Spent())
        with self._make_process(job, toolbox, session) as (process, options):
            try:
                async with Conversation(process, options, deadline) as conversation:
                    await conversation.begin(job.prompt)
                    transcript.asked = True
                    async for message in conversation.messages():
                        for step in transcript.read(message):
                            if transcript.ended:
                                process.allow_grace(_GRACE_S)
                            yield step
            except AgentFailedError as error:
                if session and not transcript.answered and isinstance(error.__cause__, ResultError):
                    raise _SessionLostError from error
                if not isinstance(error, AgentUnavailableError):
                    for step in transcript.account_unfinished():
                        yield step
                raise
        if toolbox.bug is not None:
            raise toolbox.bug

    @contextmanager
    def _make_process(self, job: Job, toolbox: Toolbox, session: str | None) -> Iterator[tuple[AgentProcess, ClaudeAgentOptions]]:
        settings = self._settings
        cwd = settings.folder / "work"
        try:
            for folder in (settings.folder, cwd, self._home):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AgentUnavailableError(f"the agent has no folder to work in: {error}") from error
        with tempfile.NamedTemporaryFile(
            "w", dir=settings.folder, prefix="prompt-", suffix=".md", encoding="utf-8", errors="replace"
        ) as file:
            file.write(job.system_prompt)
            file.flush()
            options = self._make_options(job, toolbox, session)
            env = make_environment(settings, self._home)
            process = AgentProcess(make_command(find_cli(settings.env), options, Path(file.name)), env=env, cwd=cwd)
            self._running.add(process)
            try:
                yield process, options
            finally:
                self._running.discard(process)

    def _make_options(self, job: Job, toolbox: Toolbox, session: str | None) -> ClaudeAgentOptions:
        return ClaudeAgentOptions(
            tools=[],
            setting_sources=[],
            strict_mcp_config=True,
            verbatim_prompts=True,
            mcp_servers={SERVER: toolbox.server},
            allowed_tools=toolbox.names,
            permission_mode="dontAsk",
            hooks={"PreToolUse": [HookMatcher(hooks=[toolbox.gate], on_failure="block")]},
            model=self._settings.model,
            max_turns=job.limits.max_turns,
            max_budget_usd=job.limits.max_cost_usd,
            resume=session,
        )
