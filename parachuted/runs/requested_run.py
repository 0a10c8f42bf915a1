"""Requested run: of a module's agent, a conversation's, or one of the daemon's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from parachuted.access.caller import Caller, CurrentRun
from parachuted.access.grant import CallerGrant, Grant
from parachuted.access.own_folders import OwnFolders
from parachuted.access.run_guard import RunGuard, WishKind
from parachuted.access.strangers import Taint
from parachuted.agents.job import (
    AgentResult,
    Job,
    PermissionStep,
    QuestionStep,
    RunFolder,
    RunSandbox,
    SessionStep,
    Step,
    TextDelta,
    TextStep,
    UsageStep,
)
from parachuted.agents.permission import PendingPermission, PermissionRequest
from parachuted.agents.sandbox.archive import ArchiveWriter
from parachuted.agents.sandbox.proxy import Proxy, open_proxy
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import StorageFailedError, storage_errors
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_tools import ServerToolCalls
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.checkout import Checkout, CheckoutResult
from parachuted.runs.outside_folders import OutsideCopies, copy_outside
from parachuted.runs.run import Run, RunParts
from parachuted.runs.run_guard import NativeGate, RunSuggestions
from parachuted.runs.run_request import RunRequest
from parachuted.suggestions import SuggestingRun
from parachuted.tasks import RunOutcome
from parachuted.vault import Author, Store, VaultIndex

log = logging.getLogger(__name__)

_ASKED = {
    "read": ("Read", "path"),
    "write": ("Write", "path"),
    "bash": ("Bash", "command"),
    "network": ("WebFetch", "host"),
    "trusted": ("Agent", "name"),
}
_NEARLY_FULL = 160_000  # tokens: 80 % of the window that models have at least
_MOST_TOLD = 20


class RequestedRun(Run):
    """`missing` is what it wanted and cannot have here."""

    cancelled = "it was ended, because its caller no longer waits"
    missing: str | None = None
    server_calls: ServerToolCalls | None = None

    def __init__(
        self,
        request: RunRequest,
        grant: Grant,
        parts: RunParts,
        boxes: AgentSandboxes | None = None,
    ) -> None:
        definition, options, caller = request.definition, request.options, request.caller
        task, agent = request.task(parts.clock()), definition.name
        self.request, self._boxes, self.sessions = request, boxes, parts.hooks.sessions
        self.entry, self.follower = request.entry, request.follower
        self.talks_in = options.conversation_id or request.session or ""
        self._answer, self._has_ended, self._is_nearly_full = "", False, False
        self._within = CurrentRun(
            grant=grant, asker=caller, module=definition.module, may_write=request.may_write
        )
        taint = Taint()
        taint.read_by(caller.taint, "by who asked it")  # the prompt may hold it
        self.suggestions: RunSuggestions | None = None
        if parts.guards.suggestions is not None:
            suggesting = SuggestingRun(
                agent=agent,
                sees=lambda path: grant.may_read(path) or grant.may_write(path),
                session=request.session or "",
                run=str(task.run),
                causes=task.causes,
                is_tainted=lambda: bool(taint),
            )
            self.suggestions = RunSuggestions(sink=parts.guards.suggestions, run=suggesting)
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
                put_forward=self.suggestions.put_forward if self.suggestions else None,
            ),
            ModuleBounds.of_agent(definition.who, grant),
            session=options.conversation_id,
            folder=options.folder or options.about_folder,
        )

    def caller(self) -> Caller:
        """On whose behalf its tools work: the caller's, until the run ends."""
        asked = self.request.caller

        def is_valid() -> bool:
            return not self._has_ended and asked.request.is_valid()

        depth = asked.chain.depth + 1
        return replace(
            asked,
            causes=self.task.causes,
            taint=self.taint,
            chain=replace(asked.chain, run=self.id, within=self._within, depth=depth, call=None),
            request=replace(asked.request, is_valid=is_valid),
        )

    def lent_caller(self) -> Caller:
        """Once it has read strangers' text, it lends what it may still write."""
        own = self.caller()
        return (
            own.restricted_to(CallerGrant(writes=self.grant.tainted_writes)) if self.taint else own
        )

    def tool_caller(self) -> Caller:
        lent, watched = self.lent_caller(), replace(self._within, watch=self.guard)
        return replace(lent, chain=replace(lent.chain, within=watched))

    def reach(self) -> CallerGrant:
        grant = self.grant
        own = CallerGrant(grant.reads, grant.tainted_writes if self.taint else grant.writes)
        return own.both(self.request.caller.grant)

    def may_go_on(self) -> bool:
        return self.request.caller.request.is_valid()

    async def may_begin(self) -> bool:
        """Whether a person allows it to begin; asked in the conversation, where there is one."""
        if self.request.input is not None:
            self.tell_follower()  # who follows it sees the question, and answers it
        return await self.guard.may_begin(self.request.definition.who)

    async def work(self) -> RunOutcome:
        """What the agent did in its container is taken over before this ends."""
        if not self.grant.needs_container or self._boxes is None:
            self._answer = await self.follow(self.job)
        else:
            async with self._boxes.open(self) as job:
                self._answer = await self.follow(job)
        otherwise = "it answered, and changed nothing"  # its words are for the caller
        return self.hooks.outcome(self.account, otherwise, suggested=self.suggested)

    @property
    def suggested(self) -> tuple[str, ...]:
        return tuple(self.suggestions.names) if self.suggestions is not None else ()

    def add_words(self, words: str) -> None:
        """After the agent's last words: what became of its work."""
        self._answer = "\n\n".join(filter(None, [self._answer, words]))
        self.stepped(TextDelta(text=f"\n\n{words}"))
        self.stepped(TextStep(text=words))

    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Nothing is done on its behalf any more."""
        del error
        request, self._has_ended = self.request, True
        if self.server_calls is not None:
            await self.server_calls.close()
        if request.input is not None:
            request.input.close()
            if talked_in := self.talks_in or self.session:
                self.sessions.ended_turn(talked_in, self.id, self.account.started)
        self._taint_caller()
        # a run that was ended tells of no session, and may have gone on with one
        sessions = list(dict.fromkeys(filter(None, (self.session, request.session))))
        try:
            self.parts.guards.end(self.id, sessions, self.taint, self.agent)
            await run_uninterrupted(
                self.parts.accounts.close, self.account, outcome, self.parts.clock()
            )
        except StorageFailedError as refused:  # it counts as started, and the next start ends it
            log.warning(
                "the end of an agent's run could not be recorded",
                extra={"run": self.id, "error": refused.message},
            )
        return True

    def result(self, outcome: RunOutcome) -> AgentResult:
        cost = self.account.cost
        return AgentResult(
            text=self._answer,
            run_id=self.id,
            outcome=outcome.result,
            session_id=self.session,
            cost_usd=cost.cost_usd if cost is not None else 0.0,
            suggestions=self.suggested,
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
            self._taint_caller()
        super().stepped(step)

    def _taint_caller(self) -> None:
        self.request.caller.taint.read_by(self.taint, f"an answer of {self.agent}")

    def _approach(self, tokens: int) -> None:
        if tokens >= _NEARLY_FULL and not self._is_nearly_full and self.talks_in:
            self._is_nearly_full = True
            self.sessions.approach(self.talks_in, tokens, _NEARLY_FULL)

    async def _ask_person(self, kind: WishKind, what: str, why: str) -> bool:
        is_conversation, guards = self.request.input is not None, self.parts.guards
        return guards.permissions is not None and await guards.permissions.ask(
            run=self.id,
            session=self.request.session,
            agent=self.agent,
            request=PermissionRequest(kind=kind, what=what, why=why),
            wait_s=guards.answer_s if is_conversation else None,
            opened=self._show_permission,
        )

    def _show_permission(self, question: PendingPermission) -> None:
        """A person who follows the conversation may answer there, too."""
        said = self.request.input
        if said is None:
            return
        said.expect(question.id, lambda value: self.parts.guards.answer(question, value))
        tool, argument = _ASKED[question.kind]
        arguments, patterns = {argument: question.what}, question.patterns
        step = PermissionStep(id=question.id, tool=tool, arguments=arguments, patterns=patterns)
        self.stepped(step)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSandboxes:
    sandboxes: Sandboxes
    store: Store
    index: VaultIndex
    user_home: Path
    private: tuple[Path, ...] = ()
    own_folders: OwnFolders | None = None

    async def problem(self) -> str | None:
        return (await self.sandboxes.status()).problem

    @asynccontextmanager
    async def open(self, run: RequestedRun) -> AsyncIterator[Job]:
        """The job over a private copy, which is checked in when this is left without an error."""
        config = run.grant.sandbox
        async with self.sandboxes.prepare() as folder:
            checkout = Checkout(
                run.vault.files,
                self.index,
                run.grant,
                run.guard,
                folder=folder,
                owner=self.sandboxes.user if config.workspace_access == "rw" else None,
                hook_refused=run.hooks.refused,
            )
            filled = await checkout.fill()
            outside = await run_uninterrupted(self._copy_outside, run, folder)
            sandbox = RunSandbox(config=config, folder=folder, network=run.grant.network)
            async with _open_network(run, folder.sockets) as proxy:
                gate = NativeGate(
                    guard=run.guard,
                    hooks=run.hooks,
                    record_call=run.audit.record_call,
                    cut_network=proxy.cut if proxy is not None else lambda: None,
                )
                system = f"{run.job.system_prompt}\n{_prompt_of(filled, outside)}"
                yield replace(run.job, native=gate.tools(sandbox), system_prompt=system)
            if words := (await checkout.check_in()).words():
                run.add_words(words)

    def _copy_outside(self, run: RequestedRun, folder: RunFolder) -> OutsideCopies:
        """What is not the person's own counts as read."""
        own = self.own_folders or OwnFolders((), self.user_home)
        with (
            storage_errors("folders beside the vault could not be copied"),
            closing(ArchiveWriter(folder.outside, None)) as into,
        ):
            copies = copy_outside(
                run.grant.outside,
                into,
                user_home=self.user_home,
                never=(self.store.root.folder, *self.private),
                own=own,
            )
        for path in copies.strange:
            run.taint.read(f"a copy of {path} ({own.advice(path.removesuffix('/**'))})")
        return copies


