"""The runs that a module has started, each followed step by step, with what it has read of
strangers' texts passed on before each step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import cast

from parachuted.access.authority import Authority, pass_on
from parachuted.access.origin import UNTRUSTED
from parachuted.agents import (
    ConversationInput,
    PermissionStep,
    QuestionStep,
    SessionStep,
    Step,
    TextDelta,
    TextStep,
    ThinkingDelta,
    ToolCallStep,
    ToolUseStep,
    UsageStep,
)
from parachuted.agents.permission import PERMISSION
from parachuted.errors import ActRefusedError, AgentStoppedError, NotFoundError
from parachuted.modules.agent_runs import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentResources,
    AgentResult,
    AgentSession,
    AgentSkill,
    AgentStep,
    AgentText,
    AgentTextDelta,
    AgentThinkingDelta,
    AgentToolCall,
    AgentToolUse,
    AgentUsage,
)
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.runs.run_request import RunReport

_MOST_AT_WORK, _MOST_KEPT = 50, 200
_ENDS_WITHIN_S = 5.0
_LONGEST_ANSWER = 200_000


class _Started:
    """One run: the steps that have not been read yet, and its task."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.id: str | None = None
        self.steps: deque[AgentStep] = deque()
        self.moved = asyncio.Event()
        self.task: asyncio.Task[RunReport] | None = None
        self.is_stopped = False
        self.said = ConversationInput()

    def began(self, run: str) -> None:
        self.id = run
        self.moved.set()

    def stepped(self, step: Step) -> None:
        shown = _step_of(step)
        if shown is not None:
            self.steps.append(shown)
            self.moved.set()

    def ended(self, task: asyncio.Task[RunReport]) -> None:
        """Its error, if any, is for `result` alone."""
        if not task.cancelled():
            task.exception()
        self.moved.set()

    @property
    def is_done(self) -> bool:
        return self.task is not None and self.task.done()


