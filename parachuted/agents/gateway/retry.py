"""What a refusal of the model's server means, whether and when the request is sent again, and a
circuit breaker for a server that fails repeatedly. Pure: the caller passes the time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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


_TRIES = 4
_LONGEST_WAIT_S = 10.0
_LONGEST_SUM_S = 20.0
_FIRST_WAIT_S = 0.5
_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


def wait_before_retry(
    tries: int,
    waited_s: float,
    status: int | None,
    headers: Mapping[str, str],
    *,
    now: datetime,
    chance: float,
) -> float | None:
    """Seconds until the next attempt, or None to return the answer as it is.

    `status` None: there was no answer. `chance` in [0, 1) spreads retries over time. The server's
    headers take precedence; a wait that is too long for a person is passed on to the agent instead.
    """
    should_retry = headers.get("x-should-retry", "").lower()
    if (
        tries >= _TRIES
        or should_retry == "false"
        or (status is not None and status not in _AGAIN and should_retry != "true")
    ):
        return None
    if status is None and tries == 1:
        return 0.0  # most likely a connection that was kept, and that the far side had closed
    asked = asked_wait_s(headers, now)
    wait = (
        min(_FIRST_WAIT_S * 2 ** (tries - 1), _LONGEST_WAIT_S) * (1 - chance / 4)
        if asked is None
        else asked
    )
    return wait if wait <= _LONGEST_WAIT_S and waited_s + wait <= _LONGEST_SUM_S else None


def asked_wait_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """The wait that the headers request, in seconds; None if absent or invalid."""
    for name, unit in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        seconds = _number(text) / unit
        if seconds >= 0 and text:
            return seconds
    try:
        at = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return number if math.isfinite(number) else -1.0


_FAILURES = 5
_FIRST_S = 15.0
_LONGEST_S = 300.0


class Breaker:
    """Closed: all requests pass.

    Open: none. Half-open, once the wait is over: one passes, and its result decides.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._wait_s = _FIRST_S
        self._until: float | None = None
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether it opened, and nothing went well since."""
        return self._until is not None

    def admits(self, now: float) -> bool:
        """Whether a request may go.

        One that may must be followed by `succeeded`, `failed` or `left`.
        """
        if self._until is None:
            return True
        if now < self._until or self._is_probed:
            return False
        self._is_probed = True
        return True

    def seconds_left(self, now: float) -> float:
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def succeeded(self) -> None:
        self._failures, self._wait_s, self._until, self._is_probed = 0, _FIRST_S, None, False

    def failed(self, now: float) -> None:
        """It did not. Those that were on their way when it opened do not make the wait longer."""
        self._failures += 1
        if self._is_probed:
            self._wait_s = min(self._wait_s * 2, _LONGEST_S)
        elif self._until is not None or self._failures < _FAILURES:
            return
        self._until, self._is_probed = now + self._wait_s, False

    def left(self) -> None:
        """The caller went away before there was an answer: the next may try."""
        self._is_probed = False
