"""Agent run: one run of one agent, from what it is told to what came of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from parachuted.access.authority import Authority, pass_on
from parachuted.access.grant import Grant
from parachuted.access.origin import UNTRUSTED, Origin, Taint
from parachuted.access.quoted import QuotedPaths
from parachuted.agents import Job, Tool
from parachuted.agents.active_runs import ActiveRun
from parachuted.audit.events import AuditCaller
from parachuted.errors import NotFoundError, ParachuteError, StorageFailedError
from parachuted.history.run_account import RunAccount
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks, replaced_text, saw_source
from parachuted.runs.agent_parts import AgentParts, SandboxedRun
from parachuted.runs.agent_tools import DeclaredTool, NoteTools, module_tools
from parachuted.runs.bounded_vault import BoundedVault, VaultParts
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.current_run import CurrentRun
from parachuted.runs.lifecycle import RunLifecycle
from parachuted.runs.run_audit import RunAudit
from parachuted.runs.run_guard import RunGuard, SuggestionForwarder
from parachuted.runs.run_request import RunReport, RunRequest
from parachuted.runs.skills import Skill, SkillFolder, find_skills_of, listed, skill_tool
from parachuted.suggestions import Proposal, SuggestingRun, Suggestion, Suggestions, suggestion_tool
from parachuted.suggestions.orchestrating import Orchestrator, OrchestratorScope
from parachuted.suggestions.tool import ProposalSink
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import Author, VaultRoot, WriteResult, digest_of, new_id, printable

log = logging.getLogger(__name__)

_LONGEST_CONTEXT = 64_000
_CONTEXT_FILES = ("AGENTS.md", "CLAUDE.md")
_IN_A_BOX = """
You work in a container. /vault is your own copy of the notes that you may see; what you change in it is taken over into the vault after
each of your tool calls, as far as you may write there. What may not be is put back, and you are told. Nothing else that you make there
outlasts this run.
"""  # noqa: E501


class AgentRun:
    """`prepare` puts together what the agent is told and its tools; `ran` says what came of it."""

    account: RunAccount
    audit: RunAudit
    job: Job
    cancelled = "it was ended, because its caller no longer waits"

    def __init__(
        self,
        parts: AgentParts,
        vault: VaultParts,
        lifecycle: RunLifecycle,
        order: RunRequest,
        grant: Grant,
        lost: str | None = None,
    ) -> None:
        """`lost` says what it asked for and cannot have here."""
        self.order, self.grant = order, grant
        self._parts, self._definition, self._lifecycle = parts, order.definition, lifecycle
        self._words = ""
        now, one = parts.clock(), order.definition
        self.id = new_id("r", now)
        self.task = Task(
            id=new_id("t", now),
            watcher=one.watcher,
            state="running",
            causes=order.authority.causes_at(now),
            parents=order.authority.runs,
            first_at=now,
            last_at=now,
            due_at=now,
            run=self.id,
        )
        self._lost = lost
        self.taint = Taint()
        pass_on(
            order.authority.taint, self.taint
        )  # what whoever asks has read, the prompt may hold
        self._has_ended = False
        self.suggested: list[str] = []
        self._written: list[WriteResult] = []
        self._author = Author(
            by=f"module:{one.name}" if one.module else f"agent:{one.name}",
            run=self.id,
            causes=self.task.causes,
        )
        self._bounds = ModuleBounds.of_agent(one.who, grant)
        self._forward = self._forwarding()
        self._watching = RunGuard(
            run=self.id,
            session=order.session,
            grant=grant,
            taint=self.taint,
            origins=parts.origins,
            permissions=parts.permissions,
            put_forward=self._forward,
        )
        self._vault = BoundedVault(
            vault,
            self._bounds,
            lambda: self._author,
            AuditCaller("agent", one.name, ""),
            wrote=self._written.append,
            run=self._watching,
            authority=self.authority,
        )
        self._root = vault.root
        cause = {
            "id": self.task.causes[0],
            "root": None,
            "depth": 1 + len(self.task.parents),
            "actor": one.name,
            "run": self.id,
        }
        self._hooks = AgentHooks(
            asker=parts.asker,
            clock=parts.clock,
            vault=vault.root.folder,
            session_id=self.id,
            agent=one.name,
            module=one.module,
            cwd=vault.root.folder / order.folder if order.folder else None,
            cause={**cause, "chain": list(self.task.causes)},
            publish=parts.bus.publish,
            saw=lambda source: saw_source(source, vault.store, parts.origins, self.taint),
            replaced=partial(replaced_text, vault.store),
        )

    def authority(self) -> Authority:
        """On whose behalf its tools work: that of whoever asked for the run, until it ends."""
        asked = self.order.authority
        return replace(
            asked,
            causes=self.task.causes,
            runs=(self.id,),
            taint=self.taint,
            within=CurrentRun(grant=self.grant),
            depth=asked.depth + 1,
            holds=lambda: not self._has_ended and asked.holds(),
        )

    @property
    def active(self) -> ActiveRun:
        """As it is listed while it works."""
        return ActiveRun(
            run=self.id,
            agent=self._definition.name,
            entry=self.order.entry,
            since=self.account.started,
            module=self._definition.module,
            may_go_on=self.order.authority.holds,
        )

    @property
    def session(self) -> str | None:
        """The session to go on with."""
        return self.account.cost.session_id if self.account.cost is not None else None

    async def prepare(self) -> None:
        """What the agent is told, and its tools.

        Raises ActRefusedError when a hook objects to that.
        """
        parts, order, now = self._parts, self.order, self._parts.clock()
        self.taint.read("the prompt", order.origin)
        if order.session is not None and parts.taints is not None:
            parts.taints.recall(order.session, self.taint)
        prompt = await self._hooks.prompt(order.prompt)
        skills = await find_skills_of(self._skill_places())
        one = self._definition
        self.audit = RunAudit(
            parts.audit,
            parts.clock,
            self.task,
            agent=one.name,
            backend=parts.backend.name,
            module=one.module or one.name,
        )
        system = (
            one.system_prompt
            + (f"\n{listed(skills, self.taint)}\n" if skills else "")
            + await self._told_of_folder()
        )
        system += f"\nNow {self._lost}.\n" if self._lost is not None else ""
        system += _IN_A_BOX if self.grant.needs_container else ""
        self.account = RunAccount(
            task=self.task,
            backend=parts.backend.name,
            model=one.config.model or parts.model,
            started=now,
            changes=(),
            prompt=prompt,
            written=self._written,
            agent=one.name,
            system_prompt=system,
            quoted=QuotedPaths(None),
        )
        self.job = Job(
            id=self.id,
            watcher=self.task.watcher,
            system_prompt=system,
            prompt=prompt,
            tools=self._hooks.tools(self.audit.tools(self._tools(skills))),
            limits=order.limits,
            changes=(),
            at=now,
            session_id=order.session,
            agent=one.name,
            causes=self.task.causes,
            model=one.config.model,
            ended=self._hooks.ended,
        )

    async def work(self) -> RunOutcome:
        """Do the job. What the agent did in its container is taken over before this ends."""
        if not self.grant.needs_container or self._parts.boxes is None:
            self._words = await self._follow(self.job)
        else:
            async with self._parts.boxes.open(self._boxed()) as opened:
                system = f"{self.job.system_prompt}\n{opened.told}"
                self._words = await self._follow(
                    replace(self.job, native=opened.native, system_prompt=system)
                )
        otherwise = "it answered, and changed nothing"  # its words are for whoever asked
        return self._hooks.outcome(self.account, otherwise, suggested=self.suggested)

    async def close(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Record the end; nothing is done on its behalf any more."""
        del error
        self._has_ended = True
        parts, asked = self._parts, self.order
        pass_on(self.taint, asked.authority.taint)  # what it has read, its answer may hold
        if parts.permissions is not None:
            parts.permissions.end_run(self.id)
        try:
            for session in {
                self.session,
                asked.session,
            }:  # a run that was ended tells of none, and may have gone on with one
                if parts.taints is not None and session is not None:
                    parts.taints.keep(session, self.taint, agent=self._definition.name)
            await run_uninterrupted(
                self._lifecycle.accounts.close, self.account, outcome, parts.clock()
            )
        except StorageFailedError as refused:  # it counts as begun, and the next start ends it
            log.warning(
                "the end of an agent's run could not be recorded",
                extra={"run": self.id, "error": refused.message},
            )
        return True

    def ran(self, outcome: RunOutcome) -> RunReport:
        """For whoever asked."""
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
        return await self._lifecycle.follow(job, self.account, self.audit, self._hooks)

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
            put_forward=self._forward,
            ask_host=self._watching.host,
            ask_command=self._watching.command,
        )

    def _forwarding(self) -> SuggestionForwarder | None:
        if self._parts.suggestions is None:
            return None
        return SuggestionForwarder(
            suggestions=self._parts.suggestions,
            agent=self._definition.name,
            session=self.order.session,
            run=self.id,
            causes=self.task.causes,
            taint=self.taint,
            told=self.suggested.append,
        )

    def _tools(self, skills: Sequence[Skill]) -> Sequence[Tool]:
        one, config = self._definition, self._definition.config
        notes = NoteTools(
            vault=self._vault,
            may_write=config.may_write and all(each.may_write for each in self.order.narrowing),
        )
        made = [
            *notes.tools(),
            *([skill_tool(skills, self.taint)] if skills else []),
            *(one.tools(self.taint) if one.tools else ()),
        ]
        if self._parts.suggestions is not None:
            made.append(self._suggest_tool(self._parts.suggestions, notes))
            made += self._orchestrating(self._parts.suggestions)
        if self._parts.call_tool is not None:
            taken = [tool.name for tool in made]
            made += module_tools(
                self._offered(), self.grant.tools, one.module or "", taken, self._call_tool
            )
        return made

    def _offered(self) -> Iterable[tuple[str, DeclaredTool]]:
        """The tools of modules; where the agent's interfaces are listed, its own module's and those
        of modules that provide one of them.
        """
        allowed, own = self.grant.interfaces, self._definition.module
        for module, spec in self._parts.tools():
            if (
                allowed is None
                or module == own
                or not set(allowed).isdisjoint(self._parts.standing(module).provides)
            ):
                yield module, spec

    async def _call_tool(self, module: str, tool: str, arguments: Mapping[str, object]) -> object:
        """A module acts with its own rights, but for a run that has read strangers' texts it writes
        no more than that run may.
        """
        if self._parts.call_tool is None:
            raise NotFoundError(f"there is no tool {tool} of a module {module}")
        authority = self.authority()
        if self.taint:
            authority = authority.narrowed(authority.reads, self.grant.lane)
        answer = await self._parts.call_tool(module, tool, arguments, authority)
        if not self._parts.standing(module).is_trusted:
            self.taint.read(f"an answer of {tool}, of the module {module}", "imported")
        return answer

    def _orchestrating(self, suggestions: ProposalSink) -> tuple[Tool, ...]:
        """For an agent that filters what others suggest: the tools for that, within its own
        grant.
        """
        if not self._definition.config.orchestrates or not isinstance(suggestions, Suggestions):
            return ()
        run = OrchestratorScope(
            agent=self._definition.name,
            sees=self.grant.may_read,
            writes=self.grant.may_write,
            lane=lambda path: self.grant.may_write(path, tainted=True),
            of=self._definition.config.orchestrates,
            run=self.id,
            causes=self.task.causes,
            origin=lambda: self.taint.origin,
            read=self.taint.read,
        )
        return Orchestrator(suggestions, run).tools()

    def _suggest_tool(self, suggestions: ProposalSink, notes: NoteTools) -> Tool:
        run = SuggestingRun(
            agent=self._definition.name,
            sees=lambda path: self.grant.may_read(path) or self.grant.may_write(path),
            session=self.order.session or "",
            run=self.id,
            causes=self.task.causes,
            origin=lambda: self.taint.origin,
            read=notes.read,
        )
        return suggestion_tool(_Heard(suggestions=suggestions, told=self.suggested.append), run)

    async def _told_of_folder(self) -> str:
        """What the context file of the folder that it works in says, for an agent that is to be
        told and may read it.
        """
        if not self._definition.config.load_cwd_claude_md or self.order.folder is None:
            return ""
        for name in _CONTEXT_FILES:
            path = f"{self.order.folder}/{name}"
            with contextlib.suppress(ParachuteError):
                text = (await self._vault.read(path))[:_LONGEST_CONTEXT]
                return f"\nOf the folder that you work in, {printable(path)} says:\n\n{text}\n"
        return ""

    def _origin_of_skill(self, folder: str, path: str, data: bytes) -> Origin:
        """Where that skill's text came from.

        What lies hidden in a folder came with its files, and no scan sees it.
        """
        origins = self._parts.origins
        if origins is None:
            return "you"
        found = origins.of_text(path, data)
        if found in UNTRUSTED or not folder or origins.is_trusted(path, digest_of(data)):
            return found
        return origins.of_folder(folder)

    def _skill_places(self) -> list[SkillFolder]:
        """Where this agent's skills are, the nearest first."""
        config, folder = self._definition.config, self.order.folder
        places = []
        if config.allow_workspace_skills:
            if folder and self._bounds.may_enter(folder):
                places.append(
                    SkillFolder(
                        root=self._root,
                        folder=folder,
                        origin=partial(self._origin_of_skill, folder),
                    )
                )
            places.append(SkillFolder(root=self._root, origin=partial(self._origin_of_skill, "")))
        if config.allow_user_skills:
            places.append(SkillFolder(root=VaultRoot(self._parts.user_home)))
        return places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """The suggestions, of which the run remembers its own."""

    suggestions: ProposalSink
    told: Callable[[str], None]

    async def propose(self, proposal: Proposal) -> Suggestion:
        """File one."""
        suggestion = await self.suggestions.propose(proposal)
        self.told(suggestion.id)
        return suggestion
