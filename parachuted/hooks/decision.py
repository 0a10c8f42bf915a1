"""Reads the answers of hooks, and combines them into one decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parachuted.hooks.hook import BLOCKING, NEVER_CLOSED, Hook
from parachuted.hooks.runner import ProcessResult
from parachuted.texts.json_limits import check_json

_BLOCKED = 2
_LONGEST_CONTEXT = 10_000
_SHOWN = 300
_TO_THE_MODEL = frozenset({"tool.after"})
_HANDED_ON = BLOCKING | _TO_THE_MODEL
_TEXT_IS_CONTEXT = frozenset({"prompt.before", "session.start"})
_NO_REASON = "{} objects, and does not say why"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """`blocks` is its objection, `failure` stops nothing by itself, `message` is for the person."""

    hook: str
    blocks: str | None = None
    updated_input: Mapping[str, object] | None = None
    context: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    message: str | None = None
    failure: str | None = None
    stop_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDecision:
    """`context` is for the model, from the files `sources`. `stop` ends all that would follow."""

    allowed: bool = True
    reason: str = ""
    context: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    updated_input: Mapping[str, object] | None = None
    stop: bool = False


ALLOWED = HookDecision()
"""What no hook has anything against."""


def combine(event: str, answers: Sequence[HookAnswer]) -> HookDecision:
    """One decision from all answers, in the order of declaration. A refusal wins; of several
    changed inputs the last counts. An objection after a tool's call is context for the model. At
    the end of a turn, `continue: false` agrees to the end.
    """
    blocks = [answer.blocks for answer in answers if answer.blocks is not None]
    stops = [answer.stop_reason for answer in answers if answer.stop_reason is not None]
    context = [text for answer in answers for text in answer.context]
    objections: list[str] = []
    if event in _TO_THE_MODEL:
        context += blocks
    elif event in BLOCKING and not (event == NEVER_CLOSED and stops):
        objections = [*blocks, *stops]
    inputs = [answer.updated_input for answer in answers if answer.updated_input is not None]
    return HookDecision(
        allowed=not objections,
        reason="\n".join(dict.fromkeys(objections or stops)),
        context=tuple(context),
        sources=tuple(source for answer in answers for source in answer.sources),
        updated_input=inputs[-1] if inputs and not objections else None,
        stop=bool(stops),
    )


def is_too_late(event: str) -> bool:
    """Whether an objection to it reaches neither the actor nor the model."""
    return event not in _HANDED_ON


class _Specific(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    permission: Literal["allow", "ask", "deny"] | None = Field(None, alias="permissionDecision")
    permission_reason: str | None = Field(None, alias="permissionDecisionReason")
    updated_input: dict[str, object] | None = Field(None, alias="updatedInput")
    context: str | None = Field(None, alias="additionalContext")
    sources: list[str] = Field(default_factory=list)


class _Said(_Specific):
    """The JSON object; what Claude Code has in an object of its own may stand beside the others."""

    goes_on: bool = Field(True, alias="continue")  # noqa: FBT003  the field's default
    stop_reason: str | None = Field(None, alias="stopReason")
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    message: str | None = Field(None, alias="systemMessage")
    specific: _Specific | None = Field(None, alias="hookSpecificOutput")


def read_answer(hook: Hook, ran: ProcessResult, *, fails_closed: bool = False) -> HookAnswer:
    """The hook's answer. `fails_closed`: one of a blocking event that ran and failed objects,
    unless its settings say otherwise. One that could not be started always objects: the act was not
    checked. No broken hook keeps an agent from stopping.
    """
    printed, failure = _text(ran.stdout), None
    answer = HookAnswer(hook=hook.id)
    if printed.startswith("{"):
        try:
            answer = _read_json(hook, printed)
        except ValueError as error:
            failure = f"answered with JSON that is not understood: {_first(error)}"
    elif printed and hook.event in _TEXT_IS_CONTEXT and ran.exit_code == 0:
        answer = replace(answer, context=(_short(printed),))
    if ran.problem is not None:
        failure = f"did not do its work: {ran.problem}"
    elif ran.exit_code == _BLOCKED:
        why = answer.blocks or _text(ran.stderr) or _NO_REASON.format(hook.id)
        return replace(answer, blocks=why)
    elif ran.exit_code != 0:
        first = _text(ran.stderr).partition("\n")[0][:_SHOWN]
        failure = f"ended with {ran.exit_code}{f': {first}' if first else ''}"
    if failure is None:
        return answer
    failure = f"{hook.id} {failure}"
    closes = fails_closed if hook.blocks_on_failure is None else hook.blocks_on_failure
    is_closed = (closes or not ran.was_started) and hook.may_block and hook.event != NEVER_CLOSED
    blocks = answer.blocks or (failure if is_closed else None)
    return replace(answer, failure=failure, blocks=blocks)


def _read_json(hook: Hook, text: str) -> HookAnswer:
    """ValueError where it is no answer."""
    check_json(text.encode("utf-8", "replace"))
    said = _Said.model_validate_json(text)
    special = said.specific or said
    reason = special.permission_reason or said.reason
    is_no = said.decision == "block" or special.permission in {"deny", "ask"}
    return HookAnswer(
        hook=hook.id,
        blocks=(reason or _NO_REASON.format(hook.id)) if is_no else None,
        updated_input=special.updated_input,
        context=(_short(special.context),) if special.context else (),
        sources=tuple(special.sources),
        message=said.message,
        stop_reason=None if said.goes_on else said.stop_reason or f"{hook.id} says to stop",
    )


def outcome_of(hook: Hook, answer: HookAnswer) -> str:
    if answer.failure is not None:
        return f"{'blocked' if answer.blocks else 'failed'}: {answer.failure}"
    if answer.blocks is not None:
        return f"{'blocked' if hook.may_block else 'objected'}: {answer.blocks}"
    return "stopped" if answer.stop_reason is not None else "allowed" if hook.may_block else "done"


def _first(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip().removeprefix("\ufeff").lstrip()


def _short(text: str) -> str:
    """Context for a model, which every later turn carries along."""
    if len(text) <= _LONGEST_CONTEXT:
        return text
    return f"{text[:_LONGEST_CONTEXT]}\n[cut: these are the first of {len(text):,} characters]"
