"""Explains refusals of the model's server, as API statuses and as text for a person. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

ERROR_EVENT = b"event: error"
_BEGINNING = (b"event: message_start", b"event: content_block_start", b"event: ping")
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_BAD_REQUEST, _NO_CREDIT, _UNKNOWN, _RATE = 400, 402, 404, 429
_LOGIN_REFUSED = frozenset({401, 403})
_PASSING = _LOGIN_REFUSED | {_NO_CREDIT, _UNKNOWN, _RATE, 408, 409, 500, 502, 503, 504, 529}
_CREDIT_WORDS = "credit balance"
_SAID_CHARS = 300


def is_passing(status: int | None) -> bool:
    """Whether the same request may be answered later: when a server is up again, or a person has
    put something right. None: no answer.
    """
    return status is None or status in _PASSING


def read_refusal(status: int, body: bytes) -> tuple[int, bytes]:
    """The status and JSON body of an error, in whichever form it came.

    An error event before a stream's content has status 200, and Anthropic answers 400 when the
    credit is used up.
    """
    if (event := _first_content(body)).startswith(ERROR_EVENT):
        body = event.partition(b"data:")[2].partition(b"\n")[0].strip()
        return _STATUS.get(_error(body).get("type", ""), 500), body
    if status == _BAD_REQUEST and _CREDIT_WORDS in _error(body).get("message", "").lower():
        return _NO_CREDIT, body
    return status, body


def has_no_content(stream: bytes) -> bool:
    """Whether a stream of events holds, so far, neither content nor the whole of an error."""
    event = _first_content(stream)
    return b"\n\n" not in event if event.startswith(ERROR_EVENT) else b"\n" not in event


def problem_of(status: int, body: bytes, *, host: str, model: str) -> tuple[str, str] | None:
    """The subject and the words of what a person has to put right, or wait for, before there is an
    answer; None: this request's own fault, or a server that fails.
    """
    said = _error(body).get("message", "")[:_SAID_CHARS]
    words = f" ({status}: {said})" if said else f" ({status})"
    if status in _LOGIN_REFUSED:
        return (
            "model",
            f"{host} refused the login{words}; `parachute auth status` shows which one is used",
        )
    if status == _NO_CREDIT:
        return (
            "model",
            f"the account at {host} has no credit left{words}; runs that need it wait until it has",
        )
    if status == _UNKNOWN:
        return (
            f"model:{model}",
            (
                f"{host} does not know the model {model}{words}; check the settings agent.model "
                "and agent.base_url"
            ),
        )
    if status == _RATE:
        return "model", f"{host} limits how often the model is asked{words}; runs that need it wait"
    return None


def _first_content(stream: bytes) -> bytes:
    """The events, without the leading ones that carry no content."""
    events = stream.replace(b"\r\n", b"\n")
    while events.startswith(_BEGINNING):
        events = events.partition(b"\n\n")[2]
    return events


def _error(body: bytes) -> Mapping[str, str]:
    """The texts of an error in the API's shape; other servers send anything."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return (
        {name: text for name, text in error.items() if isinstance(text, str)}
        if isinstance(error, dict)
        else {}
    )
