"""What went wrong in a turn, in the codes that the apps know, and whether it is worth asking again.
Pure.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)

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
    """An error as the app shows it; `can_retry`: the same may go well later."""

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
    """The event `typed_error` for what ended a turn."""
    code = _code_of(error)
    kind = _KINDS[code]
    wait_s = error.wait_s if isinstance(error, AgentUnavailableError) else None
    can_retry = kind.can_retry or wait_s is not None
    delay = _DELAY_MS if wait_s is None else round(wait_s * 1_000)
    actions = [dict(one) for one in kind.actions]
    if can_retry and not kind.can_retry:
        actions.insert(0, dict(_RETRY))
    is_full = isinstance(error, StorageFailedError) and error.errno in _FULL
    return {
        "type": "typed_error",
        "code": code,
        "title": kind.title,
        "message": error.message[:_LONGEST] + (_MAKE_ROOM if is_full else ""),
        "actions": actions,
        "canRetry": can_retry,
        "retryDelayMs": delay if can_retry else None,
        "originalError": type(error).__name__,
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
