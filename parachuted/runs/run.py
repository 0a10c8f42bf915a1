"""Run: one agent's work, from its grant to its receipt, with its lines in the audit.

`Run.perform` is the one life cycle of every agent's run. Kinds differ in how their prompt is built,
and in what the end settles.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from parachuted.access.agent_config import module_of_agent
from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant, Entry
from parachuted.access.private_text import left_out_of
from parachuted.access.strangers import ProposedChange, RunGuard, SessionTaints
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.agents.calling import CUT_SHORT, recorded_as
from parachuted.agents.job import (
    Backend,
    ChangedNote,
    Job,
    RunLimits,
    Step,
    TextDelta,
    TextStep,
    Tool,
    ToolCallStep,
    ToolResult,
)
from parachuted.agents.permission import PermissionRequests
from parachuted.audit.chain import AuditEvent, EventType
from parachuted.errors import AgentFailedError, EditRefusedError
from parachuted.history.run_account import RunAccount, RunAccounts
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks, RunHooks, SessionEvents
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.suggestions import Proposal, SuggestingRun, Suggestion
from parachuted.suggestions.payload import ProposalSink
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import Author, WriteResult, printable

log = logging.getLogger(__name__)

_GRACE_S = 30.0
_MOST_OBJECTIONS = 8
_LONGEST_PATH, _LONGEST_WHY = 600, 300
_FAILED = "the run failed; its record says why"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What every run works with. `answer_s`: how long the agent of a conversation waits for one."""

    backend: Backend
    accounts: RunAccounts
    active_runs: ActiveRuns
    vaults: GrantedVaults
    hooks: RunHooks
    sessions: SessionEvents
    taints: SessionTaints
    suggestions: ProposalSink
    permissions: PermissionRequests
    answer_s: float = 1500.0
    model: str | None = None

    @property
    def clock(self) -> Callable[[], datetime]:
        return self.vaults.store.clock


class RunFollower(Protocol):
    def began(self, run: str) -> None: ...

    def stepped(self, step: Step) -> None:
        """It has said or done that; what it has read by then is passed on already."""


