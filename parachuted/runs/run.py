"""Run: one agent's work, from its grant to its receipt.

`Run.perform` is the whole story, and the same for each agent: a curator's, a module's, a
conversation's, maintenance. Kinds differ in how their prompt is built before, and in what the end
settles.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from parachuted.access.grant import Entry
from parachuted.agents import Backend, Job, Step, TextStep, ToolCallStep
from parachuted.agents.active_runs import ActiveRun, ActiveRuns, Reach
from parachuted.audit.chain import AuditRecorder, NullAuditRecorder
from parachuted.errors import AgentFailedError
from parachuted.events import Bus
from parachuted.history.run_account import RunAccount, RunAccounts
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.runs.run_audit import RunAudit
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import printable

log = logging.getLogger(__name__)

_GRACE_S = 30.0
_MOST_OBJECTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """With what every run works, and where it is recorded. `model` is the one that runs ask for
    unless they name another.
    """

    backend: Backend
    accounts: RunAccounts
    active_runs: ActiveRuns
    bus: Bus
    clock: Callable[[], datetime]
    audit: AuditRecorder = field(default_factory=NullAuditRecorder)
    model: str | None = None


class RunFollower(Protocol):
    """Who follows a run while it goes on."""

    def began(self, run: str) -> None: ...

    def stepped(self, step: Step) -> None:
        """It has said or done that; what it has read by then is passed on already."""


class Run(ABC):
    """One run. Whoever makes it sets `account` and `job` before it is performed.

    `cancelled` is the reason that is recorded when its caller is cancelled.
    """

    account: RunAccount
    job: Job
    cancelled: str
    entry: Entry = "bubble"
    follower: RunFollower | None = None

    def __init__(
        self,
        services: RunServices,
        hooks: AgentHooks,
        task: Task,
        *,
        agent: str,
        module: str | None = None,
    ) -> None:
        self.services, self.hooks, self.task = services, hooks, task
        self.id, self.agent, self.module = str(task.run), agent, module
        self.audit = RunAudit(
            services.audit,
            services.clock,
            task,
            agent=agent,
            backend=services.backend.name,
            module=module or agent,
        )
        self._words: list[str] = []
        self._last_text = ""

    async def perform(
        self, *, since: int, place: AbstractAsyncContextManager[None] | None = None
    ) -> RunOutcome:
        """Record the start, let the agent work, record and publish how it ended.

        `since` is the moment at which the run was asked for: one that was ended after that does
        not begin. `place` is its place in the budgets, which it holds until its start is recorded.
        Raises what its work raises.
        """
        async with place or nullcontext():
            # from here on it counts in budgets, and the next start of the daemon ends it if need be
            await run_uninterrupted(self.services.accounts.open, self.account)
        self.tell_follower()
        self.audit.record_start()
        error: BaseException | None = None
        try:
            outcome = await self.services.active_runs.perform(self.active, self.work(), since=since)
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
        """Record the end, after the error that the work raised if it did.

        False: the run has not ended, for it is tried again.
        """

    @abstractmethod
    def reach(self) -> Reach:
        """What it may read and write just now."""

    def may_go_on(self) -> bool:
        """Whether its caller still has the right to it."""
        return True

    def tell_follower(self) -> None:
        """Who follows it knows it from now on."""
        if self.follower is not None:
            self.follower.began(self.id)

    def stepped(self, step: Step) -> None:
        """The agent has said or done that."""
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
        """Let the backend do the job; the agent's words after its last tool call.

        The backend keeps the limits; one that does not is ended some time later. In a conversation
        the agent goes on as long as a hook objects to its end, some times at most. Raises
        AgentFailedError, also for whatever else the backend raises.
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
                contextlib.aclosing(self.services.backend.run(job)) as steps,  # type: ignore[type-var]
            ):
                async for step in steps:
                    self._take(step)
        except AgentFailedError:
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
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
        return AgentFailedError(f"the backend {self.services.backend.name} broke: {why}")

    def _publish(self, outcome: RunOutcome) -> None:
        account, watcher = self.account, printable(self.task.watcher)
        extra = {
            "run": self.id,
            "agent": account.agent,
            "watcher": watcher,
            "outcome": outcome.result,
            "reason": outcome.reason,
        }
        log.info("run ended", extra=extra)
        self.services.bus.publish(
            "run.finished",
            run=self.id,
            watcher=watcher,
            outcome=outcome.result,
            reason=outcome.reason,
            paths=[printable(path) for path in account.net],
            cost_usd=account.cost.cost_usd if account.cost else 0.0,
        )


def _is_cancelled() -> bool:
    """Whether the run itself is to end, and not just something inside the backend."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
