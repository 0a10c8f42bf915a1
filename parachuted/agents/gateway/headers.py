"""Which headers and query parameters pass the gateway. Pure; whatever is not listed is
dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
