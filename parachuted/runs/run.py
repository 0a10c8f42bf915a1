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
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from parachuted.access.agent_config import module_of_agent
from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant, Entry
from parachuted.access.private_text import left_out_of
from parachuted.access.run_guard import RunGuard
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.agents.calling import CUT_SHORT, recorded_as
from parachuted.agents.job import (
    Backend,
    ChangedNote,
    Job,
    RunLimits,
    Step,
    TextStep,
    Tool,
    ToolCallStep,
    ToolResult,
)
from parachuted.audit.chain import AuditEvent, AuditRecorder, EventType
from parachuted.errors import AgentFailedError
from parachuted.history.run_account import RunAccount, RunAccounts
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks, RunHooks
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.runs.run_guard import RunGuards
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import Author, WriteResult, printable

log = logging.getLogger(__name__)

_GRACE_S = 30.0
_MOST_OBJECTIONS = 8
_SHOWN = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What every run works with."""

    backend: Backend
    accounts: RunAccounts
    active_runs: ActiveRuns
    vaults: GrantedVaults
    hooks: RunHooks
    guards: RunGuards
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
        self.parts, self.task, self.author, self.bounds = parts, task, author, bounds
        self.guard, self.grant, self.taint = guard, guard.grant, guard.taint
        self.id, self.agent = str(task.run), self.grant.agent
        self.module = module_of_agent(self.agent)
        self.written: list[WriteResult] = []
        self.hooks = AgentHooks(
            parts.hooks,
            self.id,
            self.agent,
            self.taint,
            session=session,
            folder=folder,
            cause=parts.hooks.cause_of(task, self.agent),
        )
        self.audit = RunAudit(parts.vaults.audit, parts.clock, parts.backend.name, task, self.agent)
        self.vault = parts.vaults.of_run(
            bounds, author, run=guard, caller=self.caller, wrote=self.written.append
        )
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
    ) -> None:
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
            prompt=prompt,
            tools=self.hooks.tools(self.audit.tools(tools)),
            limits=limits,
            changes=tuple(changes),
            at=now,
            agent=self.agent,
            causes=self.task.causes,
            model=model,
            ended=self.hooks.ended,
        )

    async def perform(
        self, *, since: int, place: AbstractContextManager[None] | None = None
    ) -> RunOutcome:
        """Record the start, let the agent work, record and publish how it ended.

        `since` is the moment at which it was asked for: a run that was ended after that does not
        begin. It holds `place` in the budgets until its start is recorded. Raises what its work
        raises.
        """
        with place or nullcontext():
            # from here on it counts in budgets, and the next start of the daemon ends it if need be
            await run_uninterrupted(self.parts.accounts.open, self.account)
        self.tell_follower()
        self.audit.record_start()
        error: BaseException | None = None
        try:
            outcome = await self.parts.active_runs.perform(self.active, self.work(), since=since)
        except AgentFailedError as failed:
            error, outcome = failed, RunOutcome(result="failed", reason=failed.message)
        except asyncio.CancelledError as cancelled:
            error, outcome = cancelled, RunOutcome(result="failed", reason=self.cancelled)
        except Exception as broken:  # noqa: BLE001  raised below
            error, outcome = broken, RunOutcome(result="failed", reason="it broke")
        self.audit.record_end(outcome)
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

    async def follow(self, job: Job) -> str:
        """The agent's words after its last tool call. Raises AgentFailedError, also for whatever
        else the backend raises. In a conversation the agent goes on while a hook objects to its
        end, some times at most.
        """
        for objections in range(_MOST_OBJECTIONS + 1):
            await self._follow_once(job)
            if (reason := self.hooks.ended()) is not None:
                raise AgentFailedError(reason)
            decision = await self.hooks.stopping(self._last_text, is_again=objections > 0)
            if decision.allowed or self.session is None:
                break
            if job.conversation is None:
                log.info(
                    "a hook wants a run to go on, which only a conversation's does",
                    extra={"run": self.id, "reason": decision.reason},
                )
                break
            job.conversation.reopen()
            said = "\n\n".join([decision.reason, *decision.context])
            job = replace(job, prompt=said, session_id=self.session, files=(), history="")
        return "\n\n".join(self._words) or self._last_text

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
        self.audit.record_refused(step)
        self.stepped(step)
        if isinstance(step, TextStep):
            self._words.append(step.text)
            self._last_text = step.text
        elif isinstance(step, ToolCallStep):
            self._words.clear()

    def _broken(self, why: str) -> AgentFailedError:
        return AgentFailedError(f"the backend {self.parts.backend.name} broke: {why}")

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
        self.parts.hooks.publish("run.finished", **ended, paths=paths, cost_usd=cost)


class RunAudit:
    def __init__(
        self,
        recorder: AuditRecorder,
        clock: Callable[[], datetime],
        backend: str,
        task: Task,
        agent: str,
    ) -> None:
        self._recorder, self._clock, self._task, self._agent = recorder, clock, task, agent
        self._module, self._backend = module_of_agent(agent) or agent, f"agents.{backend}"
        self._calls: Counter[tuple[str, bool]] = Counter()
        self._started_at = time.perf_counter()

    def record_start(self) -> None:
        self._record("agent_start", "agents", self._backend, self._task.watcher)

    def record_end(self, outcome: RunOutcome) -> None:
        took = (time.perf_counter() - self._started_at) * 1000
        error = "the run failed; its record says why" if outcome.result == "failed" else None
        endpoint = f"{self._backend}: {outcome.result}"
        self._record("agent_end", "agents", endpoint, self._task.watcher, took=took, error=error)

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        return tuple(replace(tool, call=self._counted_call(tool)) for tool in tools)

    def record_refused(self, step: Step) -> None:
        """A call that no tool has seen: of an unknown name, or with bad arguments."""
        if not isinstance(step, ToolCallStep):
            return
        key = (step.tool, step.result.is_error)
        if self._calls[key]:
            self._calls[key] -= 1
        elif step.result.is_error:
            self.record_call(step.tool, step.arguments, step.result, 0.0)
            self._calls[key] -= 1

    def record_call(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, took: float
    ) -> None:
        self._calls[name, result.is_error] += 1
        path = arguments.get("file_path", arguments.get("path"))
        recorded, error = recorded_as(name, result)
        self._record(
            "mcp_call",
            self._module,
            f"{self._module}.{recorded}{left_out_of(result.text)}",
            *([path[:_SHOWN]] if isinstance(path, str) else []),
            took=took,
            error=error,
        )

    def _counted_call(self, tool: Tool) -> Callable[[Mapping[str, object]], Awaitable[ToolResult]]:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            started = time.perf_counter()
            result = CUT_SHORT
            try:
                result = await tool.call(arguments)
            finally:
                took = (time.perf_counter() - started) * 1000
                self.record_call(tool.name, arguments, result, took)
            return result

        return call

    def _record(
        self,
        kind: EventType,
        module: str,
        endpoint: str,
        *paths: str,
        took: float = 0.0,
        error: str | None = None,
    ) -> None:
        self._recorder.record(
            AuditEvent(
                timestamp=self._clock(),
                event_type=kind,
                source_type="agent",
                source_id=self._agent,
                target_module=module,
                target_endpoint=endpoint,
                duration_ms=took,
                success=error is None,
                error=error,
                paths=[_printable(path) for path in paths],
                causes=self._task.causes,
                run=self._task.run,
            )
        )


def _printable(path: str) -> str:
    """A path that an agent named need not be one: half of a character cannot be encoded."""
    try:
        return printable(path)
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()
