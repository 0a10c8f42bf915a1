"""Agent run: one run of one agent, from its prompt and tools to what came of it."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from functools import partial

from parachuted.access.authority import Authority, pass_on
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.access.run_records import QuotedPaths
from parachuted.agents import (
    CompactionAnswer,
    Job,
    PermissionStep,
    QuestionStep,
    SessionStep,
    Step,
    TextDelta,
    TextStep,
    UsageStep,
)
from parachuted.agents.active_runs import ActiveRun
from parachuted.agents.permission import PendingPermission
from parachuted.context import ContextAssembly
from parachuted.errors import ParachuteError, PathRefusedError, StorageFailedError
from parachuted.history.run_account import RunAccount
from parachuted.keys import AccessGrant
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import RunHooks
from parachuted.runs.agent_sandboxes import SandboxedRun, SandboxProvider
from parachuted.runs.agent_tools import ModuleTools, ServerTools
from parachuted.runs.agent_toolset import AgentToolset
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.conversations import Attachments, load_attachments
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.runs.lifecycle import RunAudit, RunLifecycle
from parachuted.runs.run_guard import RunGuards
from parachuted.runs.run_request import CurrentRun, RunReport, RunRequest
from parachuted.runs.skills import AgentSkills, listed
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import Author, VaultPath, WriteResult, new_id, printable

log = logging.getLogger(__name__)

_LONGEST_CONTEXT = 64_000
_ASKED = {
    "read": ("Read", "path"),
    "write": ("Write", "path"),
    "bash": ("Bash", "command"),
    "network": ("WebFetch", "host"),
    "trusted": ("Agent", "name"),
}
_NEARLY_FULL = 160_000  # tokens: 80 % of the window that models have at least
_CONTEXT_FILES = ("AGENTS.md", "CLAUDE.md")
_IN_A_BOX = """
You work in a container. /vault is your own copy of the notes that you may see; what you change in it is taken over into the vault when you have
ended, as far as you may write there; what you may not write is proposed to the person or left out. Nothing else that you make there outlasts this run.
"""  # noqa: E501


class PreparedAgentRun:
    """`prepare` puts together the agent's prompt and its tools; `ran` says what came of it."""

    account: RunAccount
    audit: RunAudit
    job: Job
    _toolset: AgentToolset
    cancelled = "it was ended, because its caller no longer waits"

    def __init__(  # noqa: PLR0913  all that a run is made with
        self,
        order: RunRequest,
        grant: Grant,
        lost: str | None = None,
        *,
        lifecycle: RunLifecycle,
        vaults: GrantedVaults,
        hooks: RunHooks,
        guards: RunGuards,
        skills: AgentSkills,
        contexts: ContextAssembly | None,
        modules: ModuleTools,
        boxes: SandboxProvider | None,
        servers: ServerTools | None = None,
    ) -> None:
        """`lost` says what it asked for and cannot have here."""
        self.order, self.grant = order, grant
        self._definition, self._lifecycle, self._guards = order.definition, lifecycle, guards
        self._skills, self._contexts, self._boxes = skills, contexts, boxes
        self._modules, self._servers = modules, servers
        self._words, self._is_nearly_full = "", False
        self._talks_in = order.conversation_id or order.session or ""
        self._sessions = hooks.sessions
        now, one = lifecycle.clock(), order.definition
        self.id = new_id("r", now)
        self.task = order.task(self.id, now)
        self._lost = lost
        self.taint = Taint()
        pass_on(order.authority.taint, self.taint)  # the prompt may hold what the caller has read
        self._has_ended = False
        self.suggested: list[str] = []
        self._written: list[WriteResult] = []
        self._author = _author_of(self.task, order)
        self._within = CurrentRun(
            grant=grant, asker=order.authority, module=one.module, may_write=order.may_write
        )
        self._bounds = ModuleBounds.of_agent(one.who, grant)
        self._guard = guards.of_run(
            self.id,
            session=order.session,
            grant=grant,
            taint=self.taint,
            causes=self.task.causes,
            suggested=self.suggested.append,
            opened=self._permission_asked if order.conversation is not None else None,
        )
        self._vault = vaults.of_run(
            self._bounds,
            self._author,
            run=self._guard,
            authority=self.authority,
            wrote=self._written.append,
        )
        self._hooks = replace(
            hooks.of_run(
                self.id,
                agent=one.name,
                cause=_cause_of(self.task, one.name),
                taint=self.taint,
                module=one.module,
                folder=order.folder or _folder_of(order.conversation_folder),
                authority=self._lent,
            ),
            conversation_id=order.conversation_id,
        )

    def authority(self) -> Authority:
        """On whose behalf its tools work: the caller's, until the run ends."""
        asked = self.order.authority
        return replace(
            asked,
            causes=self.task.causes,
            runs=(self.id,),
            taint=self.taint,
            within=self._within,
            call=None,
            depth=asked.depth + 1,
            holds=lambda: not self._has_ended and asked.holds(),
        )

    def _lent(self) -> Authority:
        """What a module acts with that the run leads to: one that has read strangers' texts lends
        no more than it may write itself.
        """
        lent = self.authority()
        return lent.narrowed(lent.reads, self.grant.lane) if self.taint else lent

    def _lent_to_tool(self) -> Authority:
        return replace(self._lent(), within=replace(self._within, watch=self._guard))

    @property
    def active(self) -> ActiveRun:
        return ActiveRun(
            run=self.id,
            agent=self._definition.name,
            entry=self.order.entry,
            since=self.account.started,
            module=self._definition.module,
            may_go_on=self.order.authority.holds,
            reach=self._reach,
        )

    def _reach(self) -> tuple[AccessGrant, AccessGrant]:
        asked, grant = self.order.authority, self.grant
        writes = grant.lane if self.taint else grant.writes
        return grant.reads.both(asked.reads), writes.both(asked.writes)

    @property
    def session(self) -> str | None:
        return self.account.cost.session_id if self.account.cost is not None else None

    async def is_allowed(self) -> bool:
        """Whether a person allows it to begin; asked in the conversation, where there is one."""
        if self.order.conversation is not None and self.order.follower is not None:
            self.order.follower.began(self.id)  # who follows it sees the question, and answers it
        return await self._guard.may_begin(self._definition.who)

    async def prepare(self) -> None:
        """The agent's prompt, and its tools.

        Raises ActRefusedError when a hook objects to that.
        """
        order, now = self.order, self._lifecycle.clock()
        self.taint.read_words("the prompt", order.origin)
        if order.session is not None:
            self._guards.recall(order.session, self.taint)
        prompt = await self._prompt()
        skills = await self._skills.find(self._definition.config, order.folder, self._bounds)
        if (named := order.limit.skills) is not None:
            skills = tuple(one for one in skills if one.name in named)
        one = self._definition
        self.audit = self._lifecycle.audit_of(
            self.task, agent=one.name, module=one.module or one.name
        )
        system = (
            one.system_prompt
            + (f"\n{listed(skills, self.taint)}\n" if skills else "")
            + await self._told_of_folder()
            + await self._told_of_context()
        )
        system += f"\nNow {self._lost}.\n" if self._lost is not None else ""
        system += _IN_A_BOX if self.grant.needs_container else ""
        self.account = RunAccount(
            task=self.task,
            backend=self._lifecycle.backend.name,
            model=one.config.model or self._lifecycle.model,
            started=now,
            changes=(),
            prompt=prompt,
            written=self._written,
            agent=one.name,
            system_prompt=system,
            quoted=QuotedPaths(None),
        )
        attached = await self._attached()
        self._toolset = self._make_toolset()
        tools = await self._toolset.make(skills)
        self.job = Job(
            id=self.id,
            watcher=self.task.watcher,
            system_prompt=system,
            prompt=f"{attached.words}{prompt}",
            tools=self._hooks.tools(self.audit.tools(tools)),
            limits=order.limits,
            changes=(),
            at=now,
            session_id=order.session,
            agent=one.name,
            causes=self.task.causes,
            model=one.config.model,
            ended=self._hooks.ended,
            compacting=self._compacting,
            conversation=order.conversation,
            files=attached.files,
            history=order.history,
            pool=order.pool,
            hold=partial(self._lifecycle.hold, self.active) if order.conversation else None,
            grant=self.grant,
        )

    async def work(self) -> RunOutcome:
        """Do the job. What the agent did in its container is taken over before this ends."""
        if not self.grant.needs_container or self._boxes is None:
            self._words = await self._follow(self.job)
        else:
            async with self._boxes.open(self._boxed()) as opened:
                system = f"{self.job.system_prompt}\n{opened.prompt}"
                self._words = await self._follow(
                    replace(self.job, native=opened.native, system_prompt=system)
                )
        otherwise = "it answered, and changed nothing"  # its words are for the caller
        return self._hooks.outcome(self.account, otherwise, suggested=self.suggested)

    async def close(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Record the end; nothing is done on its behalf any more."""
        del error
        asked, self._has_ended = self.order, True
        await self._toolset.close()
        if asked.conversation is not None:
            asked.conversation.close()
            talked_in = self._talks_in or self.session
            if talked_in:
                self._sessions.ended_turn(talked_in, self.id, self.account.started)
        pass_on(self.taint, asked.authority.taint)  # what it has read, its answer may hold
        # a run that was ended tells of no session, and may have gone on with one
        sessions = list(dict.fromkeys(filter(None, (self.session, asked.session))))
        try:
            self._guards.end(self.id, sessions, self.taint, self._definition.name)
            await run_uninterrupted(
                self._lifecycle.accounts.close, self.account, outcome, self._lifecycle.clock()
            )
        except StorageFailedError as refused:  # it counts as started, and the next start ends it
            log.warning(
                "the end of an agent's run could not be recorded",
                extra={"run": self.id, "error": refused.message},
            )
        return True

    def ran(self, outcome: RunOutcome) -> RunReport:
        return RunReport(
            words=self._words,
            run=self.id,
            outcome=outcome,
            cost=self.account.cost,
            session=self.session,
            suggested=tuple(self.suggested),
            warning=self._lost,
        )

    async def _follow(self, job: Job) -> str:
        return await self._lifecycle.follow(
            job, self.account, self.audit, self._hooks, self._stepped
        )

    def _stepped(self, step: Step) -> None:
        """What it has read may be in the step, so who follows it knows that first."""
        if isinstance(step, SessionStep):
            self._talks_in = self.order.conversation_id or step.session_id
        elif isinstance(step, UsageStep):
            self._approach(step.context_tokens)
        elif isinstance(step, QuestionStep | PermissionStep):
            self._sessions.notify(self._talks_in, self._definition.name, step)
        if self.order.follower is not None:
            pass_on(self.taint, self.order.authority.taint)
            self.order.follower.stepped(step)

    def _approach(self, tokens: int) -> None:
        """Publish once that the context is nearly full, where it is."""
        if tokens >= _NEARLY_FULL and not self._is_nearly_full and self._talks_in:
            self._is_nearly_full = True
            self._sessions.approach(self._talks_in, tokens, _NEARLY_FULL)

    async def _compacting(self, trigger: str, instructions: str | None) -> CompactionAnswer:
        """What hooks say of it. One long message can fill the rest of the window at once, so that
        no usage has told before that it is nearly full.
        """
        if trigger == "auto":
            self._approach(_NEARLY_FULL)
        return await self._hooks.compacting(trigger, instructions)

    def _permission_asked(self, question: PendingPermission) -> None:
        """A person who follows the conversation may answer there, too."""
        said = self.order.conversation
        if said is None:
            return
        said.expect(question.id, lambda value: self._guards.answer(question, value))
        tool, argument = _ASKED[question.request.kind]
        self._stepped(
            PermissionStep(
                id=question.id,
                tool=tool,
                arguments={argument: question.request.what},
                patterns=question.patterns,
            )
        )

    def _make_toolset(self) -> AgentToolset:
        return AgentToolset(
            order=self.order,
            task=self.task,
            grant=self.grant,
            taint=self.taint,
            authority=self._lent_to_tool,
            vault=self._vault,
            modules=self._modules,
            servers=self._servers,
            suggestions=self._guards.suggestions,
            suggested=self.suggested,
            stepped=self._stepped,
            answer_s=self._guards.answer_s,
        )

    def _say(self, words: str) -> None:
        """After the agent's last words: what became of its work."""
        self._words = "\n\n".join(filter(None, [self._words, words]))
        self._stepped(TextDelta(text=f"\n\n{words}"))
        self._stepped(TextStep(text=words))

    def _boxed(self) -> SandboxedRun:
        return SandboxedRun(
            run=self.id,
            agent=self._definition.name,
            grant=self.grant,
            author=self._author,
            taint=self.taint,
            audit=self.audit,
            hooks=self._hooks,
            wrote=self._written.append,
            checked_in=self._say,
            put_forward=self._guard.put_forward,
            ask_host=self._guard.host,
            ask_command=self._guard.command,
            is_conversation=self.order.pool == "conversation",
        )

    async def _prompt(self) -> str:
        """The prompt with what hooks add. Raises ActRefusedError."""
        order = self.order
        if order.conversation is None:
            return await self._hooks.prompt(order.prompt)
        source = self._sessions.start_of(order.session and self._talks_in)
        context = () if source is None else await self._hooks.session_started(source)
        prompt = await self._hooks.prompt(order.prompt, source="user")
        return "\n\n".join(filter(None, [order.context.rstrip(), prompt, *context]))

    async def _attached(self) -> Attachments:
        """The files that go with the prompt, as far as the agent may read them."""
        if self.order.attachments and self.order.follower is not None:
            self.order.follower.began(self.id)  # who follows it answers what reading them asks
        return await load_attachments(self.order.attachments, self._vault.read_bytes)

    async def _told_of_context(self) -> str:
        """The context files of the folders that the conversation is about, as far as the agent may
        read them.
        """
        folders = self.order.context_folders
        if not folders or self._contexts is None:
            return ""
        loaded = await self._contexts.load(
            folders, sees=self._bounds.may_read, read=self._vault.read
        )
        return f"\n{loaded.text}" if loaded.text else ""

    async def _told_of_folder(self) -> str:
        """What the context file of the folder that it works in says, for an agent that is to be
        told and may read it.
        """
        if not self._definition.config.load_cwd_claude_md or self.order.folder is None:
            return ""
        for name in _CONTEXT_FILES:
            path = f"{self.order.folder}/{name}"
            if not self.grant.may_read(path):  # what the agent did not ask for asks no person
                continue
            with contextlib.suppress(ParachuteError):
                text = (await self._vault.read(path))[:_LONGEST_CONTEXT]
                return f"\nOf the folder that you work in, {printable(path)} says:\n\n{text}\n"
        return ""


def _folder_of(name: str | None) -> str | None:
    """That folder of the vault; None: it is none, as the file of a session can say anything."""
    with contextlib.suppress(PathRefusedError):
        return name and str(VaultPath.parse(name.rstrip("/")))
    return None


def _author_of(task: Task, order: RunRequest) -> Author:
    one = order.definition
    return Author(
        by=f"module:{one.name}" if one.module else f"agent:{one.name}",
        run=task.run,
        causes=task.causes,
        key=order.authority.caller if order.authority.is_limited else "",
    )


def _cause_of(task: Task, agent: str) -> dict[str, object]:
    return {
        "id": task.causes[0],
        "root": None,
        "depth": 1 + len(task.parents),
        "actor": agent,
        "run": task.run,
        "chain": list(task.causes),
    }
