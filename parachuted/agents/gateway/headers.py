"""Headers: what of a request and of its answer passes the gateway, and what an answer says of its
account.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from parachuted.agents.gateway.login import RequestCredential
from parachuted.times import time_of

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
_QUERY = re.compile(r"[A-Za-z0-9=&_.,-]{0,200}")
_UP = re.compile(r"accept|content-type|user-agent|x-app|(?:anthropic|x-stainless)-.*")
_DOWN = re.compile(
    r"content-type|content-encoding|cache-control|request-id|retry-after|retry-after-ms"
    r"|x-should-retry|anthropic-.*"
)
_VERSION = "2023-06-01"
_BETA = "anthropic-beta"
_WINDOW = "anthropic-ratelimit-unified-"
_USED = re.compile(rf"{_WINDOW}([a-z0-9_-]{{1,40}})-utilization", re.IGNORECASE)
_MOST_WINDOWS = 20
_MOST_PERCENT = 1000.0


def allowed(method: str, target: str) -> bool:
    """Whether a request passes. `target` is as it was sent, so that no spelling of a path widens
    this.
    """
    path, _, query = target.partition("?")
    return method == "POST" and path in {MESSAGES, COUNT} and bool(_QUERY.fullmatch(query))


def headers_up(headers: Mapping[str, str], credential: RequestCredential) -> dict[str, str]:
    """What goes up: without what the agent sent to prove itself, with the credential, and
    uncompressed, so that it can be metered.
    """
    up = {name.lower(): value for name, value in headers.items() if _UP.fullmatch(name.lower())}
    if credential.beta:
        betas = [part.strip() for part in up.get(_BETA, "").split(",") if part.strip()]
        up[_BETA] = ",".join(dict.fromkeys([*betas, credential.beta]))
    up.setdefault("anthropic-version", _VERSION)
    up.setdefault("content-type", "application/json")
    return {**up, "accept-encoding": "identity", **credential.headers}


def headers_down(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items() if _DOWN.fullmatch(name.lower())}


def token_of(headers: Mapping[str, str]) -> str:
    """The token that a request came with, wherever the agent put it; "" when it has none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return headers.get("X-Api-Key", "") or (token.strip() if scheme.lower() == "bearer" else "")


def read_windows(headers: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The windows of an account that an answer's headers tell of, by the names that these give
    them, such as `5h` and `7d`: `utilization` in percent, `resets_at` a time or None. An API key
    has none.
    """
    names = [found[1].lower() for header in headers if (found := _USED.fullmatch(header))]
    windows: dict[str, dict[str, object]] = {}
    for name in names[:_MOST_WINDOWS]:
        used = _number(headers.get(f"{_WINDOW}{name}-utilization"))
        if used >= 0:
            resets_at = _time(_number(headers.get(f"{_WINDOW}{name}-reset")))
            percent = round(min(used * 100, _MOST_PERCENT), 1)
            windows[name] = {"utilization": percent, "resets_at": resets_at}
    return windows


def open_windows(
    windows: Mapping[str, Mapping[str, object]], now: datetime
) -> dict[str, Mapping[str, object]]:
    """Those that have not ended; of one that has, nothing is known until the next answer."""
    return {
        name: window
        for name, window in windows.items()
        if not isinstance(window["resets_at"], str)
        or datetime.fromisoformat(window["resets_at"]) > now
    }


def asked_wait_s(headers: Mapping[str, str]) -> float:
    """The seconds that an answer asks to wait; 0 if it asks for nothing that makes sense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    seconds = milliseconds / 1000 if milliseconds >= 0 else _number(headers.get("retry-after"))
    return max(0.0, seconds)


def _number(text: str | None) -> float:
    """-1 for what is no number."""
    try:
        number = float(text or "")
    except ValueError:
        return -1.0
    return number if math.isfinite(number) else -1.0


def _time(seconds: float) -> str | None:
    try:
        return None if seconds < 0 else time_of(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return None
