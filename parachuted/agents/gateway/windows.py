"""Windows: how much of its account's allowance a login has used, as the headers of the model's answers say. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from parachuted.times import time_of

_PREFIX = "anthropic-ratelimit-unified-"
_NAMES = {
    "five_hour": "5h",
    "seven_day": "7d",
    "seven_day_sonnet": "7d_sonnet",
    "seven_day_opus": "7d_opus",
}  # as apps and as the server say
_MOST_PERCENT = 1000.0


def read_windows(headers: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The windows that an answer's headers tell of: `utilization` in percent, `resets_at` a time or None. An API key has none."""
    found: dict[str, dict[str, object]] = {}
    for name, short in _NAMES.items():
        used = _number(headers.get(f"{_PREFIX}{short}-utilization"))
        if used is not None and used >= 0:
            resets = _time(_number(headers.get(f"{_PREFIX}{short}-reset")))
            found[name] = {"utilization": round(min(used * 100, _MOST_PERCENT), 1), "resets_at": resets}
    return found


def still_open(windows: Mapping[str, Mapping[str, object]], now: datetime) -> dict[str, Mapping[str, object]]:
    """Those that have not ended; of one that has, nothing is known until the next answer."""
    return {
        name: window
        for name, window in windows.items()
        if not isinstance(window["resets_at"], str) or datetime.fromisoformat(window["resets_at"]) > now
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
