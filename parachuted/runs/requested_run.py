"""Requested run: of a module's agent, a conversation's, or one of the daemon's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from parachuted.access.caller import Caller, CurrentRun
from parachuted.access.grant import CallerGrant, Grant
from parachuted.access.strangers import RunGuard, Taint, WishKind
from parachuted.agents.job import (
    AgentResult,
    PermissionStep,
    QuestionStep,
    SessionStep,
    Step,
    UsageStep,
)
from parachuted.agents.permission import Answer, PendingPermission, PermissionRequest
from parachuted.errors import ActRefusedError, StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_tools import ServerToolCalls
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run import Run, RunParts, RunSuggestions
from parachuted.runs.run_container import RunContainers
from parachuted.runs.run_request import RunRequest
from parachuted.suggestions import SuggestingRun
from parachuted.tasks import RunOutcome
from parachuted.vault import Author

log = logging.getLogger(__name__)

_CALLS = {  # as which tool with which argument a person who follows a conversation sees a request
    "read": ("Read", "path"),
    "write": ("Write", "path"),
    "bash": ("Bash", "command"),
    "network": ("WebFetch", "host"),
    "trusted": ("Agent", "name"),
}
_NEARLY_FULL = 160_000  # tokens: 80 % of the window that models have at least


class RequestedRun(Run):
    """`missing` is what it wanted and cannot have here."""

    cancelled = "it was ended, because its caller no longer waits"
    server_calls: ServerToolCalls | None = None

    def __init__(
        self,
        request: RunRequest,
        grant: Grant,
        parts: RunParts,
        containers: RunContainers,
        missing: str | None = None,
    ) -> None:
        definition, options, caller = request.definition, request.options, request.caller
        task, agent = request.task(parts.clock()), definition.name
        self.request, self._containers, self.missing = request, containers, missing
        self.entry, self.follower = request.entry, request.follower
        self.sessions = parts.sessions
        self.talks_in = options.conversation_id or request.session or ""
        self._has_ended, self._is_nearly_full = False, False
        self._within = CurrentRun(
            grant=grant, asker=caller, module=definition.module, may_write=request.may_write
        )
        taint = Taint()
        taint.read_by(caller.taint, "by who asked it")  # the prompt may hold it
        suggesting = SuggestingRun(
            agent=agent,
            sees=lambda path: grant.may_read(path) or grant.may_write(path),
            session=request.session or "",
            run=str(task.run),
            causes=task.causes,
            is_tainted=lambda: bool(taint),
        )
        self.suggestions = RunSuggestions(sink=parts.suggestions, run=suggesting)
        super().__init__(
            parts,
            task,
            Author(
                by=f"module:{agent}" if definition.module else f"agent:{agent}",
                run=str(task.run),
                causes=task.causes,
                key=caller.request.key if caller.grant.is_limited else "",
            ),
            RunGuard(
                grant=grant,
                taint=taint,
                ask=self._ask_person,
                put_forward=self.suggestions.put_forward,
            ),
            ModuleBounds.of_agent(definition.who, grant),
            session=options.conversation_id,
            folder=options.working_directory or options.conversation_folder,
        )

    def caller(self) -> Caller:
        """On whose behalf its tools work: the caller's, until the run ends."""
        caller = self.request.caller
        depth = caller.chain.depth + 1
        return replace(
            caller,
            causes=self.task.causes,
            taint=self.taint,
            chain=replace(caller.chain, run=self.id, within=self._within, depth=depth, call=None),
            request=replace(
                caller.request, is_valid=lambda: not self._has_ended and caller.request.is_valid()
            ),
        )

    def tool_caller(self) -> Caller:
        """Of modules' tools. Once the run has read strangers' text, it lends what it may still
        write.
        """
        own = self.caller()
        if self.taint:
            own = own.restricted_to(CallerGrant(writes=self.grant.tainted_writes))
        within = replace(self._within, watch=self.guard)
        return replace(own, chain=replace(own.chain, within=within))

    def reach(self) -> CallerGrant:
        grant = self.grant
        own = CallerGrant(grant.reads, grant.tainted_writes if self.taint else grant.writes)
        return own.both(self.request.caller.grant)

    def may_go_on(self) -> bool:
        return self.request.caller.request.is_valid()

    def hold(self, end: Callable[[], None]) -> Callable[[], None]:
        return self.parts.active_runs.hold(self.active, end)

    async def may_begin(self) -> bool:
        """Whether a person allows it to begin; asked in the conversation, where there is one."""
        if self.request.input is not None:
            self.tell_follower()  # who follows it sees the question, and answers it
        return await self.guard.may_begin(self.request.definition.who)

    async def work(self) -> RunOutcome:
        """What the agent did in its container is taken over before this ends."""
        if not self.grant.needs_container:
            await self.follow(self.job)
        else:
            async with self._containers.open(self) as job:
                await self.follow(job)
        otherwise = "it answered, and changed nothing"  # its words are for the caller
        return self.outcome(otherwise, suggested=self.suggestions.names)

    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Nothing is done on its behalf any more."""
        del error
        request, parts, self._has_ended = self.request, self.parts, True
        if self.server_calls is not None:
            await self.server_calls.close()
        if request.input is not None:
            request.input.close()
            if talked_in := self.talks_in or self.session:
                self.sessions.ended_turn(talked_in, self.id, self.account.started)
        self._taint_caller()
        # a run that was ended tells of no session, and may have gone on with one
        sessions = list(dict.fromkeys(filter(None, (self.session, request.session))))
        parts.permissions.end_run(self.id, next(iter(sessions), None))
        try:
            for session in sessions:
                parts.taints.keep(session, self.taint, agent=self.agent)
            await run_uninterrupted(parts.accounts.close, self.account, outcome, parts.clock())
        except StorageFailedError as refused:  # it counts as started, and the next start ends it
            log.warning(
                "the end of an agent's run could not be recorded",
                extra={"run": self.id, "error": refused.message},
            )
        return True

    def result(self, outcome: RunOutcome) -> AgentResult:
        cost = self.account.cost
        return AgentResult(
            text=self.answer,
            run_id=self.id,
            outcome=outcome.result,
            session_id=self.session,
            cost_usd=cost.cost_usd if cost is not None else 0.0,
            suggestions=tuple(self.suggestions.names),
            warning=self.missing,
        )

    def stepped(self, step: Step) -> None:
        """What it has read may be in the step, so who follows it knows that first."""
        if isinstance(step, SessionStep):
            self.talks_in = self.request.options.conversation_id or step.session_id
        elif isinstance(step, UsageStep):
            self._warn_when_full(step.context_tokens)
        elif isinstance(step, QuestionStep | PermissionStep):
            self.sessions.notify(self.talks_in, self.agent, step)
        if self.follower is not None:
            self._taint_caller()
        super().stepped(step)

    def _taint_caller(self) -> None:
        self.request.caller.taint.read_by(self.taint, f"an answer of {self.agent}")

    def _warn_when_full(self, tokens: int) -> None:
        if tokens >= _NEARLY_FULL and not self._is_nearly_full and self.talks_in:
            self._is_nearly_full = True
            self.parts.hooks.bus.publish(
                "context.limit.approaching",
                session_id=self.talks_in,
                token_count=tokens,
                threshold=_NEARLY_FULL,
            )

    async def _ask_person(self, kind: WishKind, what: str, why: str) -> bool:
        """A person who follows the conversation may answer there, too."""
        permissions, conversation_input = self.parts.permissions, self.request.input

        def answer(question: PendingPermission, value: object) -> bool:
            if value in ("allow", "deny"):
                allowed: Answer = "session" if question.kind == "trusted" else "once"
                permissions.answer(question.id, allowed if value == "allow" else "deny")
            elif isinstance(value, Mapping) and isinstance(value.get("pattern"), str):
                permissions.answer(question.id, "session", pattern=str(value["pattern"]))
            else:
                raise ActRefusedError(
                    'a permission request takes "allow", "deny" or {"pattern": ...}'
                )
            return True

        def show(question: PendingPermission) -> None:
            if conversation_input is None:
                return
            conversation_input.expect(question.id, partial(answer, question))
            tool, argument = _CALLS[question.kind]
            self.stepped(
                PermissionStep(
                    id=question.id,
                    tool=tool,
                    arguments={argument: question.what},
                    patterns=question.patterns,
                )
            )

        return await permissions.ask(
            run=self.id,
            session=self.request.session,
            agent=self.agent,
            request=PermissionRequest(kind=kind, what=what, why=why),
            wait_s=self.parts.answer_s if conversation_input is not None else None,
            opened=show,
        )
