"""The steps of an agent's run as a module gets them."""

from __future__ import annotations

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

_LONGEST = 200_000


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
