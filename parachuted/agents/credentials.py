"""Credentials of the model: where a login is found, and what a request carries.

They are never shown or logged. A service does not have a terminal's environment: it reads the
variables from the home's `logins.env`, or from systemd's credentials.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, TypeAlias

from parachuted.errors import AgentUnavailableError
from parachuted.home_files.private import replace_private
from parachuted.texts.redact import redact

log = logging.getLogger(__name__)

BEARER_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105 - the name of a variable
VARIABLES = (BEARER_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE)
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
_KINDS: dict[str, CredentialKind] = dict(
    zip(VARIABLES, ("auth_token", "api_key", "oauth_token"), strict=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """`where` is a sentence; `home` is the folder whose .claude holds the login file, else None."""

    kind: CredentialKind
    where: str
    home: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSource:
    """One place that was searched; `why` says what is there, or what is wrong with it."""

    place: str
    why: str
    credential: Credential | None = None

    @property
    def found(self) -> bool:
        return self.credential is not None


class LoginEnvironment(dict[str, str]):
    """With the logins from `files`, by name; `problems` says by name what is wrong."""

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.files: dict[str, Path] = {}
        self.problems: dict[str, str] = {}

    def add(self, name: str, secret: str, file: Path) -> None:
        """A login of a file, unless the environment, or a file before it, has it."""
        if secret.strip() and not self.get(name, "").strip():
            self[name] = secret.strip()
            self.files[name] = file

    def read(self, file: Path, names: Sequence[str]) -> str:
        """The text of a file that its owner alone can read; else "", and why it is not used."""
        try:
            if not stat.S_IMODE(file.stat().st_mode) & 0o077:
                return file.read_text("utf-8")[:_FILE_LIMIT]
            problem = f"{file} can be read by others, so it is not used; `chmod 600` it"
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            problem = f"{file} cannot be read: {_reason(error)}"
        self.problems.update(dict.fromkeys(names, problem))
        return ""


def find_login_environment(env: Mapping[str, str], home: Path) -> LoginEnvironment:
    """The process's own environment, then systemd's credentials, then `home`'s logins.env."""
    found = LoginEnvironment(env)
    folder = env.get("CREDENTIALS_DIRECTORY")
    for name in VARIABLES if folder else ():
        file = Path(str(folder), name)
        found.add(name, found.read(file, (name,)), file)
    file = home / LOGIN_FILE
    for line in found.read(file, VARIABLES).splitlines():
        name, _, secret = line.partition("=")
        if name.strip() in VARIABLES:
            found.add(name.strip(), secret.strip().strip("\"'"), file)
    return found


def keep_login(home: Path, name: str, secret: str) -> None:
    """Put a login into `home`'s logins.env; an empty one takes it out. Raises OSError."""
    file = home / LOGIN_FILE
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    kept = [line for line in lines if line.partition("=")[0].strip() != name]
    kept += [f"{name}={secret}"] if secret else []
    replace_private(file, "".join(f"{line}\n" for line in kept).encode())


def find_credential(env: Mapping[str, str], vault: Path, user_home: Path) -> Credential | None:
    """The first usable login: the environment, the vault's login file, the user's."""
    looked = describe_credentials(env, vault, user_home)
    return next((source.credential for source in looked if source.credential), None)


def describe_credentials(
    env: Mapping[str, str], vault: Path, user_home: Path
) -> tuple[CredentialSource, ...]:
    files = ((vault, "the vault's"), (user_home, "your"))
    return (
        *(_look_at_variable(env, variable) for variable in VARIABLES),
        *(_look_at_file(home, whose) for home, whose in files),
    )


def _look_at_variable(env: Mapping[str, str], variable: str) -> CredentialSource:
    place = f"the environment variable {variable}"
    files, problems = (env.files, env.problems) if isinstance(env, LoginEnvironment) else ({}, {})
    if not env.get(variable, "").strip():
        why = problems.get(variable, "not set" if variable not in env else "set, but empty")
        return CredentialSource(place=place, why=why)
    where, why = f"from {place}", "set"
    if (file := files.get(variable)) is not None:
        where, why = f"from {variable} in {file}", f"set in {file}"
    credential = Credential(kind=_KINDS[variable], where=where)
    return CredentialSource(place=place, why=why, credential=credential)


def _look_at_file(home: Path, whose: str) -> CredentialSource:
    path = home / _FILE
    place = f"{whose} login file {path}"
    try:
        problem = _find_problem(_oauth_in(_load_json(path)))
    except FileNotFoundError:
        problem = "there is none"
    except (OSError, ValueError, RecursionError) as error:
        problem = f"it cannot be read: {_reason(error)}"
    if problem is not None:
        return CredentialSource(place=place, why=problem)
    credential = Credential(kind="login_file", where=f"from {place}", home=home)
    return CredentialSource(place=place, why="it holds a login", credential=credential)


