"""What agents asked and a person has not answered, kept beyond the daemon in which it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import StateAccess

ALLOW: Final = "Allow"
DENY: Final = "Deny"
_ALWAYS: Final = "Allow "
_WHOLE: Final = "For the rest of this conversation"
_BEGIN: Final = "Agent"  # what an agent asks for that works only if a person allows it
_LONGEST_SHOWN: Final = 300
_LONGEST_KEPT: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A question, or a request to use a `tool`. `id` is the run's, `request_id` the app's;
    `patterns` may be allowed for the rest of the conversation.
    """

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
        """The words of the option for `allow`, `deny` or `{"pattern": ...}`. NotFoundError: it is a
        question. ActRefusedError: it has no such pattern.
        """
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

    def as_message(self, answers: object) -> str:
        """The answer as a message, for an agent that no longer waits for it."""
        said = answers if isinstance(answers, Mapping) else {}
        lines = [
            f"You asked: {one['question']}\nMy answer: {_text(said.get(one['question'], answers))}"
            for one in self.questions
        ]
        return "\n\n".join(lines)

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
            "questions": [dict(one) for one in self.questions],
            "kind": "question" if self.tool is None else "permission",
        }
        if self.tool is not None:
            found |= {
                "tool": self.tool,
                "input": dict(self.arguments),
                "patterns": list(self.patterns),
            }
        return found


class OpenQuestions:
    def __init__(self, state: StateAccess) -> None:
        self._state = state

    async def add(self, session_id: str, asked: OpenQuestion) -> None:
        kept = [one for one in await self.all(session_id) if one.request_id != asked.request_id]
        await self._put(session_id, [*kept, asked])

    async def all(self, session_id: str) -> list[OpenQuestion]:
        """The oldest first."""
        found = await self._state.get(_key(session_id), [])
        return [
            OpenQuestion(
                **{
                    **one,
                    "questions": tuple(one["questions"]),
                    "patterns": tuple(one["patterns"]),
                }
            )
            for one in (found if isinstance(found, list) else [])
        ]

    async def get(self, session_id: str, request_id: str) -> OpenQuestion:
        """NotFoundError."""
        for one in await self.all(session_id):
            if one.request_id == request_id:
                return one
        raise NotFoundError(f"no question {request_id[:80]!r} waits for an answer")

    async def drop(self, session_id: str, request_id: str) -> None:
        kept = await self.all(session_id)
        await self._put(session_id, [one for one in kept if one.request_id != request_id])

    async def clear(self, session_id: str) -> None:
        await self._state.delete(_key(session_id))

    async def _put(self, session_id: str, kept: list[OpenQuestion]) -> None:
        if not kept:
            await self.clear(session_id)
            return
        await self._state.put(_key(session_id), [asdict(one) for one in kept])


def permission_question(
    tool: str, arguments: Mapping[str, object], patterns: tuple[str, ...]
) -> dict[str, object]:
    """A permission request as a question with options, which is what the app can show."""
    begins = tool == _BEGIN
    listed = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    question = f"May the agent use {tool}? {listed[:_LONGEST_SHOWN]}"
    if begins:
        question = f"May the agent {arguments.get('name')} work in this conversation?"
    options = [
        {"label": ALLOW, "description": _WHOLE if begins else "This once"},
        *({"label": _ALWAYS + one, "description": _WHOLE} for one in patterns),
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


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(map(str, value.values()))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)[:_LONGEST_KEPT]


def _key(session_id: str) -> str:
    return f"asked.{session_id}"
