"""How much of a login's allowance is used, as the model's response headers report it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from parachuted.times import time_of

_PREFIX = "anthropic-ratelimit-unified-"
_USED = re.compile(rf"{_PREFIX}([a-z0-9_-]{{1,40}})-utilization", re.IGNORECASE)
_MOST = 20
_MOST_PERCENT = 1000.0


def read_windows(headers: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The windows that an answer's headers tell of, by the names that these give them, such as `5h`
    and `7d`: `utilization` in percent, `resets_at` a time or None. An API key has none.
    """
    found: dict[str, dict[str, object]] = {}
    for name in [match[1].lower() for header in headers if (match := _USED.fullmatch(header))][
        :_MOST
    ]:
        used = _number(headers.get(f"{_PREFIX}{name}-utilization"))
        if used is not None and used >= 0:
            resets = _time(_number(headers.get(f"{_PREFIX}{name}-reset")))
            found[name] = {
                "utilization": round(min(used * 100, _MOST_PERCENT), 1),
                "resets_at": resets,
            }
    return found


def still_open(
    windows: Mapping[str, Mapping[str, object]], now: datetime
) -> dict[str, Mapping[str, object]]:
    """Those that have not ended; of one that has, nothing is known until the next answer."""
    return {
        name: window
        for name, window in windows.items()
        if not isinstance(window["resets_at"], str)
        or datetime.fromisoformat(window["resets_at"]) > now
    }


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _time(seconds: float | None) -> str | None:
    try:
        return None if seconds is None else time_of(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return None
