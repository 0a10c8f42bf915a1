"""Credentials of the model: where a login is found, and what a request carries.

They are never shown or logged. A service does not have a terminal's environment: it reads the
variables from the home's `logins.env`, or from systemd's credentials.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, TypeAlias

from parachuted.errors import AgentUnavailableError
from parachuted.home_files.private import (
    UntrustedFileError,
    read_private,
    real_path,
    replace_private,
)
from parachuted.texts.redact import redact
from parachuted.texts.times import utc_now

log = logging.getLogger(__name__)

BEARER_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105 - the name of a variable
LOGIN_FILE = "logins.env"
_FILE = Path(".claude", ".credentials.json")
_FILE_LIMIT = 64 * 1024

# As the bundled CLI (2.1.330) renews its login: the address, its public client id, the body's
# names, the answer's.
TOKEN_URL = "https://platform.claude.com/v1/oauth/token"  # noqa: S105  an address
_CLIENT_ID = "9d1c250a-e61b-44d9-88ed-5944d1962f5e"
_OAUTH_BETA = "oauth-2025-04-20"
_NO_KEY = "no-key-needed"
_SOON = timedelta(minutes=2)

CredentialKind: TypeAlias = Literal["auth_token", "api_key", "oauth_token", "login_file"]
VARIABLES: dict[str, CredentialKind] = {
    BEARER_VARIABLE: "auth_token",
    KEY_VARIABLE: "api_key",
    TOKEN_VARIABLE: "oauth_token",
}


class LoginEnvironment(dict[str, str]):
    """An environment with the logins of files; `notes` says by name which file, or why not."""

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.notes: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSource:
    """A place that was searched; `why` says what was found, or what is wrong with it. `kind` is
    None where no login was found, `file` a login's that can be renewed.
    """

    place: str
    why: str
    kind: CredentialKind | None = None
    secret: str = field(default="", repr=False)
    file: Path | None = None

    @property
    def found(self) -> bool:
        return self.kind is not None


def find_login_environment(env: Mapping[str, str], home: Path) -> LoginEnvironment:
    """The process's own environment, then systemd's credentials, then `home`'s logins.env."""
    environment, folder = LoginEnvironment(env), env.get("CREDENTIALS_DIRECTORY")
    of_systemd = [(Path(folder, name), (name,)) for name in VARIABLES] if folder else []
    for file, names in (*of_systemd, (home / LOGIN_FILE, tuple(VARIABLES))):
        missing = [name for name in names if not environment.get(name, "").strip()]
        try:
            text = read_private(file, _FILE_LIMIT, is_secret=True) or ""
        except UntrustedFileError as error:
            environment.notes |= dict.fromkeys(missing, f"not used: {error}")
            continue
        for line in text.splitlines():
            name, _, secret = (line if len(names) > 1 else f"{names[0]}={line}").partition("=")
            if name.strip() in missing and (secret := secret.strip().strip("\"'")):
                environment[name.strip()] = secret
                environment.notes[name.strip()] = f"set in {file}"
    return environment


def keep_login(home: Path, name: str, secret: str) -> None:
    """Put a login into `home`'s logins.env; an empty one takes it out. Raises OSError."""
    file = home / LOGIN_FILE
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    kept = [line for line in lines if line.partition("=")[0].strip() != name]
    kept += [f"{name}={secret}"] if secret else []
    replace_private(file, "".join(f"{line}\n" for line in kept).encode())


def find_credential(
    env: Mapping[str, str], vault: Path, user_home: Path
) -> CredentialSource | None:
    """The first usable login: the environment, the vault's login file, the user's."""
    return next((it for it in describe_credentials(env, vault, user_home) if it.found), None)


def describe_credentials(
    env: Mapping[str, str], vault: Path, user_home: Path
) -> tuple[CredentialSource, ...]:
    notes = env.notes if isinstance(env, LoginEnvironment) else {}
    sources = []
    for name, kind in VARIABLES.items():
        place, secret = f"the environment variable {name}", env.get(name, "").strip()
        why, found = notes.get(name, "set" if secret else "not set"), kind if secret else None
        sources.append(CredentialSource(place=place, why=why, kind=found, secret=secret))
    for home, whose in ((vault, "the vault's"), (user_home, "your")):
        file = home / _FILE
        place = f"{whose} login file {file}"
        try:
            _load(file)
        except AgentUnavailableError as error:
            sources.append(CredentialSource(place=place, why=error.message))
        else:
            why = "it holds a login"
            sources.append(CredentialSource(place=place, why=why, kind="login_file", file=file))
    return tuple(sources)


