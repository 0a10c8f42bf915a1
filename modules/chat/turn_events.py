"""What an agent does and asks, and how a turn begins and fails, as events for the apps."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.modules import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentStep,
    AgentText,
    AgentTextDelta,
    AgentThinkingDelta,
    AgentToolCall,
    AgentToolUse,
)

from .messages import ToolUse
from .session import Session

Event: TypeAlias = Mapping[str, object]

ALLOW: Final = "Allow"
DENY: Final = "Deny"
_ALWAYS: Final = "Allow "
_WHOLE: Final = "For the rest of this conversation"
_BEGIN: Final = "Agent"  # what an agent asks for that works only if a person allows it
_LONGEST_SHOWN: Final = 300
_LONGEST_RESULT = 50_000
_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """`id` is the run's, `request_id` the app's."""

    id: str
    request_id: str
    questions: tuple[Mapping[str, Any], ...]
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()

    def value_of(self, answers: object) -> object:
        """What the run is answered: anything but the words of an option denies a permission."""
        if self.tool is None:
            return answers
        chosen = answers
        if isinstance(answers, Mapping):
            chosen = next(iter(answers.values()), DENY)
        if isinstance(chosen, list):
            chosen = chosen[0] if len(chosen) == 1 else DENY
        if chosen == ALLOW:
            return "allow"
        pattern = str(chosen).removeprefix(_ALWAYS)
        return {"pattern": pattern} if chosen != pattern and pattern in self.patterns else "deny"

    def words_for(self, decision: object) -> str:
        """ActRefusedError: it has no such pattern."""
        if self.tool is None:
            raise NotFoundError(f"{self.request_id[:80]!r} is a question, not a permission request")
        if isinstance(decision, Mapping):
            pattern = str(decision.get("pattern"))
            if pattern not in self.patterns:
                raise ActRefusedError(
                    f"this request can be allowed for {', '.join(self.patterns) or 'no pattern'}"
                )
            return _ALWAYS + pattern
        return ALLOW if decision == "allow" else DENY

    def event(self, session_id: str) -> dict[str, object]:
        return {
            "type": "user_question",
            "requestId": self.request_id,
            "sessionId": session_id,
            "questions": list(self.questions),
        }

    def document(self) -> dict[str, object]:
        found: dict[str, object] = {
            "request_id": self.request_id,
            "requestId": self.request_id,
            "questions": [dict(question) for question in self.questions],
            "kind": "question" if self.tool is None else "permission",
        }
        if self.tool is not None:
            found |= {
                "tool": self.tool,
                "input": dict(self.arguments),
                "patterns": list(self.patterns),
            }
        return found


def permission_question(
    tool: str, arguments: Mapping[str, object], patterns: tuple[str, ...]
) -> dict[str, object]:
    begins = tool == _BEGIN
    listed = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    question = f"May the agent use {tool}? {listed[:_LONGEST_SHOWN]}"
    if begins:
        question = f"May the agent {arguments.get('name')} work in this conversation?"
    options = [
        {"label": ALLOW, "description": _WHOLE if begins else "This once"},
        *({"label": _ALWAYS + pattern, "description": _WHOLE} for pattern in patterns),
        {
            "label": DENY,
            "description": "It does not begin" if begins else "The agent goes on without it",
        },
    ]
    return {
        "question": question.strip(),
        "header": "Permission",
        "options": options,
        "multiSelect": False,
    }


@dataclass(slots=True)
class TurnSteps:
    """`questions` are by the app's ids."""

    session_id: str
    text: str = ""
    tools: list[ToolUse] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    questions: dict[str, OpenQuestion] = field(default_factory=dict)
    _block: str = ""
    _has_said: bool = False
    _thought: str = ""

    def read(self, step: AgentStep) -> list[Event | str]:
        if isinstance(step, AgentThinkingDelta):
            self._thought += step.text
            return []
        found = self.end_thought()
        match step:
            case AgentTextDelta():
                found += self._said(step.text)
            case AgentText():
                found += self._block_ended(step.text)
            case AgentToolUse():
                found.append(self._use(step.id, step))
            case AgentToolCall():
                found += self._called(step)
            case AgentQuestion():
                found.append(self._ask(step.id, questions=tuple(map(_question_of, step.questions))))
            case AgentPermissionRequest():
                found += self._permission(step)
        return found

    def end_thought(self) -> list[Event | str]:
        thought, self._thought = self._thought, ""
        return [{"type": "thinking", "content": thought}] if thought.strip() else []

    def _said(self, delta: str) -> list[Event | str]:
        if not delta:
            return []
        begins_block = not self._block
        self._block += delta
        self.text += (_BETWEEN if begins_block and self.text else "") + delta
        visible = (_BETWEEN if begins_block and self._has_said else "") + delta
        self._has_said = True
        return [visible]

    def _block_ended(self, whole: str) -> list[Event | str]:
        """A block is whole; what no delta brought of it is said now."""
        missing = whole.removeprefix(self._block) if whole.startswith(self._block) else ""
        said = self._said(missing)
        self._block = ""
        return said

    def _use(self, tool_id: str, step: AgentToolUse | AgentToolCall) -> Event:
        self._block, self._has_said = "", False
        self.tools.append(ToolUse(id=tool_id, name=step.tool, input=dict(step.arguments)))
        return {"type": "tool_use", "tool": asdict(self.tools[-1])}

    def _called(self, step: AgentToolCall) -> list[Event | str]:
        tool_id = step.id or f"call-{len(self.tools) + 1}"
        is_known = any(tool.id == tool_id for tool in self.tools)
        before = [] if is_known else [self._use(tool_id, step)]
        if step.is_error:
            self.failed.add(tool_id)
        result: Event = {
            "type": "tool_result",
            "toolUseId": tool_id,
            "content": _cut(step.answer),
            "isError": step.is_error,
        }
        return [*before, result]

    def _permission(self, step: AgentPermissionRequest) -> list[Event | str]:
        """The app knows questions alone; other clients read `permission_request`."""
        patterns = tuple(step.patterns)
        question = self._ask(
            step.id,
            questions=(permission_question(step.tool, step.arguments, patterns),),
            tool=step.tool,
            arguments=dict(step.arguments),
            patterns=patterns,
        )
        request: Event = {
            "type": "permission_request",
            "id": question["requestId"],
            "sessionId": self.session_id,
            "tool": step.tool,
            "input": dict(step.arguments),
            "patterns": list(patterns),
        }
        return [request, question]

    def _ask(self, step_id: str, **asked: Any) -> Event:  # noqa: ANN401  of OpenQuestion
        question = OpenQuestion(id=step_id, request_id=f"{self.session_id}-q-{step_id}", **asked)
        self.questions[question.request_id] = question
        return question.event(self.session_id)


