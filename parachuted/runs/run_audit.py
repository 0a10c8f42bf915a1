"""Audit lines for a run's start, tool calls and end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from parachuted.access.private_text import is_shortened
from parachuted.agents import Step, Tool, ToolCallStep, ToolResult
from parachuted.audit.events import AuditEvent, AuditRecorder, EventType
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
        self._told: Counter[tuple[str, bool]] = Counter()
        self._began = time.perf_counter()

    def began(self) -> None:
        """The agent is about to be asked."""
        self._tell("agent_start", "agents", f"agents.{self._backend}", paths=[self._task.watcher])

    def ended(self, outcome: RunOutcome) -> None:
        """The run is over."""
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
        """The same tools, each call of which is recorded."""
        return tuple(replace(tool, call=self._told_call(tool)) for tool in tools)

    def note(self, step: Step) -> None:
        """Tell of a call that no tool has seen: of a name that is none, or with arguments that the
        tool does not take.
        """
        if not isinstance(step, ToolCallStep):
            return
        key = (step.tool, step.result.is_error)
        if self._told[key]:
            self._told[key] -= 1
        elif step.result.is_error:
            self._call(step.tool, step.arguments, step.result, 0.0)

    def called(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, took: float
    ) -> None:
        """The agent called a tool that is not ours, such as the CLI's own; it took so many
        milliseconds.
        """
        self._told[name, result.is_error] += 1
        self._call(name, arguments, result, took)

    def _told_call(self, tool: Tool) -> Callable[[Mapping[str, object]], Awaitable[ToolResult]]:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            began, result = (
                time.perf_counter(),
                ToolResult(text="the call was cut short", is_error=True),
            )
            try:
                result = await tool.call(arguments)
            finally:
                self._told[tool.name, result.is_error] += 1
                self._call(tool.name, arguments, result, (time.perf_counter() - began) * 1000)
            return result

        return call

    def _call(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, took: float
    ) -> None:
        path = arguments.get("file_path", arguments.get("path"))
        paths = [path[:_SHOWN]] if isinstance(path, str) else []
        error = result.text[:_SHOWN] if result.is_error else None
        left_out = ": private parts left out" if is_shortened(result.text) else ""
        self._tell(
            "mcp_call",
            self._module,
            f"{self._module}.{name[:_SHOWN]}{left_out}",
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