def _read_login_file(file: Path) -> Mapping[str, Any]:
    """Raises AgentUnavailableError, in words that cannot quote the file."""
    try:
        text = read_private(file, _FILE_LIMIT, may_be_shared=True)
        document = json.loads(text) if text is not None else None
    except UntrustedFileError as error:
        raise AgentUnavailableError(f"it cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise AgentUnavailableError("it cannot be read: it is not JSON") from error
    if text is None:
        raise AgentUnavailableError("there is none")
    return document if isinstance(document, dict) else {}


def _load(file: Path) -> dict[str, Any]:
    """With an `accessToken` that holds or can be renewed. Raises AgentUnavailableError."""
    login = _read_login_file(file).get("claudeAiOauth")
    token = login.get("accessToken") if isinstance(login, dict) else None
    if not (isinstance(login, dict) and isinstance(token, str) and token.strip()):
        raise AgentUnavailableError("it holds no login")
    if _has_expired(login, utc_now()) and not login.get("refreshToken"):
        raise AgentUnavailableError("its login has expired; log in again with `claude`")
    return login


def _has_expired(login: Mapping[str, Any], at: datetime) -> bool:
    expires = login.get("expiresAt")
    return isinstance(expires, int | float) and expires <= at.timestamp() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCredential:
    """What one request carries; `beta` is merged into `anthropic-beta`."""

    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(default="", repr=False)
    beta: str = ""
    can_be_renewed: bool = False


class Login:
    """Finds the credential of each request, and renews a stored login whose token has expired.

    A login is sent only to Anthropic (`is_anthropic`). `secrets` are all that were seen.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        vault: Path,
        user_home: Path,
        *,
        is_anthropic: bool,
        post: Callable[[str, Mapping[str, object]], Awaitable[tuple[int, Any]]],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._places, self._is_anthropic = (env, vault, user_home), is_anthropic
        self._clock, self._post = clock, post
        self.secrets: set[str] = set()
        self._renewing = asyncio.Lock()

    async def credential(self, *, refused: RequestCredential | None = None) -> RequestCredential:
        """`refused` is one that the server did not accept. Raises AgentUnavailableError.

        In the order of `parachute auth status`: a bearer token or an API key, for any server; then,
        only for Anthropic, the OAuth token, the vault's login file, the user's.
        """
        source = await asyncio.to_thread(find_credential, *self._places)
        is_key = source is not None and source.kind in {"auth_token", "api_key"}
        if not (is_key or self._is_anthropic):
            return RequestCredential(headers={"x-api-key": _NO_KEY})
        if source is None:
            raise AgentUnavailableError(
                "no login for the model was found; see `parachute auth status`"
            )
        secret = source.secret
        if source.file is not None:
            async with self._renewing:  # a `claude` of yours may renew it as well
                secret = await self._stored(source.file, refused)
        self.secrets.add(secret)
        is_api_key = source.kind == "api_key"
        headers = {"x-api-key": secret} if is_api_key else {"authorization": f"Bearer {secret}"}
        return RequestCredential(
            headers=headers,
            secret=secret,
            beta="" if is_key else _OAUTH_BETA,
            can_be_renewed=source.file is not None,
        )

    async def _stored(self, file: Path, refused: RequestCredential | None) -> str:
        login = await asyncio.to_thread(_load, file)
        used = login.get("refreshToken")
        is_refused = refused is not None and login["accessToken"] == refused.secret
        if not is_refused and not (used and _has_expired(login, self._clock() + _SOON)):
            return str(login["accessToken"])
        if not used:
            raise AgentUnavailableError(
                "the model refused the login, which cannot be renewed; log in again with `claude`"
            )
        renewed = await self._renew(login, str(used))
        if renewed is None:
            other = await asyncio.to_thread(_load, file)
            if other.get("refreshToken") == used:
                said = "the login has ended and could not be renewed; log in again with `claude`"
                raise AgentUnavailableError(said)
            return str(other["accessToken"])
        try:
            await asyncio.to_thread(_save, file, str(used), renewed)
        except (OSError, AgentUnavailableError) as error:
            log.warning("a renewed login could not be kept", extra={"reason": redact(str(error))})
        return str(renewed["accessToken"])

    async def _renew(self, login: Mapping[str, Any], used: str) -> dict[str, Any] | None:
        """None where the server does not."""
        self.secrets.add(used)
        request = {"grant_type": "refresh_token", "refresh_token": used, "client_id": _CLIENT_ID}
        if isinstance(scopes := login.get("scopes"), list):
            request["scope"] = " ".join(map(str, scopes))
        status, answer = await self._post(TOKEN_URL, request)
        is_answer = status == HTTPStatus.OK and isinstance(answer, dict)
        if not (is_answer and isinstance(answer.get("access_token"), str)):
            return None
        renewed = {
            **login,
            "accessToken": answer["access_token"],
            "refreshToken": str(answer.get("refresh_token") or used),
        }
        if isinstance(seconds := answer.get("expires_in"), int | float):
            renewed["expiresAt"] = int((self._clock().timestamp() + seconds) * 1000)
        if isinstance(answer.get("scope"), str):
            renewed["scopes"] = answer["scope"].split()
        self.secrets |= {renewed["accessToken"], renewed["refreshToken"]}
        return renewed


def _save(file: Path, used: str, renewed: Mapping[str, Any]) -> None:
    """Beside the file's other content, unless another login replaced it. Raises OSError."""
    document = _read_login_file(file)
    login = document.get("claudeAiOauth")
    if isinstance(login, dict) and login.get("refreshToken") == used:
        document = {**document, "claudeAiOauth": {**login, **renewed}}
        replace_private(real_path(file), json.dumps(document).encode())