class ModuleRuns:
    """The `RunAccess` of one module in the daemon."""

    def __init__(
        self, module: str, agents: ModuleAgents, authority: Callable[[], Authority]
    ) -> None:
        self._module, self._agents, self._authority = module, agents, authority
        self._runs: dict[str, _Started] = {}

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        """Start a run on the authority of now; it goes on while that holds."""
        authority = self._acting()
        if sum(not started.is_done for started in self._runs.values()) >= _MOST_AT_WORK:
            raise ActRefusedError(
                f"the module {self._module} has {_MOST_AT_WORK} runs at work; wait for some"
            )
        started = _Started(authority)
        # In the daemon the loop makes it the module's own; a module host's ends by `close`.
        rest = dict(options)
        said = started.said if rest.pop("conversation", False) is True else None
        work = self._agents.follow(agent, prompt, rest, authority, started, said)
        started.task = task = asyncio.get_running_loop().create_task(
            work,
            name=f"a run of {self._module}/{agent[:80]}",
        )
        task.add_done_callback(started.ended)
        try:
            while started.id is None and not task.done():
                started.moved.clear()
                await started.moved.wait()
        except asyncio.CancelledError:
            task.cancel()
            raise
        if started.id is None:
            return (await task).run  # it raises why it did not begin
        self._keep(started.id, started)
        return started.id

    async def next(self, run: str) -> AgentStep | None:
        """The next step; what the run has read so far marks who reads it."""
        started = self._find(run)
        while not started.steps and not started.is_done:
            started.moved.clear()
            await started.moved.wait()
        pass_on(started.authority.taint, self._acting().taint)
        return started.steps.popleft() if started.steps else None

    async def result(self, run: str) -> AgentResult:
        started = self._find(run)
        while not started.is_done or started.task is None:
            started.moved.clear()
            await started.moved.wait()
        pass_on(started.authority.taint, self._acting().taint)
        if started.is_stopped or started.task.cancelled():
            raise AgentStoppedError("it was stopped")
        report = started.task.result()
        return AgentResult(
            text=report.words,
            run_id=report.run,
            outcome=report.outcome.result,
            session_id=report.session,
            cost_usd=report.cost.cost_usd if report.cost is not None else 0.0,
            suggestions=report.suggested,
            warning=report.warning,
        )

    async def stop(self, run: str) -> bool:
        started = self._find(run)
        if started.task is None or started.task.done():
            self._agents.end_process(run)
            return False
        started.is_stopped = True
        started.task.cancel()
        await asyncio.wait((started.task,), timeout=_ENDS_WITHIN_S)
        return True

    async def inject(self, run: str, text: str) -> bool:
        started = self._find(run)
        pass_on(self._acting().taint, started.authority.taint)
        return not started.is_done and started.said.inject(text)

    async def answer(self, run: str, name: str, value: object) -> bool:
        """Answer what its agent asked.

        Raises ActRefusedError for a permission request, unless the module is trusted and a person
        asks it who may administer.
        """
        started, authority = self._find(run), self._acting()
        if name.startswith(PERMISSION) and not (
            self._agents.is_trusted and authority.may_administer and not authority.is_limited
        ):
            raise ActRefusedError(
                "this gives an agent more than it was granted, which takes a key that may "
                "administer; `parachute permissions list` shows what waits"
            )
        pass_on(self._acting().taint, started.authority.taint)
        return started.said.answer(name, value)

    async def ask(
        self, prompt: str, system: str | None, max_usd: float | None, *, conversation: bool = False
    ) -> str:
        """A model's answer, as a run of an agent without tools."""
        return await self._agents.ask(
            prompt, system, max_usd, self._acting(), conversation=conversation
        )

    async def resources(self, agent: str, options: Mapping[str, object]) -> AgentResources:
        authority = self._acting()
        rest = {name: value for name, value in options.items() if name != "conversation"}
        skills = [
            AgentSkill(
                name=skill.name,
                description=skill.description,
                path=skill.path,
                is_strangers=skill.origin in UNTRUSTED,
            )
            for skill in await self._agents.skills(authority)
        ]
        servers = await self._agents.servers(agent, rest, authority)
        return AgentResources(skills=tuple(skills), mcp_servers=servers)

    async def skill(self, name: str) -> str:
        """Its text; what a stranger wrote marks who reads it."""
        authority = self._acting()
        for skill in await self._agents.skills(authority):
            if skill.name == name:
                authority.taint.read(f"the skill {skill.path}", skill.origin)
                return skill.text
        raise NotFoundError(f"there is no skill {name[:80]!r}")

    def close(self) -> None:
        for started in self._runs.values():
            if started.task is not None and not started.task.done():
                started.is_stopped = True
                started.task.cancel()

    def _keep(self, run: str, started: _Started) -> None:
        """Remember it; of those that have ended, the oldest are forgotten."""
        ended = [name for name, kept in self._runs.items() if kept.is_done]
        for name in ended[: max(0, len(self._runs) + 1 - _MOST_KEPT)]:
            del self._runs[name]
        self._runs[run] = started

    def _find(self, run: str) -> _Started:
        self._acting()
        if run not in self._runs:
            raise NotFoundError(f"the module {self._module} has no run {run[:80]!r}")
        return self._runs[run]

    def _acting(self) -> Authority:
        authority = self._authority()
        authority.check()
        return authority


_SHOWN: Mapping[type, type] = {
    TextDelta: AgentTextDelta,
    ThinkingDelta: AgentThinkingDelta,
    TextStep: AgentText,
    ToolUseStep: AgentToolUse,
    SessionStep: AgentSession,
    UsageStep: AgentUsage,
    QuestionStep: AgentQuestion,
    PermissionStep: AgentPermissionRequest,
}
"""The steps that a module gets as they are, and what it gets each as."""


def _step_of(step: Step) -> AgentStep | None:
    """The step as a module gets it; None: it gets none."""
    if isinstance(step, ToolCallStep):
        return AgentToolCall(
            id=step.id,
            tool=step.tool,
            arguments=dict(step.arguments),
            answer=step.result.text[:_LONGEST_ANSWER],
            is_error=step.result.is_error,
        )
    shown = _SHOWN.get(type(step))
    if shown is None:
        return None
    values = {known.name: getattr(step, known.name) for known in fields(step)}
    return cast("AgentStep", shown(**values))
