"""Combines the answers of all hooks for one event into one decision."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypeVar

from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.names import is_blocking

_T = TypeVar("_T")
Permission = Literal["allow", "ask", "defer", "deny"]

_Texts: TypeAlias = tuple[str, ...]

_STRENGTH: Mapping[Permission | None, int] = {None: 0, "allow": 1, "ask": 2, "defer": 3, "deny": 4}
_TO_THE_MODEL = frozenset({"tool.after", "tool.failed"})
_TO_THE_PERSON = "session.start"
_ENDS_A_TURN = "stop.before"
_MOST_STOPS = 8
_UNANSWERED: Mapping[Permission | None, str] = {
    "ask": "a hook wants a person to be asked first, and none is available here",
    "defer": "a hook leaves the decision for later, and nothing here can wait for it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """One hook's answer.

    `blocks` is its objection; `failure` is what went wrong with it, which stops nothing by itself.
    `ended`: when it ended, in seconds of a clock shared by all hooks.
    """

    hook: str
    blocks: str | None = None
    permission: Permission | None = None
    permission_reason: str | None = None
    updated_input: Mapping[str, object] | None = None
    updated_output: object = None
    context: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    failure: str | None = None
    more: Mapping[str, object] = field(default_factory=dict)
    stop_reason: str | None = None
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDecision:
    """Whether the action may go on, and what the hooks add to it.

    `sources` are the files that the hooks name as the origin of their text. `context` is for the
    model, `messages` for the person, `failures` for the log. `permission` asks a caller that can
    ask a person to do so; for all others an unanswered question is a refusal. `stop` ends
    everything that would follow, with `reason`. `more` are the further fields of
    `hookSpecificOutput`, such as `sessionTitle`.
    """

    allowed: bool = True
    reason: str = ""
    context: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    updated_input: Mapping[str, object] | None = None
    messages: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    stop: bool = False
    permission: Permission | None = None
    updated_output: object = None
    more: Mapping[str, object] = field(default_factory=dict)


ALLOWED = HookDecision()
"""What no hook has anything against."""


class StopObjections:
    """How often in a row hooks kept each session's turn from ending: after some times it ends all
    the same, as in Claude Code.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def mark(self, hook_event: HookEvent) -> HookEvent:
        """Tell a hook at a turn's end that it runs because of an earlier objection."""
        count = self._counts.get(hook_event.session_id or "", 0)
        if hook_event.event != _ENDS_A_TURN or not count or "stop_hook_active" in hook_event.data:
            return hook_event
        return replace(hook_event, data={**hook_event.data, "stop_hook_active": True})

    def count(self, hook_event: HookEvent, decision: HookDecision) -> HookDecision:
        """The decision, or the turn's end after too many objections in a row."""
        if hook_event.event != _ENDS_A_TURN:
            return decision
        session = hook_event.session_id or ""
        count = 0 if decision.allowed else self._counts.get(session, 0) + 1
        if 0 < count <= _MOST_STOPS:
            self._counts[session] = count
            return decision
        self._counts.pop(session, None)
        if not count:
            return decision
        words = (
            f"the turn ends, though a hook objects: it has objected {_MOST_STOPS} times in a row"
        )
        return replace(
            decision, allowed=True, permission=None, failures=(*decision.failures, words)
        )


def combine(event: str, answers: Sequence[HookAnswer]) -> HookDecision:
    """One decision from all answers, in the order of the hooks' declaration.

    A refusal wins: deny over defer over ask over allow. Of several changed inputs, that of the hook
    that ended last counts. An objection to something that has already happened is reported as a
    failure, except for the events where Claude Code passes it on. At the end of a turn, `continue:
    false` agrees to the end.
    """
    stops = [answer.stop_reason for answer in answers if answer.stop_reason is not None]
    if not is_blocking(event):
        context, messages, late = _after_the_fact(event, answers)
        return _decision(
            answers, objections=(), stops=stops, context=context, messages=messages, failures=late
        )
    if event == _ENDS_A_TURN and stops:
        return _decision(answers, objections=(), stops=stops)
    return _decision(
        answers, objections=tuple(dict.fromkeys((*_objections(answers), *stops))), stops=stops
    )


def _decision(
    answers: Sequence[HookAnswer],
    *,
    objections: tuple[str, ...],
    stops: Sequence[str],
    context: tuple[str, ...] = (),
    messages: tuple[str, ...] = (),
    failures: tuple[str, ...] = (),
) -> HookDecision:
    asked = max((answer.permission for answer in answers), key=_STRENGTH.__getitem__, default=None)
    return HookDecision(
        allowed=not objections,
        reason="\n".join(objections or stops),
        context=(*_all(answer.context for answer in answers), *context),
        sources=_all(answer.sources for answer in answers),
        updated_input=None
        if objections
        else _last([answer.updated_input for answer in sorted(answers, key=lambda one: one.ended)]),
        updated_output=_last([answer.updated_output for answer in answers]),
        messages=(*_all(answer.messages for answer in answers), *messages),
        failures=(*(answer.failure for answer in answers if answer.failure is not None), *failures),
        stop=bool(stops),
        more=dict(ChainMap(*(dict(answer.more) for answer in reversed(answers)))),
        permission="deny" if objections and asked not in _UNANSWERED else asked,
    )


def _objections(answers: Sequence[HookAnswer]) -> list[str]:
    blocks = [answer.blocks for answer in answers if answer.blocks is not None]
    if blocks:
        return blocks
    unanswered = [answer for answer in answers if answer.permission in _UNANSWERED]
    strongest = max((_STRENGTH[answer.permission] for answer in unanswered), default=0)
    return [
        f"{_UNANSWERED[answer.permission]} "
        f"({answer.hook}{f': {answer.permission_reason}' if answer.permission_reason else ''})"
        for answer in unanswered
        if _STRENGTH[answer.permission] == strongest
    ]


def _after_the_fact(event: str, answers: Sequence[HookAnswer]) -> tuple[_Texts, _Texts, _Texts]:
    """What becomes of objections to a fact: context for the model, words for the person, or
    failures.
    """
    blocks = [(answer.hook, answer.blocks) for answer in answers if answer.blocks is not None]
    words = tuple(reason for _, reason in blocks)
    if event in _TO_THE_MODEL:
        return words, (), ()
    if event == _TO_THE_PERSON:
        return (), words, ()
    return (), (), tuple(too_late(event, hook, reason) for hook, reason in blocks)


def is_handed_on(event: str) -> bool:
    """Whether an objection to that fact reaches the model or the person, as Claude Code has it."""
    return event in _TO_THE_MODEL or event == _TO_THE_PERSON


def too_late(event: str, hook: str, reason: str) -> str:
    """The words for an objection that comes when nothing can be stopped any more."""
    return f"{hook} objects to {event}, which cannot be stopped any more: {reason}"


def _all(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(text for group in groups for text in group)


def _last(values: Sequence[_T | None]) -> _T | None:
    return next((value for value in reversed(values) if value is not None), None)
