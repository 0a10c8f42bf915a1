"""Login: the credential of each model request, looked up every time and never shown."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.agents.credentials import (
    BEARER_VARIABLE,
    KEY_VARIABLE,
    TOKEN_VARIABLE,
    find_credential,
    load_login,
)
from parachuted.errors import AgentUnavailableError
from parachuted.home_files.private import replace_private
from parachuted.redact import redact

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
class RequestCredential:
    """What one request carries: `headers` with the credential in them, `beta` to be merged into
    `anthropic-beta`. Never shown.
    """

    headers: Mapping[str, str]
    secret: str = ""
    beta: str = ""
    can_be_renewed: bool = False

    def __repr__(self) -> str:
        return "RequestCredential(...)"


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
        # by refresh token that was used up: the answer to it, if the disk refused
        self._unsaved: dict[str, Mapping[str, object]] = {}
        self._seen: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset(self._seen)

    async def credential(self, *, refused: RequestCredential | None = None) -> RequestCredential:
        """The credential for a request; `refused` is one that the server did not accept.

        In the order of `parachute auth status`: a bearer token or an API key, for any server; then,
        only for Anthropic, the OAuth token, the vault's login file, the user's. Raises
        AgentUnavailableError when none is found.
        """
        found = await self._find(refused)
        self._seen.add(found.secret)
        return found

    async def _find(self, refused: RequestCredential | None) -> RequestCredential:
        if bearer := self._env.get(BEARER_VARIABLE, "").strip():
            return RequestCredential(headers={"authorization": f"Bearer {bearer}"}, secret=bearer)
        if key := self._env.get(KEY_VARIABLE, "").strip():
            return RequestCredential(headers={"x-api-key": key}, secret=key)
        if not self._is_anthropic:
            return RequestCredential(headers={"x-api-key": _NO_KEY})
        if token := self._env.get(TOKEN_VARIABLE, "").strip():
            return _oauth_credential(token)
        found = await asyncio.to_thread(find_credential, self._env, self._vault, self._user_home)
        if found is None:
            raise AgentUnavailableError(
                "no login for the model was found; see `parachute auth status`"
            )
        path = (found.home or self._user_home) / ".claude" / ".credentials.json"
        async with self._renewing:  # a `claude` of yours may renew it as well
            oauth = await self._load(path)
            if self._has_expired(oauth, refused):
                oauth = await self._renew(path, oauth)
        return _oauth_credential(str(oauth["accessToken"]), can_be_renewed=True)

    async def _load(self, path: Path) -> Mapping[str, object]:
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
        return self._unsaved.get(str(oauth.get("refreshToken")), oauth)

    def _has_expired(self, oauth: Mapping[str, object], refused: RequestCredential | None) -> bool:
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
        request: dict[str, object] = {
            "grant_type": "refresh_token",
            "refresh_token": used,
            "client_id": _CLIENT_ID,
        }
        if isinstance(scopes := oauth.get("scopes"), list):
            request["scope"] = " ".join(map(str, scopes))
        status, answer = await self._post(self._token_url, request)
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if status != HTTPStatus.OK or not isinstance(token, str):
            again = await self._load(path)
            if again.get("refreshToken") != used:
                return again
            raise AgentUnavailableError(
                f"the login has ended and could not be renewed ({status or 'no answer'}); log in "
                "again with `claude`"
            )
        renewed = _renewed(oauth, answer, self._clock())
        self._seen |= {str(renewed["accessToken"]), str(renewed["refreshToken"])}
        try:
            await asyncio.to_thread(_save, path, used, renewed)
        except OSError as error:
            self._unsaved[used] = renewed
            log.warning(
                "the renewed login could not be kept, and lasts until the daemon ends",
                extra={"reason": redact(str(error))},
            )
        return renewed


def _oauth_credential(token: str, *, can_be_renewed: bool = False) -> RequestCredential:
    return RequestCredential(
        headers={"authorization": f"Bearer {token}"},
        secret=token,
        beta=_OAUTH_BETA,
        can_be_renewed=can_be_renewed,
    )


def _renewed(
    oauth: Mapping[str, object], answer: Mapping[str, Any], now: datetime
) -> dict[str, object]:
    renewed = {**oauth, "accessToken": answer["access_token"]}
    if isinstance(answer.get("refresh_token"), str):
        renewed["refreshToken"] = answer["refresh_token"]
    seconds = answer.get("expires_in")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        renewed["expiresAt"] = int((now.timestamp() + seconds) * 1000)
    if isinstance(answer.get("scope"), str):
        renewed["scopes"] = answer["scope"].split()
    return renewed


def _save(path: Path, used: str, renewed: Mapping[str, object]) -> None:
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
