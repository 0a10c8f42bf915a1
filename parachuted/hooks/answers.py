"""Reads a hook's answer from its exit code and output, following Claude Code's protocol row
by row.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parachuted.hooks.decision import HookAnswer, Permission
from parachuted.hooks.hook import Hook
from parachuted.hooks.names import NEVER_CLOSED, claude_name, is_blocking
from parachuted.hooks.runner import ProcessResult
from parachuted.json_limits import check_json

_BLOCKED = 2
_BYTE_ORDER_MARK = "\ufeff"
_TEXT_IS_CONTEXT = frozenset({"prompt.before", "session.start", "compact.before"})
_BACKGROUND = re.compile(
    r'\{\s*"async"\s*:\s*true\s*(?:,\s*"asyncTimeout"\s*:\s*\d+\s*)?\}\s*(?=\{)'
)
_SHOWN = 300
_NO_REASON = "{} objects, and does not say why"


class _Specific(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    event: str = Field(alias="hookEventName")
    permission: Permission | None = Field(None, alias="permissionDecision")
    permission_reason: str | None = Field(None, alias="permissionDecisionReason")
    updated_input: dict[str, object] | None = Field(None, alias="updatedInput")
    updated_output: object = Field(None, alias="updatedToolOutput")
    updated_mcp_output: object = Field(None, alias="updatedMCPToolOutput")
    context: str | None = Field(None, alias="additionalContext")
    sources: list[str] = Field(default_factory=list)


class _AnswerDocument(BaseModel):
    """The supported fields of the JSON object.

    `terminalSequence` is not: there is no terminal here, nor a transcript to hide from.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    goes_on: bool = Field(True, alias="continue")  # noqa: FBT003  the field's default
    stop_reason: str | None = Field(None, alias="stopReason")
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    suppresses: bool = Field(False, alias="suppressOutput")  # noqa: FBT003  the same
    message: str | None = Field(None, alias="systemMessage")
    terminal: str | None = Field(None, alias="terminalSequence")
    is_async: bool | None = Field(None, alias="async")
    async_timeout_ms: float | None = Field(None, alias="asyncTimeout")
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
    text = _BACKGROUND.sub("", _text(ran.stdout), count=1)
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
    """What a hook that failed had printed, where the whole of it is an answer."""
    try:
        return _read_json(hook, text) if text.startswith("{") else None
    except (ValueError, RecursionError, _UnreadableError):
        return None


def _as_context(hook: Hook, text: str) -> tuple[str, ...]:
    return (text,) if text and hook.event in _TEXT_IS_CONTEXT else ()


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
        updated_output=_output(specific),
        context=(specific.context,) if specific and specific.context else (),
        sources=tuple(specific.sources) if specific else (),
        messages=(document.message,) if document.message else (),
        more=(specific.model_extra if specific else None) or {},
        stop_reason=None if document.goes_on else document.stop_reason or f"{hook.id} says to stop",
    )


def _output(specific: _Specific | None) -> object:
    if specific is None:
        return None
    return (
        specific.updated_output
        if specific.updated_output is not None
        else specific.updated_mcp_output
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip().removeprefix(_BYTE_ORDER_MARK).lstrip()


def _ending(code: int, stderr: str) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    first = stderr.partition("\n")[0].strip()[:_SHOWN]
    return f"{how}: {first}" if first else how
