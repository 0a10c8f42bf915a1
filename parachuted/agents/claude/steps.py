"""Turns the CLI's messages into steps and a run's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from parachuted.agents.job import (
    Job,
    SessionStep,
    Step,
    TextDelta,
    TextStep,
    ThinkingDelta,
    ToolCallStep,
    ToolResult,
    ToolUseStep,
    UsageStep,
)
from parachuted.errors import AgentFailedError, AgentStoppedError, AgentUnavailableError

_SYNTHETIC = "<synthetic>"
_API_ERROR = "API Error: "
_REASON_CHARS = 500
# and a gateway to look at, which is the daemon's own: Claude Code adds it
_ADVICE = " This is a server-side issue"
_LOGIN_REFUSED = frozenset({401, 403})
# the same request may be answered later: when a server is up again, or a person has put something
# right; None: no answer
_PASSING = _LOGIN_REFUSED | {None, 402, 404, 408, 409, 429, 500, 502, 503, 504, 529}
_OUTPUT, _CACHE_READ = "output_tokens", "cache_read_input_tokens"
_PROMPT = ("input_tokens", _CACHE_READ, "cache_creation_input_tokens")


class StepReader:
    """One run's messages, read in order.

    `spent` is what it cost until now, in US dollars. `resumed` is the session that it goes on
    with, `chosen_session` the one that we chose, `session` the one that the CLI has named.
    """

    def __init__(self, job: Job, resumed: str | None, spent: Callable[[], float]) -> None:
        self._resumed, self._spent, self._max_turns = resumed, spent, job.limits.max_turns
        self._is_boxed = job.native is not None
        self._is_conversation = job.conversation is not None
        self._names = {tool.full_name: tool.name for tool in job.tools}
        self._streamed, self._present = _counts(None), _counts(None)
        self._answers: set[str] = set()
        self._open: dict[str, ToolUseBlock] = {}
        self._ended_session: str | None = None
        self.chosen_session: str | None = None
        self.session: str | None = None
        self.is_asked = False

    @property
    def turns(self) -> int:
        return len(self._answers)

    @property
    def next_session(self) -> str | None:
        """The one that a later run can ask for; a container's goes with it."""
        return None if self._is_boxed else self.chosen_session or self._ended_session

    def read(self, message: Message) -> Iterator[Step]:
        """Raises AgentFailedError for a message that ends the run badly."""
        if isinstance(message, AssistantMessage) and message.model != _SYNTHETIC:
            yield from self._read_answer(message)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            yield from self._read_results(message.content)
        elif isinstance(message, StreamEvent) and message.parent_tool_use_id is None:
            yield from self._read_event(message.event)
        elif isinstance(message, SystemMessage) and message.subtype == "init":
            yield from self._read_start(message.data)
        elif isinstance(message, ResultMessage):
            self._read_end(message)

    def _read_answer(self, message: AssistantMessage) -> Iterator[Step]:
        self._answers.add(message.message_id or f"#{len(self._answers)}")
        for block in message.content:
            if isinstance(block, TextBlock) and block.text.strip():
                yield TextStep(text=block.text)
            elif isinstance(block, ToolUseBlock):
                self._open[block.id] = block
                if self._is_conversation:
                    tool = self._name(block.name)
                    yield ToolUseStep(id=block.id, tool=tool, arguments=_arguments(block))

    def _read_start(self, data: Mapping[str, Any]) -> Iterator[Step]:
        """Each turn of the CLI begins with its session's name."""
        session = data.get("session_id")
        if self._is_conversation and isinstance(session, str) and session != self.session:
            self.session = session
            tools, model = data.get("tools"), data.get("model")
            listed = tools if isinstance(tools, list) else []
            names = [self._name(name) for name in listed if isinstance(name, str)]
            yield SessionStep(
                session_id="" if self._is_boxed else self.chosen_session or session,
                is_resumed=session == self._resumed,
                tools=tuple(names),
                model=model if isinstance(model, str) else "",
            )

    def _read_event(self, event: Mapping[str, Any]) -> Iterator[Step]:
        kind = event.get("type") if self._is_conversation else None
        delta, message = event.get("delta"), event.get("message")
        if kind == "content_block_delta" and isinstance(delta, Mapping):
            text, thought = delta.get("text"), delta.get("thinking")
            if isinstance(text, str) and text:
                yield TextDelta(text=text)
            elif isinstance(thought, str) and thought:
                yield ThinkingDelta(text=thought)
        elif kind == "message_start" and isinstance(message, Mapping):
            self._present |= _counts(message.get("usage"))
        elif kind == "message_delta":
            self._present |= _counts(event.get("usage"))
        elif kind == "message_stop":
            answer, self._present = self._present, _counts(None)
            self._streamed.update(answer)
            yield UsageStep(
                input_tokens=_prompt(self._streamed),
                output_tokens=self._streamed[_OUTPUT],
                cache_read_tokens=self._streamed[_CACHE_READ],
                cost_usd=self._spent(),
                context_tokens=_prompt(answer) + answer[_OUTPUT],
            )

    def _read_results(self, blocks: Sequence[object]) -> Iterator[Step]:
        for block in blocks:
            if isinstance(block, ToolResultBlock) and block.tool_use_id in self._open:
                call = self._open.pop(block.tool_use_id)
                yield ToolCallStep(
                    tool=self._name(call.name),
                    arguments=_arguments(call),
                    result=_result(block),
                    id=call.id,
                )

    def _name(self, full: str) -> str:
        return self._names.get(full, full)

    def _read_end(self, message: ResultMessage) -> None:
        is_refused = message.stop_reason == "refusal"
        if not is_refused:  # it would refuse again
            self._ended_session = message.session_id
        if message.subtype == "error_max_turns":
            raise AgentFailedError(f"the agent was still at work after {self._max_turns} turns")
        if not message.is_error:
            return
        reason = "; ".join(message.errors or ()) or message.result or message.subtype
        reason, status = reason[:_REASON_CHARS], message.api_error_status
        if is_refused:
            said = reason.removeprefix(_API_ERROR)
            raise AgentFailedError(f"the model refused to answer: {said}")
        if message.terminal_reason != "api_error" or status not in _PASSING:
            raise AgentFailedError(f"the agent failed: {reason}")
        # it passes: the work is done again later; half of it may have been done
        why = _why_unavailable(status, reason)
        raise AgentStoppedError(why) if self._answers else AgentUnavailableError(why)


def _counts(usage: object) -> Counter[str]:
    found = usage if isinstance(usage, Mapping) else {}
    return Counter({name: _whole(found.get(name)) for name in (*_PROMPT, _OUTPUT)})


def _prompt(counts: Mapping[str, int]) -> int:
    return sum(counts[name] for name in _PROMPT)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _arguments(call: ToolUseBlock) -> dict[str, Any]:
    return call.input if isinstance(call.input, dict) else {}


def _why_unavailable(status: int | None, reason: str) -> str:
    if status in _LOGIN_REFUSED:
        return f"the model refused the login ({status}); see `parachute auth status`"
    what = f"answered {status}" if status else "could not be reached"
    ours = reason.partition(_ADVICE)[0].removeprefix(f"{_API_ERROR}{status} ")
    return f"the model {what}: {ours}"[:_REASON_CHARS]


def _result(block: ToolResultBlock) -> ToolResult:
    text = block.content
    if not isinstance(text, str):
        text = "\n".join(str(part.get("text", "")) for part in text or ())
    text = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return ToolResult(text=text, is_error=bool(block.is_error))
