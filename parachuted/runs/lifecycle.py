"""Lifecycle: what each run goes through, from its account to its end, and its lines in
the audit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from parachuted.access.private_text import left_out_of
from parachuted.agents import Backend, Job, Step, TextStep, Tool, ToolCallStep, ToolResult
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.audit.chain import AuditEvent, AuditRecorder, EventType, NullAuditRecorder
from parachuted.errors import AgentFailedError
from parachuted.events import Bus
from parachuted.history.run_account import RunAccount, RunAccounts
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import printable

_SHOWN = 600
_CURATOR = "curator"


class RunAudit:
    """One run's.

    Calls that were refused before any tool was reached are recorded too, from the steps that the
    backend yields.
    """

    def __init__(
        self,
        recorder: AuditRecorder,
        clock: Callable[[], datetime],
        task: Task,
        *,
        agent: str,
        backend: str,
        module: str = _CURATOR,
    ) -> None:
        """`module` is whose tools the agent calls."""
        self._recorder, self._clock, self._task, self._agent, self._backend = (
            recorder,
            clock,
            task,
            agent,
            backend,
        )
        self._module = module
        self._calls: Counter[tuple[str, bool]] = Counter()
        self._began = time.perf_counter()

    def began(self) -> None:
        self._tell("agent_start", "agents", f"agents.{self._backend}", paths=[self._task.watcher])

    def ended(self, outcome: RunOutcome) -> None:
        took = (time.perf_counter() - self._began) * 1000
        error = outcome.reason if outcome.result == "failed" else None
        self._tell(
            "agent_end",
            "agents",
            f"agents.{self._backend}: {outcome.result}",
            paths=[self._task.watcher],
            took=took,
            error=error,
        )

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        return tuple(replace(tool, call=self._counted_call(tool)) for tool in tools)

    def note(self, step: Step) -> None:
        """Tell of a call that no tool has seen: of a name that is none, or with arguments that the
        tool does not take.
        """
        if not isinstance(step, ToolCallStep):
            return
        key = (step.tool, step.result.is_error)
        if self._calls[key]:
            self._calls[key] -= 1
        elif step.result.is_error:
            self._call(step.tool, step.arguments, step.result, 0.0)

    def called(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, took: float
    ) -> None:
        """The agent called a tool that is not ours, such as the CLI's own; it took so many
        milliseconds.
        """
        self._calls[name, result.is_error] += 1
        self._call(name, arguments, result, took)

    def _counted_call(self, tool: Tool) -> Callable[[Mapping[str, object]], Awaitable[ToolResult]]:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            began, result = (
                time.perf_counter(),
                ToolResult(text="the call was cut short", is_error=True),
            )
            try:
                result = await tool.call(arguments)
            finally:
                self._calls[tool.name, result.is_error] += 1
                self._call(tool.name, arguments, result, (time.perf_counter() - began) * 1000)
            return result

        return call

    def _call(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, took: float
    ) -> None:
        path = arguments.get("file_path", arguments.get("path"))
        paths = [path[:_SHOWN]] if isinstance(path, str) else []
        error = result.text[:_SHOWN] if result.is_error else None
        self._tell(
            "mcp_call",
            self._module,
            f"{self._module}.{name[:_SHOWN]}{left_out_of(result.text)}",
            paths=paths,
            took=took,
            error=error,
        )

    def _tell(
        self,
        kind: EventType,
        module: str,
        endpoint: str,
        *,
        paths: Sequence[str],
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
                paths=[printable_or_escaped(path) for path in paths],
                causes=self._task.causes,
                run=self._task.run,
            )
        )


def printable_or_escaped(path: str) -> str:
    """A path that an agent named need not be one: half of a character cannot be encoded."""
    try:
        return printable(path)
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()


log = logging.getLogger(__name__)

_GRACE_S = 30.0
_MOST_OBJECTIONS = 8


class Run(Protocol):
    """One run of an agent. `cancelled` is the reason recorded when its caller is
    cancelled.
    """

    account: RunAccount
    audit: RunAudit
    cancelled: str

    @property
    def active(self) -> ActiveRun: ...

    async def work(self) -> RunOutcome:
        """Let the agent work. Raises AgentFailedError."""
        ...

    async def close(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """Record the end, after the error that the work raised if it did.

        False: the run has not ended, for it is tried again.
        """
        ...


class RunLifecycle:
    """The one way in which an agent works with a backend."""

    def __init__(
        self,
        *,
        backend: Backend,
        accounts: RunAccounts,
        active_runs: ActiveRuns,
        bus: Bus,
        clock: Callable[[], datetime],
        audit: AuditRecorder | None = None,
        model: str | None = None,
    ) -> None:
        """`model` is the one that runs ask for unless they name another."""
        self.backend, self.model, self.accounts, self.clock = backend, model, accounts, clock
        self._active_runs, self._bus, self._audit = active_runs, bus, audit or NullAuditRecorder()

    @property
    def moment(self) -> int:
        """The present moment, for `run`."""
        return self._active_runs.moment

    def audit_of(self, task: Task, *, agent: str, module: str) -> RunAudit:
        """The audit of a task's run. `module` is whose tools the agent calls."""
        return RunAudit(
            self._audit,
            self.clock,
            task,
            agent=agent,
            backend=self.backend.name,
            module=module,
        )

    def hold(self, working: ActiveRun, end: Callable[[], None]) -> Callable[[], None]:
        """Have `end` called where that run would be ended, also after it; returns what takes that
        back.
        """
        return self._active_runs.hold(working, end)

    def end_process(self, run: str) -> None:
        """End the process that was kept after that run, if one was."""
        self._active_runs.end("its conversation ended", lambda working: working.run == run)

    async def open(self, account: RunAccount) -> None:
        """From here on the run counts in budgets, and the next start ends it if need be."""
        await run_uninterrupted(self.accounts.open, account)

    async def run(self, run: Run, *, since: int) -> RunOutcome:
        """Let a run work whose account is open, and record and publish how it ended.

        `since` is the `moment` at which it was asked for. Raises what its work raises.
        """
        run.audit.began()
        error: BaseException | None = None
        try:
            outcome = await self._active_runs.perform(run.active, run.work(), since=since)
        except AgentFailedError as failed:
            error, outcome = failed, RunOutcome(result="failed", reason=failed.message)
        except asyncio.CancelledError as cancelled:
            error, outcome = cancelled, RunOutcome(result="failed", reason=run.cancelled)
        except Exception as broken:  # noqa: BLE001  raised below
            error, outcome = broken, RunOutcome(result="failed", reason="it broke")
        run.audit.ended(outcome)
        if await run.close(outcome, error):
            self._publish(run.account, outcome)
        if error is not None:
            raise error
        return outcome

    async def follow(
        self,
        job: Job,
        account: RunAccount,
        audit: RunAudit,
        hooks: AgentHooks,
        stepped: Callable[[Step], None] = lambda _step: None,
    ) -> str:
        """Let the backend do the job; the agent's words after its last tool call. `stepped` hears
        of each step.

        The backend keeps the limits; one that does not is ended some time later. In a conversation
        the agent goes on as long as a hook objects to its end, some times at most. Raises
        AgentFailedError, also for whatever else the backend raises.
        """
        for objections in range(_MOST_OBJECTIONS + 1):
            words, last = await self._follow(job, account, audit, stepped)
            if (reason := hooks.ended()) is not None:
                raise AgentFailedError(reason)
            decision = await hooks.stopping(last, is_again=objections > 0)
            session = account.cost.session_id if account.cost is not None else None
            if decision.allowed or session is None:
                break
            if job.conversation is None:
                log.info(
                    "a hook wants a run to go on, which only a conversation's does",
                    extra={"run": job.id, "reason": decision.reason},
                )
                break
            job.conversation.reopen()
            said = "\n\n".join([decision.reason, *decision.context])
            job = replace(job, prompt=said, session_id=session, files=(), history="")
        return words or last

    async def _follow(
        self,
        job: Job,
        account: RunAccount,
        audit: RunAudit,
        stepped: Callable[[Step], None],
    ) -> tuple[str, str]:
        """One go: the words after the last tool call, and the last of all."""
        words: list[str] = []
        last = ""
        try:
            async with (
                asyncio.timeout(job.limits.timeout_s + _GRACE_S),
                contextlib.aclosing(self.backend.run(job)) as steps,  # type: ignore[type-var]
            ):
                async for step in steps:
                    account.note(step)
                    audit.note(step)
                    stepped(step)
                    if isinstance(step, TextStep):
                        words.append(step.text)
                        last = step.text
                    elif isinstance(step, ToolCallStep):
                        words.clear()
        except AgentFailedError:
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise self._broken("it was cancelled from within") from error
        except Exception as error:  # a backend is another's code
            log.exception("the agent's backend broke", extra={"run": job.id})
            raise self._broken(type(error).__name__) from error
        return "\n\n".join(words), last

    def _broken(self, why: str) -> AgentFailedError:
        return AgentFailedError(f"the backend {self.backend.name} broke: {why}")

    def _publish(self, account: RunAccount, outcome: RunOutcome) -> None:
        run, watcher = account.task.run, printable(account.task.watcher)
        extra = {
            "run": run,
            "agent": account.agent,
            "watcher": watcher,
            "outcome": outcome.result,
            "reason": outcome.reason,
        }
        log.info("run ended", extra=extra)
        self._bus.publish(
            "run.finished",
            run=run,
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
