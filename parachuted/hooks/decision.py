"""Reads the answers of hooks, as Claude Code's protocol has them, and combines them into one
decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parachuted.hooks.hook import NEVER_CLOSED, Hook, claude_name, is_blocking
from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.runner import ProcessResult
from parachuted.json_limits import check_json

_T = TypeVar("_T")
Permission = Literal["allow", "ask", "deny"]

_Texts: TypeAlias = tuple[str, ...]

_STRENGTH: Mapping[Permission | None, int] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_TO_THE_MODEL = frozenset({"tool.after", "tool.failed"})
_TO_THE_PERSON = "session.start"
_ENDS_A_TURN = "stop.before"
_MOST_STOPS = 8
_UNANSWERED = "a hook wants a person to be asked first, and none is available here"


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
    stop_reason: str | None = None
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDecision:
    """Whether the action may go on, and what the hooks add to it.

    `sources` are the files that the hooks name as the origin of their text. `context` is for the
    model, `messages` for the person, `failures` for the log. `permission` asks a caller that can
    ask a person to do so; for all others an unanswered question is a refusal. `stop` ends
    everything that would follow, with `reason`.
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

    A refusal wins: deny over ask over allow. Of several changed inputs, that of the hook
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
        permission="deny" if objections and asked != "ask" else asked,
    )


