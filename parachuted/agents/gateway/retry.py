"""Whether and when a request that failed before its answer is sent again. Pure."""

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
    told = headers.get("x-should-retry", "").lower()
    if (
        tries >= _TRIES
        or told == "false"
        or (status is not None and status not in _AGAIN and told != "true")
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
