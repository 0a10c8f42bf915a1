"""Run audit: the lines of one run in the audit, from its start to its end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from parachuted.access.agent_config import module_of_agent
from parachuted.access.private_text import left_out_of
from parachuted.agents.calling import CUT_SHORT, recorded_as
from parachuted.agents.job import Step, Tool, ToolCallStep, ToolResult
from parachuted.audit.chain import AuditEvent, AuditRecorder, EventType
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import printable

_SHOWN = 600


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
