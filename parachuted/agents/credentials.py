"""Finds a login for the model; the secret itself is never shown or logged here.

A service does not have a terminal's environment: it reads the variables from the home's
`logins.env`, or from systemd's credentials.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from parachuted.home_files.private import replace_private

BEARER_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105 - the name of a variable
VARIABLES = (BEARER_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE)
LOGIN_FILE = "logins.env"
_FILE = Path(".claude", ".credentials.json")
_FILE_LIMIT = 64 * 1024

CredentialKind: TypeAlias = Literal["auth_token", "api_key", "oauth_token", "login_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A login that was found.

    `where` is a sentence; `home` is the folder whose .claude holds the login file, else None.
    """

    kind: CredentialKind
    where: str
    home: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSource:
    """One place that was searched; `why` says what is there, or what is wrong with it."""

    place: str
    found: bool
    why: str
    credential: Credential | None = None


class LoginEnvironment(dict[str, str]):
    """The environment plus the logins from files; `files` maps names to their files, `problems` to
    what is wrong.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.files: dict[str, Path] = {}
        self.problems: dict[str, str] = {}

    def add(self, name: str, secret: str, file: Path) -> None:
        """A login of a file, unless the environment, or a file before it, has it."""
        if secret.strip() and not self.get(name, "").strip():
            self[name] = secret.strip()
            self.files[name] = file


def find_login_environment(env: Mapping[str, str], home: Path) -> LoginEnvironment:
    """The environment in which a login is looked for: the process's own, then systemd's
    credentials, then `home`'s logins.env.
    """
    found = LoginEnvironment(env)
    folder = env.get("CREDENTIALS_DIRECTORY")
    for name in VARIABLES if folder else ():
        file = Path(str(folder), name)
        with contextlib.suppress(FileNotFoundError):
            found.add(name, _read_private(file, found, (name,)), file)
    file = home / LOGIN_FILE
    with contextlib.suppress(FileNotFoundError):
        for line in _read_private(file, found, VARIABLES).splitlines():
            name, _, secret = line.partition("=")
            if name.strip() in VARIABLES:
                found.add(name.strip(), secret.strip().strip("\"'"), file)
    return found


def keep_login(home: Path, name: str, secret: str) -> None:
    """Put a login into `home`'s logins.env, for its owner alone; an empty one takes it out.

    Raises OSError.
    """
    file = home / LOGIN_FILE
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    kept = [line for line in lines if line.partition("=")[0].strip() != name]
    replace_private(
        file,
        "".join(
            f"{line}\n" for line in [*kept, *([f"{name}={secret}"] if secret else [])]
        ).encode(),
    )


def _read_private(file: Path, found: LoginEnvironment, names: Sequence[str]) -> str:
    """The text of a file that its owner alone can read; else "", and why.

    Raises FileNotFoundError.
    """
    problem = ""
    try:
        if not stat.S_IMODE(file.stat().st_mode) & 0o077:
            return file.read_text("utf-8")[:_FILE_LIMIT]
        problem = f"{file} can be read by others, so it is not used; `chmod 600` it"
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{file} cannot be read: {_reason(error)}"
    found.problems.update(dict.fromkeys(names, problem))
    return ""


def find_credential(env: Mapping[str, str], vault: Path, user_home: Path) -> Credential | None:
    """Find the first usable login: the environment, the vault's login file, the user's."""
    return next(
        (
            finding.credential
            for finding in _look(env, vault, user_home, datetime.now(UTC))
            if finding.credential
        ),
        None,
    )


def describe_credentials(
    env: Mapping[str, str], vault: Path, user_home: Path
) -> tuple[CredentialSource, ...]:
    return tuple(_look(env, vault, user_home, datetime.now(UTC)))


def _look(
    env: Mapping[str, str], vault: Path, user_home: Path, now: datetime
) -> Iterator[CredentialSource]:
    yield _look_at_variable(env, BEARER_VARIABLE, "auth_token")
    yield _look_at_variable(env, KEY_VARIABLE, "api_key")
    yield _look_at_variable(env, TOKEN_VARIABLE, "oauth_token")
    for home, whose in ((vault, "the vault's"), (user_home, "your")):
        yield _look_at_file(home, whose, now)


def _look_at_variable(
    env: Mapping[str, str], variable: str, kind: CredentialKind
) -> CredentialSource:
    place = f"the environment variable {variable}"
    files, problems = (env.files, env.problems) if isinstance(env, LoginEnvironment) else ({}, {})
    if not env.get(variable, "").strip():
        why = problems.get(variable, "not set" if variable not in env else "set, but empty")
        return CredentialSource(place=place, found=False, why=why)
    file = files.get(variable)
    where, why = (
        (f"from {place}", "set")
        if file is None
        else (f"from {variable} in {file}", f"set in {file}")
    )
    return CredentialSource(
        place=place, found=True, why=why, credential=Credential(kind=kind, where=where)
    )


def _look_at_file(home: Path, whose: str, now: datetime) -> CredentialSource:
    path = home / _FILE
    place = f"{whose} login file {path}"
    try:
        login = load_login(path)
    except FileNotFoundError:
        return CredentialSource(place=place, found=False, why="there is none")
    except (OSError, ValueError, RecursionError) as error:
        return CredentialSource(
            place=place, found=False, why=f"it cannot be read: {_reason(error)}"
        )
    problem = _find_problem(login, now)
    if problem is not None:
        return CredentialSource(place=place, found=False, why=problem)
    credential = Credential(kind="login_file", where=f"from {place}", home=home)
    return CredentialSource(place=place, found=True, why="it holds a login", credential=credential)


def load_login(path: Path) -> object:
    """The content of the login file, read without blocking on a pipe and up to a fixed length.

    Raises OSError; ValueError or RecursionError for anything that is not a login.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - an open descriptor
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a file")
        data = file.read(_FILE_LIMIT + 1)
    if len(data) > _FILE_LIMIT:
        raise ValueError("it is too long for a login")
    return json.loads(data)


def _reason(error: Exception) -> str:
    """The reason in words that cannot quote the file."""
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else "the disk refused"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "it is not JSON"
    return str(error)


def _find_problem(login: object, now: datetime) -> str | None:
    oauth = login.get("claudeAiOauth") if isinstance(login, dict) else None
    if not isinstance(oauth, dict) or not _is_text(oauth.get("accessToken")):
        return "it holds no login"
    expires = oauth.get("expiresAt")
    is_old = isinstance(expires, int | float) and expires <= now.timestamp() * 1000
    if is_old and not _is_text(oauth.get("refreshToken")):
        return "its login has expired; log in again with `claude`"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
