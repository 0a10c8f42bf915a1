"""Which headers and query parameters pass the gateway, and what the model's answer says in them
of a login's allowance. Pure; whatever is not listed is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from parachuted.times import time_of

_WINDOW_PREFIX = "anthropic-ratelimit-unified-"
_USED = re.compile(rf"{_WINDOW_PREFIX}([a-z0-9_-]{{1,40}})-utilization", re.IGNORECASE)
_MOST_WINDOWS = 20
_MOST_PERCENT = 1000.0


def read_windows(headers: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The windows that an answer's headers tell of, by the names that these give them, such as `5h`
    and `7d`: `utilization` in percent, `resets_at` a time or None. An API key has none.
    """
    found: dict[str, dict[str, object]] = {}
    for name in [match[1].lower() for header in headers if (match := _USED.fullmatch(header))][
        :_MOST_WINDOWS
    ]:
        used = _number(headers.get(f"{_WINDOW_PREFIX}{name}-utilization"))
        if used is not None and used >= 0:
            resets = _time(_number(headers.get(f"{_WINDOW_PREFIX}{name}-reset")))
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


MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
_QUERY = re.compile(r"[A-Za-z0-9=&_.,-]{0,200}")
_UP = frozenset({"accept", "content-type", "user-agent", "x-app"})
_UP_PREFIXES = ("anthropic-", "x-stainless-")
_DOWN = frozenset(
    {
        "content-type",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "cache-control",
        "content-encoding",
    }
)
_DOWN_PREFIXES = ("anthropic-",)
_VERSION = "2023-06-01"
_BETA = "anthropic-beta"


def allowed(method: str, target: str) -> tuple[str, str] | None:
    """The path and query of a request that passes, or None.

    `target` is as it was sent, so that no spelling of a path widens this.
    """
    path, _, query = target.partition("?")
    if method == "HEAD" and target == "/":
        return path, ""
    return (
        (path, query)
        if method == "POST" and path in {MESSAGES, COUNT} and _QUERY.fullmatch(query)
        else None
    )


def headers_up(
    headers: Mapping[str, str], credential: Mapping[str, str], beta: str
) -> dict[str, str]:
    """What goes up: without what the agent sent to prove itself, with the credential, and
    uncompressed, so that it can be metered.
    """
    made = {
        name.lower(): value
        for name, value in headers.items()
        if _passes(name.lower(), _UP, _UP_PREFIXES)
    }
    if beta:
        betas = [part.strip() for part in made.get(_BETA, "").split(",") if part.strip()]
        made[_BETA] = ",".join([*betas, *([] if beta in betas else [beta])])
    made.setdefault("anthropic-version", _VERSION)
    made.setdefault("content-type", "application/json")
    return {**made, "accept-encoding": "identity", **credential}


def headers_down(headers: Mapping[str, str]) -> dict[str, str]:
    """What goes back to the agent, in small letters."""
    return {
        name.lower(): value
        for name, value in headers.items()
        if _passes(name.lower(), _DOWN, _DOWN_PREFIXES)
    }


def token_of(headers: Mapping[str, str]) -> str:
    """The token that a request came with, wherever the agent put it; "" when it has none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return headers.get("X-Api-Key", "") or (token.strip() if scheme.lower() == "bearer" else "")


def _passes(name: str, names: frozenset[str], prefixes: tuple[str, ...]) -> bool:
    return name in names or name.startswith(prefixes)