def _objections(answers: Sequence[HookAnswer]) -> list[str]:
    blocks = [answer.blocks for answer in answers if answer.blocks is not None]
    if blocks:
        return blocks
    return [
        f"{_UNANSWERED} "
        f"({answer.hook}{f': {answer.permission_reason}' if answer.permission_reason else ''})"
        for answer in answers
        if answer.permission == "ask"
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


_BLOCKED = 2
_LONGEST_CONTEXT = 10_000
_BYTE_ORDER_MARK = "\ufeff"
_TEXT_IS_CONTEXT = frozenset({"prompt.before", "session.start", "compact.before"})
_SHOWN = 300
_NO_REASON = "{} objects, and does not say why"


class _Specific(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    event: str = Field(alias="hookEventName")
    permission: Permission | None = Field(None, alias="permissionDecision")
    permission_reason: str | None = Field(None, alias="permissionDecisionReason")
    updated_input: dict[str, object] | None = Field(None, alias="updatedInput")
    updated_output: object = Field(None, alias="updatedToolOutput")
    context: str | None = Field(None, alias="additionalContext")
    sources: list[str] = Field(default_factory=list)


class _AnswerDocument(BaseModel):
    """The fields of the JSON object that have a meaning here."""

    model_config = ConfigDict(extra="ignore", strict=True)

    goes_on: bool = Field(True, alias="continue")  # noqa: FBT003  the field's default
    stop_reason: str | None = Field(None, alias="stopReason")
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    message: str | None = Field(None, alias="systemMessage")
    specific: _Specific | None = Field(None, alias="hookSpecificOutput")


class _UnreadableError(Exception):
    """Meant as JSON, and none that is understood."""


def read_answer(hook: Hook, ran: ProcessResult, *, fails_closed: bool = False) -> HookAnswer:
    """The hook's answer.

    `fails_closed`: a hook of a blocking event that ran and failed objects, unless its settings say
    otherwise. One that could not be started always objects, since the action was not checked.
    """
    if ran.timed_out:
        return failed(
            hook,
            f"was ended after {hook.timeout_s:g} s without an answer",
            fails_closed=fails_closed,
        )
    text = _text(ran.stdout)
    if ran.exit_code == 0 and ran.problem is None:
        return _read_output(hook, text, is_cut=ran.is_cut, fails_closed=fails_closed)
    document = _read_beside_failure(hook, text)
    if ran.exit_code == _BLOCKED:
        document = document or HookAnswer(hook=hook.id)
        return replace(
            document,
            permission=None,
            blocks=document.blocks or _text(ran.stderr) or _NO_REASON.format(hook.id),
        )
    if ran.problem is not None or ran.exit_code is None:
        failure = f"did not do its work: {ran.problem or 'it could not be run'}"
    else:
        failure = _ending(ran.exit_code, _text(ran.stderr))
    if document is None:
        return _failure(hook, ran, failure, fails_closed=fails_closed)
    answer = failed(
        hook, failure, fails_closed=fails_closed
    )  # it ran, whatever its exit code says: it has answered
    return replace(document, failure=answer.failure, blocks=document.blocks or answer.blocks)


def failed(hook: Hook, what: str, *, fails_closed: bool = False) -> HookAnswer:
    """The answer of a hook that could not give one: an objection where it is to fail closed, else
    only something for the log.

    Nothing waits for an asynchronous hook, and an agent is never kept from stopping by a hook that
    is broken.
    """
    failure = f"{hook.id} {what}"
    closed = (
        (fails_closed and is_blocking(hook.event))
        if hook.blocks_on_failure is None
        else hook.blocks_on_failure
    )
    return HookAnswer(
        hook=hook.id, failure=failure, blocks=failure if closed and _may_close(hook) else None
    )


def _failure(hook: Hook, ran: ProcessResult, what: str, *, fails_closed: bool) -> HookAnswer:
    answer = failed(hook, what, fails_closed=fails_closed)
    if ran.was_started or not is_blocking(hook.event) or not _may_close(hook):
        return answer
    return HookAnswer(hook=hook.id, failure=answer.failure, blocks=answer.failure)


def _may_close(hook: Hook) -> bool:
    return not hook.is_async and hook.event != NEVER_CLOSED


def _read_output(hook: Hook, text: str, *, is_cut: bool, fails_closed: bool) -> HookAnswer:
    if not text.startswith("{"):
        return HookAnswer(hook=hook.id, context=_as_context(hook, text))
    try:
        return _read_json(hook, text)
    except (ValueError, RecursionError):
        what = "printed more than is read" if is_cut else "printed what begins like JSON but is not"
        broken = failed(hook, f"{what}: {text[:_SHOWN]!r}", fails_closed=fails_closed)
        return replace(broken, context=_as_context(hook, text))
    except _UnreadableError as error:
        return failed(
            hook, f"answered with JSON that is not understood: {error}", fails_closed=fails_closed
        )


def _read_json(hook: Hook, text: str) -> HookAnswer:
    """Raises ValueError and RecursionError if it is not JSON, _UnreadableError if it is not an
    answer.
    """
    check_json(text.encode())
    return _answer(hook, _check(hook, json.loads(text, parse_constant=_refuse_constant)))


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _read_beside_failure(hook: Hook, text: str) -> HookAnswer | None:
    try:
        return _read_json(hook, text) if text.startswith("{") else None
    except (ValueError, RecursionError, _UnreadableError):
        return None


def _as_context(hook: Hook, text: str) -> tuple[str, ...]:
    return (_short(text),) if text and hook.event in _TEXT_IS_CONTEXT else ()


def _short(text: str) -> str:
    """Context for a model, which every later turn carries along."""
    if len(text) <= _LONGEST_CONTEXT:
        return text
    return f"{text[:_LONGEST_CONTEXT]}\n[cut: these are the first of {len(text):,} characters]"


def _check(hook: Hook, value: object) -> _AnswerDocument:
    try:
        document = _AnswerDocument.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise _UnreadableError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    names = {hook.event, claude_name(hook.event) or hook.event}
    if document.specific is not None and document.specific.event not in names:
        raise _UnreadableError(
            f"hookEventName should be {' or '.join(sorted(names))}, not "
            f"{document.specific.event[:80]!r}"
        )
    return document


def _answer(hook: Hook, document: _AnswerDocument) -> HookAnswer:
    specific = document.specific
    permission = (
        specific.permission
        if specific and claude_name(hook.event) in {None, "PreToolUse"}
        else None
    )
    if permission is None and hook.event == "tool.before" and document.decision == "approve":
        permission = "allow"
    reason = (specific.permission_reason if specific else None) or document.reason
    blocks = permission == "deny" or document.decision == "block"
    return HookAnswer(
        hook=hook.id,
        blocks=(reason or _NO_REASON.format(hook.id)) if blocks else None,
        permission="deny" if blocks and is_blocking(hook.event) else permission,
        permission_reason=reason,
        updated_input=specific.updated_input if specific else None,
        updated_output=specific.updated_output if specific else None,
        context=(_short(specific.context),) if specific and specific.context else (),
        sources=tuple(specific.sources) if specific else (),
        messages=(document.message,) if document.message else (),
        stop_reason=None if document.goes_on else document.stop_reason or f"{hook.id} says to stop",
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip().removeprefix(_BYTE_ORDER_MARK).lstrip()


def _ending(code: int, stderr: str) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    first = stderr.partition("\n")[0].strip()[:_SHOWN]
    return f"{how}: {first}" if first else how


def outcome_of(hook: Hook, answer: HookAnswer) -> str:
    """What its answer came to, in a word and a reason."""
    if answer.failure is not None:
        return f"{'blocked' if answer.blocks else 'failed'}: {answer.failure}"
    if answer.blocks is not None:
        return f"{'blocked' if hook.may_block else 'objected'}: {answer.blocks}"
    return answer.permission or (
        "stopped" if answer.stop_reason is not None else "allowed" if hook.may_block else "done"
    )
