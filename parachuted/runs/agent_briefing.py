"""Agent briefing: builds what an agent is asked, told and given for one run: its prompt, its system
prompt, the files that go with it, and its tools.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from parachuted.access.run_records import QuotedPaths
from parachuted.agents import Job
from parachuted.context import ContextAssembly
from parachuted.errors import ParachuteError
from parachuted.history.run_account import RunAccount
from parachuted.runs.agent_toolset import AgentTools
from parachuted.runs.conversations import Attachments, load_attachments
from parachuted.runs.requested_run import RequestedRun
from parachuted.runs.skills import AgentSkills, Skill, listed
from parachuted.vault import printable

_LONGEST_CONTEXT = 64_000
_CONTEXT_FILES = ("AGENTS.md", "CLAUDE.md")
_IN_A_BOX = """
You work in a container. /vault is your own copy of the notes that you may see; what you change in it is taken over into the vault when you have
ended, as far as you may write there; what you may not write is proposed to the person or left out. Nothing else that you make there outlasts this run.
"""  # noqa: E501


class AgentBriefing:
    """`contexts` loads the context files of folders."""

    def __init__(
        self, skills: AgentSkills, tools: AgentTools, contexts: ContextAssembly | None = None
    ) -> None:
        self.skills, self.tools, self._contexts = skills, tools, contexts

    async def prepare(self, run: RequestedRun) -> None:
        """Give the run its account and its job. Raises ActRefusedError when a hook objects to the
        prompt.
        """
        request, services = run.request, run.services
        run.taint.read_words("the prompt", request.origin)
        if request.session is not None:
            run.guards.recall(request.session, run.taint)
        prompt = await self._prompt(run)
        skills = await self.skills.find(request.definition.config, request.scope.folder, run.bounds)
        if (named := request.scope.narrowing.skills) is not None:
            skills = tuple(skill for skill in skills if skill.name in named)
        system = await self._system_prompt(run, skills)
        attached = await self._attachments(run)
        tools = await self.tools.of_run(run, skills)
        now, model = services.clock(), request.definition.config.model
        run.account = RunAccount(
            task=run.task,
            backend=services.backend.name,
            model=model or services.model,
            started=now,
            changes=(),
            prompt=prompt,
            written=run.written,
            agent=run.agent,
            system_prompt=system,
            quoted=QuotedPaths(None),
        )
        conversation = request.conversation
        run.job = Job(
            id=run.id,
            watcher=run.task.watcher,
            system_prompt=system,
            prompt=f"{attached.words}{prompt}",
            tools=run.hooks.tools(run.audit.tools(tools)),
            limits=request.budget.limits,
            changes=(),
            at=now,
            session_id=request.session,
            agent=run.agent,
            causes=run.task.causes,
            model=model,
            ended=run.hooks.ended,
            compacting=run.compacting,
            conversation=conversation.input if conversation is not None else None,
            files=attached.files,
            history=request.options.history,
            pool=request.budget.pool,
            hold=partial(services.active_runs.hold, run.active) if conversation else None,
            grant=run.grant,
        )

    async def _prompt(self, run: RequestedRun) -> str:
        """The prompt with what hooks add. Raises ActRefusedError."""
        request = run.request
        if request.conversation is None:
            return await run.hooks.prompt(request.prompt)
        source = run.sessions.start_of(request.session and run.talks_in)
        context = () if source is None else await run.hooks.session_started(source)
        prompt = await run.hooks.prompt(request.prompt, source="user")
        return "\n\n".join(filter(None, [request.options.context.rstrip(), prompt, *context]))

    async def _system_prompt(self, run: RequestedRun, skills: Sequence[Skill]) -> str:
        return "".join(
            [
                run.request.definition.system_prompt,
                f"\n{listed(skills, run.taint)}\n" if skills else "",
                await self._folder_context(run),
                await self._conversation_context(run),
                f"\nNow {run.missing}.\n" if run.missing is not None else "",
                _IN_A_BOX if run.grant.needs_container else "",
            ]
        )

    async def _folder_context(self, run: RequestedRun) -> str:
        """What the context file of the folder that it works in says, for an agent that is given it
        and may read it.
        """
        folder = run.request.scope.folder
        if not run.request.definition.config.load_cwd_claude_md or folder is None:
            return ""
        for name in _CONTEXT_FILES:
            path = f"{folder}/{name}"
            if not run.grant.may_read(path):  # what the agent did not ask for asks no person
                continue
            with contextlib.suppress(ParachuteError):
                text = (await run.vault.read(path))[:_LONGEST_CONTEXT]
                return f"\nOf the folder that you work in, {printable(path)} says:\n\n{text}\n"
        return ""

    async def _conversation_context(self, run: RequestedRun) -> str:
        """The context files of the folders that the conversation is about, as far as the agent may
        read them.
        """
        folders = run.request.options.context_folders
        if not folders or self._contexts is None:
            return ""
        loaded = await self._contexts.load(folders, sees=run.bounds.may_read, read=run.vault.read)
        return f"\n{loaded.text}" if loaded.text else ""

    async def _attachments(self, run: RequestedRun) -> Attachments:
        """The files that go with the prompt, as far as the agent may read them."""
        paths = run.request.options.attachments
        if paths:
            run.tell_follower()  # who follows it answers what reading them asks
        return await load_attachments(paths, run.vault.read_bytes)