class Run(ABC):
    """To be briefed and then performed. `cancelled` is recorded when its caller is cancelled."""

    account: RunAccount
    job: Job
    cancelled: str
    entry: Entry = "bubble"
    follower: RunFollower | None = None

    def __init__(
        self,
        parts: RunParts,
        task: Task,
        author: Author,
        guard: RunGuard,
        bounds: ModuleBounds,
        *,
        session: str | None = None,
        folder: str | None = None,
    ) -> None:
        """Hooks know it as part of that `session`, a conversation, in that `folder`."""
        self.parts, self.task, self.bounds = parts, task, bounds
        self.guard, self.grant, self.taint = guard, guard.grant, guard.taint
        self.id, self.agent = str(task.run), self.grant.agent
        self.module = module_of_agent(self.agent)
        self.written: list[WriteResult] = []
        self.hooks = AgentHooks(parts.hooks, self.id, self.agent, self.taint, session, folder, task)
        self.vault = parts.vaults.of_run(
            bounds, author, run=guard, caller=self.caller, wrote=self.written.append
        )
        self.answer = ""
        self._words: list[str] = []
        self._last_text = ""

    @abstractmethod
    def caller(self) -> Caller:
        """On whose behalf its tools work."""

    def brief(
        self,
        prompt: str,
        system_prompt: str,
        tools: Sequence[Tool],
        limits: RunLimits,
        *,
        changes: Sequence[ChangedNote] = (),
        model: str | None = None,
        said_first: str = "",
        **job: Any,  # noqa: ANN401  other fields of a Job
    ) -> None:
        """Give it its account and its job; `said_first` goes before the prompt, unrecorded."""
        now = self.parts.clock()
        self.account = RunAccount(
            task=self.task,
            backend=self.parts.backend.name,
            model=model or self.parts.model,
            started=now,
            changes=changes,
            prompt=prompt,
            system_prompt=system_prompt,
            written=self.written,
            agent=self.agent,
        )
        self.job = Job(
            id=self.id,
            watcher=printable(self.task.watcher),
            system_prompt=system_prompt,
            prompt=f"{said_first}{prompt}",
            tools=tuple(
                replace(tool, call=partial(self._call, tool)) for tool in self.hooks.tools(tools)
            ),
            limits=limits,
            changes=tuple(changes),
            at=now,
            agent=self.agent,
            causes=self.task.causes,
            model=model,
            ended=self.hooks.ended,
            **job,
        )

    async def perform(
        self, *, since: int, place: AbstractContextManager[None] | None = None
    ) -> RunOutcome:
        """Record the start, let the agent work, record and publish how it ended.

        `since` is the moment at which it was asked for: a run that was ended after that does not
        begin. It holds `place` in the budgets until its start is recorded. Raises what its work
        raises.
        """
        began = time.perf_counter()
        with place or nullcontext():
            # from here on it counts in budgets, and the next start of the daemon ends it if need be
            await run_uninterrupted(self.parts.accounts.open, self.account)
        self.tell_follower()
        endpoint = f"agents.{self.parts.backend.name}"
        self._record("agent_start", "agents", endpoint, self.task.watcher)
        error: BaseException | None = None
        try:
            outcome = await self.parts.active_runs.perform(self.active, self.work(), since=since)
        except AgentFailedError as failed:
            error, outcome = failed, RunOutcome(result="failed", reason=failed.message)
        except asyncio.CancelledError as cancelled:
            error, outcome = cancelled, RunOutcome(result="failed", reason=self.cancelled)
        except Exception as broken:  # noqa: BLE001  raised below
            error, outcome = broken, RunOutcome(result="failed", reason="it broke")
        failed_with = _FAILED if outcome.result == "failed" else None
        endpoint, took_ms = f"{endpoint}: {outcome.result}", (time.perf_counter() - began) * 1000
        self._record("agent_end", "agents", endpoint, self.task.watcher, took_ms, failed_with)
        if await self.settle(outcome, error):
            self._publish(outcome)
        if error is not None:
            raise error
        return outcome

    @abstractmethod
    async def work(self) -> RunOutcome:
        """Let the agent work, with `follow`. Raises AgentFailedError."""

    @abstractmethod
    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Record the end, after the work's error if any. False: it is tried again."""

    def reach(self) -> CallerGrant:
        """What it may read and write now."""
        return CallerGrant(self.grant.reads, self.grant.writes)

    def may_go_on(self) -> bool:
        return True

    def tell_follower(self) -> None:
        if self.follower is not None:
            self.follower.began(self.id)

    def stepped(self, step: Step) -> None:
        if self.follower is not None:
            self.follower.stepped(step)

    @property
    def active(self) -> ActiveRun:
        return ActiveRun(
            run=self.id,
            agent=self.agent,
            entry=self.entry,
            since=self.account.started,
            module=self.module,
            may_go_on=self.may_go_on,
            reach=self.reach,
        )

    @property
    def session(self) -> str | None:
        return self.account.cost.session_id if self.account.cost is not None else None

    def outcome(self, otherwise: str, *, suggested: Sequence[str] = ()) -> RunOutcome:
        refusal = self.hooks.refusal
        if paths := self.account.changed:
            updated = f"updated {', '.join(map(printable, paths))}"
            reason = f"{updated}; {refusal}" if refusal else updated
            return RunOutcome(result="changed", reason=reason)
        if suggested:
            return RunOutcome(result="suggested", reason=f"suggested {', '.join(suggested)}")
        if refusal:
            return RunOutcome(result="failed", reason=refusal)
        return RunOutcome(result="unchanged", reason=otherwise)

    async def follow(self, job: Job) -> None:
        """The agent's words after its last tool call are its `answer`. Raises AgentFailedError,
        also for whatever else the backend raises. In a conversation the agent goes on while a hook
        objects to its end, some times at most.
        """
        for objections in range(_MOST_OBJECTIONS + 1):
            await self._follow_once(job)
            if (reason := self.hooks.ended()) is not None:
                raise AgentFailedError(reason)
            decision = await self.hooks.stopping(self._last_text, is_again=objections > 0)
            if decision.allowed or self.session is None or job.conversation is None:
                break
            job.conversation.reopen()
            said = "\n\n".join([decision.reason, *decision.context])
            job = replace(job, prompt=said, session_id=self.session, files=(), history="")
        self.answer = "\n\n".join(self._words) or self._last_text

    def add_words(self, words: str) -> None:
        """After the agent's last words: what became of its work."""
        self.answer = "\n\n".join(filter(None, [self.answer, words]))
        self.stepped(TextDelta(text=f"\n\n{words}"))
        self.stepped(TextStep(text=words))

    async def _follow_once(self, job: Job) -> None:
        self._words, self._last_text = [], ""
        try:
            async with (
                asyncio.timeout(job.limits.timeout_s + _GRACE_S),
                contextlib.aclosing(self.parts.backend.run(job)) as steps,  # type: ignore[type-var]
            ):
                async for step in steps:
                    self._take(step)
        except AgentFailedError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the run itself is to end
                raise
            raise self._broken("it was cancelled from within") from error
        except Exception as error:  # a backend is another's code
            log.exception("the agent's backend broke", extra={"run": self.id})
            raise self._broken(type(error).__name__) from error

    def _take(self, step: Step) -> None:
        self.account.note(step)
        self.stepped(step)
        if isinstance(step, TextStep):
            self._words.append(step.text)
            self._last_text = step.text
        elif isinstance(step, ToolCallStep):
            self._words.clear()

    def _broken(self, why: str) -> AgentFailedError:
        return AgentFailedError(f"the backend {self.parts.backend.name} broke: {why}")

    async def _call(self, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        began, result = time.perf_counter(), CUT_SHORT
        try:
            result = await tool.call(arguments)
        finally:
            took_ms = (time.perf_counter() - began) * 1000
            self.record_call(tool.name, result.arguments or arguments, result, took_ms)
        return result

    def record_call(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, took_ms: float
    ) -> None:
        path, module = arguments.get("file_path", arguments.get("path")), self.module or self.agent
        recorded, error = recorded_as(name, result)
        endpoint = f"{module}.{recorded}{left_out_of(result.text)}"
        self._record("mcp_call", module, endpoint, path, took_ms, error)

    def _record(
        self,
        kind: EventType,
        module: str,
        endpoint: str,
        path: object,
        took_ms: float = 0.0,
        error: str | None = None,
    ) -> None:
        self.parts.vaults.audit.record(
            AuditEvent(
                timestamp=self.parts.clock(),
                event_type=kind,
                source_type="agent",
                source_id=self.agent,
                target_module=module,
                target_endpoint=endpoint,
                duration_ms=took_ms,
                success=error is None,
                error=error,
                paths=[_printable(path[:_LONGEST_PATH])] if isinstance(path, str) else [],
                causes=self.task.causes,
                run=self.id,
            )
        )

    def _publish(self, outcome: RunOutcome) -> None:
        account = self.account
        ended = {
            "run": self.id,
            "watcher": printable(self.task.watcher),
            "outcome": outcome.result,
            "reason": outcome.reason,
        }
        log.info("run ended", extra={**ended, "agent": account.agent})
        paths = list(map(printable, account.changed))
        cost = account.cost.cost_usd if account.cost else 0.0
        self.parts.hooks.bus.publish("run.finished", **ended, paths=paths, cost_usd=cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuggestions:
    sink: ProposalSink
    run: SuggestingRun
    who: str = "agent"
    names: list[str] = field(default_factory=list)

    async def propose(self, proposal: Proposal) -> Suggestion:
        suggestion = await self.sink.propose(proposal)
        self.names.append(suggestion.id)
        return suggestion

    async def put_forward(self, change: ProposedChange, why: str) -> str:
        """File what it would have done; its id. Raises EditRefusedError where it is not text."""
        try:
            payload = {} if change.data is None else {"text": change.data.decode("utf-8")}
        except UnicodeDecodeError as error:
            raise EditRefusedError(
                f"{printable(change.path)} would not be text, which a person could not review"
            ) from error
        proposal = Proposal(
            source_agent=self.run.agent,
            source_session=self.run.session,
            action=change.action,
            path=change.path,
            payload=payload,
            reasoning=f"The {self.who} would have done this at once, but {why[:_LONGEST_WHY]}.",
            base=change.base,
            run=self.run.run,
            causes=self.run.causes,
            is_strangers=self.run.is_tainted(),
        )
        return (await self.propose(proposal)).id


def _printable(path: str) -> str:
    """A path that an agent named need not be one: half of a character cannot be encoded."""
    try:
        return printable(path)
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()
