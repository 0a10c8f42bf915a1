"""Requested run: a run of a module's agent, of a conversation's, or of one of the daemon's own: on
whose behalf it works, what follows its steps, and what its end settles.
"""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from parachuted.access.authority import Authority, pass_on
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.agents import (
    CompactionAnswer,
    NativeTools,
    PermissionStep,
    QuestionStep,
    SessionStep,
    Step,
    TextDelta,
    TextStep,
    UsageStep,
)
from parachuted.agents.active_runs import Reach
from parachuted.agents.permission import PendingPermission
from parachuted.errors import StorageFailedError
from parachuted.hooks import cause_data
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks, RunHooks
from parachuted.runs.agent_tools import ServerToolCalls
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.runs.run import Run, RunServices
from parachuted.runs.run_guard import RunGuards
from parachuted.runs.run_request import CurrentRun, RunReport, RunRequest
from parachuted.tasks import RunOutcome
from parachuted.vault import Author, WriteResult, new_id

log = logging.getLogger(__name__)

_ASKED = {
    "read": ("Read", "path"),
    "write": ("Write", "path"),
    "bash": ("Bash", "command"),
    "network": ("WebFetch", "host"),
    "trusted": ("Agent", "name"),
}
_NEARLY_FULL = 160_000  # tokens: 80 % of the window that models have at least


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSandbox:
    """A run's container. `prompt` is what the system prompt says of what is in it."""

    native: NativeTools
    prompt: str


class SandboxProvider(Protocol):
    """Gives runs their containers."""

    async def problem(self) -> str | None:
        """Why no container can be had here, and what to install or do; None: one can."""
        ...

    def open(self, run: RequestedRun) -> AbstractAsyncContextManager[OpenedSandbox]:
        """The run's private copy of what it was granted, and the CLI's own tools over it.

        What it made is checked in when this is left without an error, once no container works in
        it any more, and dropped with one. Raises AgentUnavailableError.
        """
        ...


