"""The credential of each model request, looked up every time and never shown, and the headers that
may pass in both directions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.agents.credentials import (
    BEARER_VARIABLE,
    KEY_VARIABLE,
    TOKEN_VARIABLE,
    Credential,
    find_credential,
    load_login,
)
from parachuted.errors import AgentUnavailableError
from parachuted.home_files.private import replace_private
from parachuted.redact import redact
from parachuted.times import time_of

log = logging.getLogger(__name__)

# As the bundled CLI (2.1.330) renews its login: the address, its public client id, the body's
# names, the answer's.
TOKEN_URL = "https://platform.claude.com/v1/oauth/token"  # noqa: S105  an address
_CLIENT_ID = "9d1c250a-e61b-44d9-88ed-5944d1962f5e"
_OAUTH_BETA = "oauth-2025-04-20"
_NO_KEY = "no-key-needed"
_SOON = timedelta(minutes=2)

Post: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[tuple[int, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCredentials:
    """What one request carries: `headers` with the credential in them, `beta` to be merged into
    `anthropic-beta`. Never shown.
    """

    headers: Mapping[str, str]
    secret: str = ""
    beta: str = ""
    can_be_renewed: bool = False

    def __repr__(self) -> str:
        return "Secret(...)"


class Login:
    """Finds the credential, and renews a stored login whose token has expired.

    A login is sent only to Anthropic (`is_anthropic`).
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        vault: Path,
        user_home: Path,
        is_anthropic: bool,
        clock: Callable[[], datetime],
        post: Post,
        token_url: str = TOKEN_URL,
    ) -> None:
        self._env, self._vault, self._user_home = env, vault, user_home
        self._is_anthropic, self._clock, self._post = is_anthropic, clock, post
        self._token_url = token_url
        self._renewing = asyncio.Lock()
        self._renewed: dict[
            str, Mapping[str, object]
        ] = {}  # by refresh token that was used up: what came for it, if the disk refused
        self._seen: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset(self._seen)

    async def secret(self, *, refused: RequestCredentials | None = None) -> RequestCredentials:
        """The credential for a request; `refused` is one that the server did not accept.

        In the order of `parachute auth status`: a bearer token or an API key, for any server; then,
        only for Anthropic, the OAuth token, the vault's login file, the user's. Raises
        AgentUnavailableError when none is found.
        """
        bearer = self._env.get(BEARER_VARIABLE, "").strip()
        if bearer:
            return self._seen_as(
                RequestCredentials(headers={"authorization": f"Bearer {bearer}"}, secret=bearer)
            )
        key = self._env.get(KEY_VARIABLE, "").strip()
        if key:
            return self._seen_as(RequestCredentials(headers={"x-api-key": key}, secret=key))
        if not self._is_anthropic:
            return RequestCredentials(headers={"x-api-key": _NO_KEY})
        token = self._env.get(TOKEN_VARIABLE, "").strip()
        if token:
            return self._seen_as(_bearer(token))
        found = await asyncio.to_thread(find_credential, self._env, self._vault, self._user_home)
        if found is None:
            raise AgentUnavailableError(
                "no login for the model was found; see `parachute auth status`"
            )
        return self._seen_as(_bearer(await self._token_of(found, refused), can_be_renewed=True))

    async def _token_of(self, found: Credential, refused: RequestCredentials | None) -> str:
        path = (found.home or self._user_home) / ".claude" / ".credentials.json"
        oauth = await self._oauth(path)
        if not self._is_over(oauth, refused):
            return str(oauth["accessToken"])
        async with self._renewing:
            oauth = await self._oauth(
                path
            )  # somebody, a `claude` of yours too, may have renewed it meanwhile
            if self._is_over(oauth, refused):
                oauth = await self._renew(path, oauth)
        return str(oauth["accessToken"])

    async def _oauth(self, path: Path) -> Mapping[str, object]:
        try:
            document = await asyncio.to_thread(load_login, path)
        except (OSError, ValueError, RecursionError) as error:
            raise AgentUnavailableError(
                f"the login file {path} cannot be read; see `parachute auth status`"
            ) from error
        oauth = document.get("claudeAiOauth") if isinstance(document, dict) else None
        if not isinstance(oauth, dict) or not oauth.get("accessToken"):
            raise AgentUnavailableError(
                f"the login file {path} holds no login; log in again with `claude`"
            )
        return self._renewed.get(str(oauth.get("refreshToken")), oauth)

    def _is_over(self, oauth: Mapping[str, object], refused: RequestCredentials | None) -> bool:
        if refused is not None and oauth["accessToken"] == refused.secret:
            return True
        expires = oauth.get("expiresAt")
        soon = (self._clock() + _SOON).timestamp() * 1000
        return (
            isinstance(expires, int | float) and expires <= soon and bool(oauth.get("refreshToken"))
        )

    async def _renew(self, path: Path, oauth: Mapping[str, object]) -> Mapping[str, object]:
        used = str(oauth.get("refreshToken") or "")
        if not used:
            raise AgentUnavailableError(
                "the model refused the login, which cannot be renewed; log in again with `claude`"
            )
        self._seen.add(used)
        scopes = oauth.get("scopes")
        asked: dict[str, object] = {
            "grant_type": "refresh_token",
            "refresh_token": used,
            "client_id": _CLIENT_ID,
        }
        if isinstance(scopes, list):
            asked["scope"] = " ".join(map(str, scopes))
        status, answer = await self._post(self._token_url, asked)
        if (
            status != 200  # noqa: PLR2004
            or not isinstance(answer, dict)
            or not isinstance(answer.get("access_token"), str)
        ):
            again = await self._oauth(path)
            if again.get("refreshToken") != oauth.get("refreshToken"):
                return again
            raise AgentUnavailableError(
                f"the login has ended and could not be renewed ({status or 'no answer'}); log in "
                "again with `claude`"
            )
        renewed = _renewed(oauth, answer, self._clock())
        self._seen.update(
            str(renewed[name]) for name in ("accessToken", "refreshToken") if renewed.get(name)
        )
        try:
            await asyncio.to_thread(_keep, path, used, renewed)
        except OSError as error:
            self._renewed[used] = renewed
            log.warning(
                "the renewed login could not be kept, and lasts until the daemon ends",
                extra={"reason": redact(str(error))},
            )
        return renewed

    def _seen_as(self, secret: RequestCredentials) -> RequestCredentials:
        self._seen.add(secret.secret)
        return secret


