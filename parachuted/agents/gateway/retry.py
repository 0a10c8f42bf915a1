"""Whether and when a request that failed before its answer is sent again, and a circuit breaker
for a server that fails repeatedly. Pure: the caller passes the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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
        """Seconds until a request may pass."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def succeeded(self) -> None:
        """The server answered."""
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