def _question_of(said: Mapping[str, object]) -> dict[str, object]:
    options = said.get("options")
    return {
        "question": str(said.get("question") or ""),
        "header": str(said.get("header") or ""),
        "options": [
            {
                "label": str(option.get("label") or ""),
                "description": str(option.get("description") or ""),
            }
            for option in (options if isinstance(options, list | tuple) else ())
            if isinstance(option, Mapping)
        ],
        "multiSelect": said.get("multiSelect") is True,
    }


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_RESULT
    return text if more <= 0 else f"{text[:_LONGEST_RESULT]}\n({more:,} characters more)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """`is_lost`: the transcript was asked for and was not there."""

    transcript: str | None = None
    injected: int = 0
    tokens: int = 0
    earlier: int = 0
    is_lost: bool = False

    def document(self) -> dict[str, object]:
        method = "context_injection" if self.injected else "new"
        return {
            "method": "sdk_resume" if self.transcript and not self.is_lost else method,
            "sdkSessionValid": self.transcript is not None and not self.is_lost,
            "sdkResumeAttempted": self.transcript is not None,
            "sdkResumeFailed": self.is_lost,
            "contextInjected": self.injected > 0,
            "messagesInjected": self.injected,
            "tokensEstimate": self.tokens,
            "previousMessageCount": self.earlier,
            "loadedFromDisk": self.earlier > 0,
            "cacheHit": False,
        }


def session_event(
    session: Session | None, resumption: Resumption, trust_level: str | None = None
) -> Event:
    """The first event of a turn; without a session its id is not known yet."""
    document = resumption.document()
    return {
        "type": "session",
        "sessionId": None if session is None else session.id,
        "trustLevel": trust_level,
        "title": None if session is None else session.title,
        "workingDirectory": None if session is None else session.working_directory,
        "sessionResume": document,
        "resumeInfo": document,
    }


_RETRY: Final = {"key": "r", "label": "Try again", "action": "retry"}
_SETTINGS: Final = {"key": "s", "label": "Settings", "action": "settings"}
_LOGIN: Final = {"key": "l", "label": "Log in", "action": "reauth"}
_NEW: Final = {"key": "n", "label": "New chat", "action": "new_session"}
_DISMISS: Final = {"key": "d", "label": "Dismiss", "action": "dismiss"}
_STATUS: Final = re.compile(r"\b(?:answered|login|API Error:?|status) \(?([45]\d\d)\b")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_MAKE_ROOM: Final = (
    "; the disk of the vault, or of the daemon's home, is full: make room there, then try again"
)
_DELAY_MS: Final = 5_000
_LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class _Kind:
    title: str
    actions: tuple[Mapping[str, str], ...]
    can_retry: bool = False


_KINDS: Final[Mapping[str, _Kind]] = {
    "invalid_api_key": _Kind("There is no login for the model", (_LOGIN, _SETTINGS)),
    "invalid_credentials": _Kind("The model refused the login", (_LOGIN, _SETTINGS)),
    "expired_token": _Kind("The login has ended", (_LOGIN,)),
    "billing_error": _Kind("A budget is used up", (_SETTINGS, _DISMISS)),
    "rate_limited": _Kind("Too many requests", (_RETRY, _DISMISS), can_retry=True),
    "service_error": _Kind("The model's server failed", (_RETRY, _DISMISS), can_retry=True),
    "service_unavailable": _Kind("The answer was cut off", (_RETRY, _DISMISS), can_retry=True),
    "context_exceeded": _Kind("The conversation is too long for the model", (_NEW, _DISMISS)),
    "network_error": _Kind("The model could not be reached", (_RETRY, _DISMISS), can_retry=True),
    "session_not_found": _Kind("There is no such conversation", (_NEW,)),
    "session_unavailable": _Kind(
        "The disk could not be written", (_RETRY, _DISMISS), can_retry=True
    ),
    "unknown_error": _Kind("The turn failed", (_DISMISS,)),
}
_OF_STATUS: Final = {
    401: "invalid_credentials",
    402: "billing_error",
    403: "invalid_credentials",
    408: "network_error",
    413: "context_exceeded",
    429: "rate_limited",
    503: "service_unavailable",
    529: "service_error",
}
_SERVER_FAILED = 500
_WORDS: Final = (
    ("prompt is too long", "context_exceeded"),
    ("login file", "invalid_credentials"),
    ("no login", "invalid_api_key"),
    ("login has ended", "expired_token"),
    ("cannot be renewed", "expired_token"),
    ("refused the login", "invalid_credentials"),
    ("budget", "billing_error"),
    ("used up", "billing_error"),
    ("could not be reached", "network_error"),
)


def typed_error(error: ParachuteError, session_id: str | None) -> dict[str, object]:
    code = _code_of(error)
    wait_s = error.wait_s if isinstance(error, AgentUnavailableError) else None
    can_retry = _KINDS[code].can_retry or wait_s is not None
    delay_ms = _DELAY_MS if wait_s is None else round(wait_s * 1_000)
    is_full = isinstance(error, StorageFailedError) and error.errno in _FULL
    event = _failed(code, error.message[:_LONGEST] + (_MAKE_ROOM if is_full else ""), session_id)
    actions = _KINDS[code].actions
    if can_retry and _RETRY not in actions:
        actions = (_RETRY, *actions)
    return event | {
        "actions": list(actions),
        "canRetry": can_retry,
        "retryDelayMs": delay_ms if can_retry else None,
        "originalError": type(error).__name__,
    }


def cut_off(session_id: str | None) -> dict[str, object]:
    """The same for a turn that the daemon's end has cut off."""
    message = "The daemon ended while it was being written. Ask again."
    return _failed("service_unavailable", message, session_id)


def _failed(code: str, message: str, session_id: str | None) -> dict[str, object]:
    return {
        "type": "typed_error",
        "code": code,
        "title": _KINDS[code].title,
        "message": message,
        "actions": list(_KINDS[code].actions),
        "canRetry": True,
        "retryDelayMs": 0,
        "originalError": None,
        "sessionId": session_id,
    }


def _code_of(error: ParachuteError) -> str:
    if isinstance(error, NotFoundError):
        return "session_not_found"
    if isinstance(error, StorageFailedError):
        return "session_unavailable"
    if isinstance(error, ActRefusedError) or not isinstance(error, AgentFailedError):
        return "unknown_error"
    text = error.message
    status = _STATUS.search(text)
    if status is not None:
        number = int(status[1])
        found = _OF_STATUS.get(number, "service_error" if number >= _SERVER_FAILED else "")
        if found:
            return found
    folded = text.casefold()
    for words, code in _WORDS:
        if words in folded:
            return code
    is_passing = isinstance(error, AgentUnavailableError | AgentStoppedError)
    return "service_unavailable" if is_passing else "unknown_error"