def _load_json(path: Path) -> object:
    """Without blocking on a pipe. Raises OSError; ValueError or RecursionError for no login."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - an open descriptor
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a file")
        data = file.read(_FILE_LIMIT + 1)
    if len(data) > _FILE_LIMIT:
        raise ValueError("it is too long for a login")
    return json.loads(data)


def _oauth_in(document: object) -> dict[str, Any]:
    oauth = document.get("claudeAiOauth") if isinstance(document, dict) else None
    return oauth if isinstance(oauth, dict) and _is_text(oauth.get("accessToken")) else {}


def _reason(error: Exception) -> str:
    """In words that cannot quote the file."""
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else "the disk refused"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "it is not JSON"
    return str(error)


def _find_problem(oauth: Mapping[str, Any]) -> str | None:
    if not oauth:
        return "it holds no login"
    expires = oauth.get("expiresAt")
    is_old = isinstance(expires, int | float) and expires <= time.time() * 1000
    if is_old and not _is_text(oauth.get("refreshToken")):
        return "its login has expired; log in again with `claude`"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCredential:
    """What one request carries; `beta` is merged into `anthropic-beta`."""

    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(default="", repr=False)
    beta: str = ""
    can_be_renewed: bool = False


class Login:
    """Finds the credential of each request, and renews a stored login whose token has expired.

    It is sent only to Anthropic (`is_anthropic`). `secrets` are all that were seen.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        vault: Path,
        user_home: Path,
        is_anthropic: bool,
        clock: Callable[[], datetime],
        post: Callable[[str, Mapping[str, object]], Awaitable[tuple[int, Any]]],
        token_url: str = TOKEN_URL,
    ) -> None:
        self._env, self._vault, self._user_home = env, vault, user_home
        self._is_anthropic, self._clock = is_anthropic, clock
        self._post, self._token_url = post, token_url
        self.secrets: set[str] = set()
        self._renewing = asyncio.Lock()
        # by refresh token that was used up: the answer to it, if the disk refused
        self._unsaved: dict[str, dict[str, Any]] = {}

    async def credential(self, *, refused: RequestCredential | None = None) -> RequestCredential:
        """`refused` is one that the server did not accept. Raises AgentUnavailableError.

        In the order of `parachute auth status`: a bearer token or an API key, for any server; then,
        only for Anthropic, the OAuth token, the vault's login file, the user's.
        """
        found = await self._find(refused)
        self.secrets.add(found.secret)
        return found

    async def _find(self, refused: RequestCredential | None) -> RequestCredential:
        bearer, key, token = (self._env.get(name, "").strip() for name in VARIABLES)
        if bearer:
            return RequestCredential(headers={"authorization": f"Bearer {bearer}"}, secret=bearer)
        if key or not self._is_anthropic:
            return RequestCredential(headers={"x-api-key": key or _NO_KEY}, secret=key)
        if token:
            return _oauth_credential(token)
        found = await asyncio.to_thread(find_credential, self._env, self._vault, self._user_home)
        if found is None:
            raise AgentUnavailableError(
                "no login for the model was found; see `parachute auth status`"
            )
        path = (found.home or self._user_home) / _FILE
        async with self._renewing:  # a `claude` of yours may renew it as well
            oauth = await self._load(path)
            if self._has_expired(oauth, refused):
                oauth = await self._renew(path, oauth)
        return _oauth_credential(oauth["accessToken"], can_be_renewed=True)

    async def _load(self, path: Path) -> dict[str, Any]:
        try:
            oauth = _oauth_in(await asyncio.to_thread(_load_json, path))
        except (OSError, ValueError, RecursionError) as error:
            raise AgentUnavailableError(
                f"the login file {path} cannot be read; see `parachute auth status`"
            ) from error
        if not oauth:
            raise AgentUnavailableError(
                f"the login file {path} holds no login; log in again with `claude`"
            )
        return self._unsaved.get(str(oauth.get("refreshToken")), oauth)

    def _has_expired(self, oauth: Mapping[str, Any], refused: RequestCredential | None) -> bool:
        if refused is not None and oauth["accessToken"] == refused.secret:
            return True
        expires = oauth.get("expiresAt")
        is_old = isinstance(expires, int | float) and expires <= _ms(self._clock() + _SOON)
        return is_old and bool(oauth.get("refreshToken"))

    async def _renew(self, path: Path, oauth: Mapping[str, Any]) -> dict[str, Any]:
        used = str(oauth.get("refreshToken") or "")
        if not used:
            raise AgentUnavailableError(
                "the model refused the login, which cannot be renewed; log in again with `claude`"
            )
        self.secrets.add(used)
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
        self.secrets |= {renewed["accessToken"], renewed["refreshToken"]}
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
    headers = {"authorization": f"Bearer {token}"}
    return RequestCredential(
        headers=headers, secret=token, beta=_OAUTH_BETA, can_be_renewed=can_be_renewed
    )


def _renewed(oauth: Mapping[str, Any], answer: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    renewed = {**oauth, "accessToken": answer["access_token"]}
    if isinstance(answer.get("refresh_token"), str):
        renewed["refreshToken"] = answer["refresh_token"]
    seconds = answer.get("expires_in")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        renewed["expiresAt"] = int(_ms(now) + seconds * 1000)
    if isinstance(answer.get("scope"), str):
        renewed["scopes"] = answer["scope"].split()
    return renewed


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def _save(path: Path, used: str, renewed: Mapping[str, Any]) -> None:
    """Beside the file's other content, unless another login replaced it. Raises OSError."""
    real = Path(os.path.realpath(path))
    document: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        document = _load_json(real)
    oauth = _oauth_in(document)
    if oauth.get("refreshToken") == used:
        login = {**document, "claudeAiOauth": {**oauth, **renewed}}
        replace_private(real, json.dumps(login).encode())