@asynccontextmanager
async def _open_network(run: RequestedRun, sockets: Path) -> AsyncIterator[Proxy | None]:
    """The filtering proxy. What a host answers is a stranger's text: after it there is no new
    connection, and of those that are open only the one that answered goes on, so that the answer
    comes whole.
    """
    grant, taint = run.grant, run.taint
    if grant.network in ("none", ()):
        yield None
        return

    async def decide(host: str, port: int, objection: str | None) -> str | None:
        if not taint and objection is not None:
            is_allowed = await run.guard.beyond("network", f"{host}:{port}")
            objection = None if is_allowed else f"{grant.agent} was not granted {host}:{port}"
        return f"{taint.why()}, so it may reach no network any more" if taint else objection

    def reached(host: str) -> None:
        taint.read(f"an answer of {host}")

    proxy = Proxy(grant.network, decide=decide, reached=reached)
    loop = asyncio.get_running_loop()
    taint.at_first(lambda: loop.call_soon_threadsafe(partial(proxy.cut, but_answered=True)))
    async with open_proxy(sockets, proxy):
        yield proxy


def _prompt_of(filled: CheckoutResult, outside: OutsideCopies) -> str:
    lines = [f"Your copy has {filled.files} files."]
    lines += [f"/outside/{name} is a copy of {path}, to read." for path, name in outside.copied]
    left_out = [*filled.left_out, *outside.left_out]
    lines += ["Left out of it:"] if left_out else []
    lines += [f"- {path}: {why}" for path, why in left_out[:_MOST_TOLD]]
    lines += [f"- and {len(left_out) - _MOST_TOLD} more"] if left_out[_MOST_TOLD:] else []
    return "\n".join(lines) + "\n"