def _bearer(token: str, *, can_be_renewed: bool = False) -> RequestCredentials:
    return RequestCredentials(
        headers={"authorization": f"Bearer {token}"},
        secret=token,
        beta=_OAUTH_BETA,
        can_be_renewed=can_be_renewed,
    )


def _renewed(
    oauth: Mapping[str, object], answer: Mapping[str, object], now: datetime
) -> dict[str, object]:
    renewed = {**oauth, "accessToken": answer["access_token"]}
    if isinstance(answer.get("refresh_token"), str):
        renewed["refreshToken"] = answer["refresh_token"]
    seconds = answer.get("expires_in")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        renewed["expiresAt"] = int((now.timestamp() + seconds) * 1000)
    if isinstance(answer.get("scope"), str):
        renewed["scopes"] = str(answer["scope"]).split()
    return renewed


def _keep(path: Path, used: str, renewed: Mapping[str, object]) -> None:
    """Save the renewed login in the file beside its other content, unless another login replaced
    it.

    Raises OSError.
    """
    real = Path(os.path.realpath(path))
    try:
        document = load_login(real)
    except (ValueError, RecursionError):
        return
    oauth = document.get("claudeAiOauth") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(oauth, dict) and oauth.get("refreshToken") == used:
        replace_private(
            real, json.dumps({**document, "claudeAiOauth": {**oauth, **renewed}}).encode()
        )


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
