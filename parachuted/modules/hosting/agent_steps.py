"""The steps of an agent's run as a module gets them, and how they cross a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from parachuted.agents import (
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
from parachuted.modules.agent_runs import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentSession,
    AgentStep,
    AgentText,
    AgentTextDelta,
    AgentThinkingDelta,
    AgentToolCall,
    AgentToolUse,
    AgentUsage,
)
from parachuted.modules.results import Json, to_json

_LONGEST = 200_000
_KINDS: Mapping[str, type[Any]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            AgentText,
            AgentToolCall,
            AgentTextDelta,
            AgentThinkingDelta,
            AgentToolUse,
            AgentSession,
            AgentUsage,
            AgentQuestion,
            AgentPermissionRequest,
        )
    }
)


def step_of(step: Step) -> AgentStep | None:  # noqa: PLR0911  one for each kind
    """The step as a module gets it; None: it gets none."""
    match step:
        case TextDelta():
            return AgentTextDelta(text=step.text)
        case ThinkingDelta():
            return AgentThinkingDelta(text=step.text)
        case TextStep():
            return AgentText(text=step.text)
        case ToolUseStep():
            return AgentToolUse(id=step.id, tool=step.tool, arguments=dict(step.arguments))
        case ToolCallStep():
            return AgentToolCall(
                id=step.id,
                tool=step.tool,
                arguments=dict(step.arguments),
                answer=step.result.text[:_LONGEST],
                is_error=step.result.is_error,
            )
        case SessionStep():
            return AgentSession(
                session_id=step.session_id,
                is_resumed=step.is_resumed,
                tools=step.tools,
                model=step.model,
            )
        case UsageStep():
            return AgentUsage(
                input_tokens=step.input_tokens,
                output_tokens=step.output_tokens,
                cache_read_tokens=step.cache_read_tokens,
                cost_usd=step.cost_usd,
                context_tokens=step.context_tokens,
            )
        case QuestionStep():
            return AgentQuestion(id=step.id, questions=step.questions)
        case PermissionStep():
            return AgentPermissionRequest(
                id=step.id, tool=step.tool, arguments=step.arguments, patterns=step.patterns
            )
    return None


def dump_step(step: AgentStep | None) -> Json:
    """The step in plain JSON, with the name of its kind."""
    return None if step is None else {"kind": type(step).__name__, "step": to_json(step)}


def load_step(found: object) -> AgentStep | None:
    """What `dump_step` made. Raises ValueError."""
    if found is None:
        return None
    if not isinstance(found, dict) or found.get("kind") not in _KINDS:
        raise ValueError("not a step of an agent's run")
    step: AgentStep = TypeAdapter(_KINDS[found["kind"]]).validate_python(found.get("step"))
    return step