class RequestedRun(Run):
    """One run of an agent that was asked for. An `AgentBriefing` prepares it.

    `missing` is what the agent asked for and cannot have here.
    """

    cancelled = "it was ended, because its caller no longer waits"
    missing: str | None = None
    server_calls: ServerToolCalls | None = None

    def __init__(
        self,
        request: RunRequest,
        grant: Grant,
        *,
        services: RunServices,
        vaults: GrantedVaults,
        hooks: RunHooks,
        guards: RunGuards,
        boxes: SandboxProvider | None,
    ) -> None:
        definition, options = request.definition, request.options
        now = services.clock()
        task = request.task(new_id("r", now), now)
        self.request, self.grant = request, grant
        self.entry, self.follower = request.entry, request.follower
        self.guards, self.sessions, self._boxes = guards, hooks.sessions, boxes
        self.taint = Taint()
        pass_on(request.authority.taint, self.taint)  # the prompt may hold what the caller has read
        self.written: list[WriteResult] = []
        self.suggested: list[str] = []
        self.talks_in = options.conversation_id or request.session or ""
        self._answer, self._has_ended, self._is_nearly_full = "", False, False
        self._within = CurrentRun(
            grant=grant,
            asker=request.authority,
            module=definition.module,
            may_write=request.may_write,
        )
        own_hooks = AgentHooks(
            shared=hooks,
            session_id=str(task.run),
            agent=definition.name,
            cause=cause_data(
                task.causes,
                actor=definition.name,
                run=task.run,
                depth=1 + len(task.parents),
            ),
            taint=self.taint,
            module=definition.module,
            folder=request.scope.folder or options.about_folder,
            authority=self._lent_authority,
            conversation_id=options.conversation_id,
        )
        super().__init__(services, own_hooks, task, agent=definition.name, module=definition.module)
        self.author = Author(
            by=f"module:{self.agent}" if self.module else f"agent:{self.agent}",
            run=self.id,
            causes=task.causes,
            key=request.authority.caller if request.authority.is_limited else "",
        )
        self.guard = guards.of_run(
            self.id,
            session=request.session,
            grant=grant,
            taint=self.taint,
            causes=task.causes,
            suggested=self.suggested.append,
            opened=self._ask_permission if request.conversation is not None else None,
        )
        self.bounds = ModuleBounds.of_agent(definition.who, grant)
        self.vault = vaults.of_run(
            self.bounds,
            self.author,
            run=self.guard,
            authority=self.authority,
            wrote=self.written.append,
        )

    def authority(self) -> Authority:
        """On whose behalf its tools work: the caller's, until the run ends."""
        asked = self.request.authority
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

    def _lent_authority(self) -> Authority:
        """What a module acts with that the run leads to: one that has read strangers' texts lends
        no more than it may write itself.
        """
        own = self.authority()
        return own.narrowed(own.reads, self.grant.lane) if self.taint else own

    def tool_authority(self) -> Authority:
        """The same for a module whose tool it calls."""
        return replace(self._lent_authority(), within=replace(self._within, watch=self.guard))

    def reach(self) -> Reach:
        asked, grant = self.request.authority, self.grant
        writes = grant.lane if self.taint else grant.writes
        return grant.reads.both(asked.reads), writes.both(asked.writes)

    def may_go_on(self) -> bool:
        return self.request.authority.holds()

    async def may_begin(self) -> bool:
        """Whether a person allows it to begin; asked in the conversation, where there is one."""
        if self.request.conversation is not None:
            self.tell_follower()  # who follows it sees the question, and answers it
        return await self.guard.may_begin(self.request.definition.who)

    async def work(self) -> RunOutcome:
        """Do the job. What the agent did in its container is taken over before this ends."""
        if not self.grant.needs_container or self._boxes is None:
            self._answer = await self.follow(self.job)
        else:
            async with self._boxes.open(self) as opened:
                system = f"{self.job.system_prompt}\n{opened.prompt}"
                self._answer = await self.follow(
                    replace(self.job, native=opened.native, system_prompt=system)
                )
        otherwise = "it answered, and changed nothing"  # its words are for the caller
        return self.hooks.outcome(self.account, otherwise, suggested=self.suggested)

    def add_words(self, words: str) -> None:
        """After the agent's last words: what became of its work."""
        self._answer = "\n\n".join(filter(None, [self._answer, words]))
        self.stepped(TextDelta(text=f"\n\n{words}"))
        self.stepped(TextStep(text=words))

    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Record the end; nothing is done on its behalf any more."""
        del error
        request, self._has_ended = self.request, True
        if self.server_calls is not None:
            await self.server_calls.close()
        if request.conversation is not None:
            request.conversation.input.close()
            if talked_in := self.talks_in or self.session:
                self.sessions.ended_turn(talked_in, self.id, self.account.started)
        pass_on(self.taint, request.authority.taint)  # what it has read, its answer may hold
        # a run that was ended tells of no session, and may have gone on with one
        sessions = list(dict.fromkeys(filter(None, (self.session, request.session))))
        try:
            self.guards.end(self.id, sessions, self.taint, self.agent)
            await run_uninterrupted(
                self.services.accounts.close, self.account, outcome, self.services.clock()
            )
        except StorageFailedError as refused:  # it counts as started, and the next start ends it
            log.warning(
                "the end of an agent's run could not be recorded",
                extra={"run": self.id, "error": refused.message},
            )
        return True

    def report(self, outcome: RunOutcome) -> RunReport:
        return RunReport(
            words=self._answer,
            run=self.id,
            outcome=outcome,
            cost=self.account.cost,
            session=self.session,
            suggested=tuple(self.suggested),
            warning=self.missing,
        )

    def stepped(self, step: Step) -> None:
        """What it has read may be in the step, so who follows it knows that first."""
        if isinstance(step, SessionStep):
            self.talks_in = self.request.options.conversation_id or step.session_id
        elif isinstance(step, UsageStep):
            self._approach(step.context_tokens)
        elif isinstance(step, QuestionStep | PermissionStep):
            self.sessions.notify(self.talks_in, self.agent, step)
        if self.follower is not None:
            pass_on(self.taint, self.request.authority.taint)
        super().stepped(step)

    def _approach(self, tokens: int) -> None:
        """Publish once that the context is nearly full, where it is."""
        if tokens >= _NEARLY_FULL and not self._is_nearly_full and self.talks_in:
            self._is_nearly_full = True
            self.sessions.approach(self.talks_in, tokens, _NEARLY_FULL)

    async def compacting(self, trigger: str, instructions: str | None) -> CompactionAnswer:
        """What hooks say of it. One long message can fill the rest of the window at once, so that
        no usage has told before that it is nearly full.
        """
        if trigger == "auto":
            self._approach(_NEARLY_FULL)
        return await self.hooks.compacting(trigger, instructions)

    def _ask_permission(self, question: PendingPermission) -> None:
        """A person who follows the conversation may answer there, too."""
        conversation = self.request.conversation
        if conversation is None:
            return
        conversation.input.expect(question.id, lambda value: self.guards.answer(question, value))
        tool, argument = _ASKED[question.request.kind]
        self.stepped(
            PermissionStep(
                id=question.id,
                tool=tool,
                arguments={argument: question.request.what},
                patterns=question.patterns,
            )
        )
