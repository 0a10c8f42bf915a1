"""What an agent does, as the events that the apps read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from parachuted.modules import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentStep,
    AgentText,
    AgentTextDelta,
    AgentThinkingDelta,
    AgentToolCall,
    AgentToolUse,
    AgentUsage,
)

from .turn_questions import OpenQuestion, permission_question

Event: TypeAlias = Mapping[str, object]

_LONGEST_RESULT = 50_000
_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class TextPiece:
    """What the agent says, as it comes."""

    text: str


@dataclass(slots=True)
class TurnSteps:
    """Reads the steps of one turn in their order, and keeps what its message is made of.

    `text` is all that the agent said; `tools` what it called, each with `id`, `name`, `input` and
    `is_error`; `questions` what it asked, by the app's ids; `context_tokens` how full its window
    is.
    """

    session_id: str
    text: str = ""
    tools: list[dict[str, object]] = field(default_factory=list)
    questions: dict[str, OpenQuestion] = field(default_factory=dict)
    context_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    _block: str = ""
    _has_said: bool = False
    _thought: str = ""
    _asked_for: set[str] = field(default_factory=set)

    def read(self, step: AgentStep) -> list[Event | TextPiece]:
        """The events that a step means."""
        if isinstance(step, AgentThinkingDelta):
            self._thought += step.text
            return []
        return [*self.end_thought(), *self._read(step)]

    def end_thought(self) -> list[Event | TextPiece]:
        """What it has thought since the last event, as one."""
        thought, self._thought = self._thought, ""
        return [{"type": "thinking", "content": thought}] if thought.strip() else []

    def _read(self, step: AgentStep) -> list[Event | TextPiece]:
        found: list[Event | TextPiece] = []
        if isinstance(step, AgentTextDelta):
            found = self._said(step.text)
        elif isinstance(step, AgentText):
            found = self._block_ended(step.text)
        elif isinstance(step, AgentToolUse):
            found = [self._use(step.id, step.tool, step.arguments)]
        elif isinstance(step, AgentToolCall):
            found = self._called(step)
        elif isinstance(step, AgentQuestion):
            found = self._question(step)
        elif isinstance(step, AgentPermissionRequest):
            found = self._permission(step)
        elif isinstance(step, AgentUsage):
            self._count(step)
        return found

    def _said(self, delta: str) -> list[Event | TextPiece]:
        if not delta:
            return []
        begins_block = not self._block
        self._block += delta
        self.text += (_BETWEEN if begins_block and self.text else "") + delta
        shown = (_BETWEEN if begins_block and self._has_said else "") + delta
        self._has_said = True
        return [TextPiece(shown)]

    def _block_ended(self, whole: str) -> list[Event | TextPiece]:
        """A block is whole; what no delta brought of it is said now."""
        missing = whole.removeprefix(self._block) if whole.startswith(self._block) else ""
        said = self._said(missing)
        self._block = ""
        return said

    def _use(self, tool_id: str, tool: str, arguments: Mapping[str, object]) -> Event:
        self._block, self._has_said = "", False
        self._asked_for.add(tool_id)
        self.tools.append({"id": tool_id, "name": tool, "input": dict(arguments)})
        return {
            "type": "tool_use",
            "tool": {"id": tool_id, "name": tool, "input": dict(arguments)},
        }

    def _called(self, step: AgentToolCall) -> list[Event | TextPiece]:
        tool_id = step.id or f"call-{len(self.tools) + 1}"
        before = (
            [] if tool_id in self._asked_for else [self._use(tool_id, step.tool, step.arguments)]
        )
        for tool in self.tools:
            if tool["id"] == tool_id:
                tool["is_error"] = step.is_error
        result: Event = {
            "type": "tool_result",
            "toolUseId": tool_id,
            "content": _cut(step.answer, _LONGEST_RESULT),
            "isError": step.is_error,
        }
        return [*before, result]

    def _question(self, step: AgentQuestion) -> list[Event | TextPiece]:
        questions = tuple(_question_of(one) for one in step.questions)
        open_question = OpenQuestion(
            id=step.id, request_id=self._request_id(step.id), questions=questions
        )
        return [self._ask(open_question)]

    def _permission(self, step: AgentPermissionRequest) -> list[Event | TextPiece]:
        """The app knows questions alone; other clients read `permission_request`."""
        asked = OpenQuestion(
            id=step.id,
            request_id=self._request_id(step.id),
            questions=(permission_question(step.tool, step.arguments, tuple(step.patterns)),),
            tool=step.tool,
            arguments=dict(step.arguments),
            patterns=tuple(step.patterns),
        )
        request: Event = {
            "type": "permission_request",
            "id": asked.request_id,
            "sessionId": self.session_id,
            "tool": step.tool,
            "input": dict(step.arguments),
            "patterns": list(step.patterns),
        }
        return [request, self._ask(asked)]

    def _ask(self, asked: OpenQuestion) -> Event:
        self.questions[asked.request_id] = asked
        return asked.event(self.session_id)

    def _request_id(self, step_id: str) -> str:
        return f"{self.session_id}-q-{step_id}"

    def _count(self, step: AgentUsage) -> None:
        self.context_tokens = step.context_tokens or self.context_tokens
        self.input_tokens, self.output_tokens = step.input_tokens, step.output_tokens
        self.cost_usd = step.cost_usd


def _question_of(said: Mapping[str, object]) -> dict[str, object]:
    """A question in the exact fields that the app casts."""
    options = said.get("options")
    return {
        "question": str(said.get("question") or ""),
        "header": str(said.get("header") or ""),
        "options": [
            {
                "label": str(one.get("label") or ""),
                "description": str(one.get("description") or ""),
            }
            for one in (options if isinstance(options, list | tuple) else ())
            if isinstance(one, Mapping)
        ],
        "multiSelect": said.get("multiSelect") is True,
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n({len(text) - most:,} characters more)"
