"""Credentials: where a login for the model can be found. The secret itself is never kept, shown or logged here."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

BEARER_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105 - the name of a variable
_FILE = Path(".claude", ".credentials.json")
_FILE_LIMIT = 64 * 1024

Kind: TypeAlias = Literal["auth_token", "api_key", "oauth_token", "login_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A login that was found. `where` is a sentence; `home` is the folder whose .claude holds the login file, else None."""

    kind: Kind
    where: str
    home: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place that was looked at; `why` says what is there, or what is wrong with it."""

    place: str
    found: bool
    why: str
    credential: Credential | None = None


def find_credential(env: Mapping[str, str], vault: Path, user_home: Path) -> Credential | None:
    """Find the first usable login: the environment, the vault's login file, the user's."""
    return next((finding.credential for finding in _look(env, vault, user_home, datetime.now(UTC)) if finding.credential), None)


def describe_credentials(env: Mapping[str, str], vault: Path, user_home: Path) -> tuple[Finding, ...]:
    """Tell of each place, in the order of preference, what was found there."""
    return tuple(_look(env, vault, user_home, datetime.now(UTC)))


def _look(env: Mapping[str, str], vault: Path, user_home: Path, now: datetime) -> Iterator[Finding]:
    yield _look_at_variable(env, BEARER_VARIABLE, "auth_token")
    yield _look_at_variable(env, KEY_VARIABLE, "api_key")
    yield _look_at_variable(env, TOKEN_VARIABLE, "oauth_token")
    for home, whose in ((vault, "the vault's"), (user_home, "your")):
        yield _look_at_file(home, whose, now)


def _look_at_variable(env: Mapping[str, str], variable: str, kind: Kind) -> Finding:
    place = f"the environment variable {variable}"
    if not env.get(variable, "").strip():
        return Finding(place=place, found=False, why="not set" if variable not in env else "set, but empty")
    return Finding(place=place, found=True, why="set", credential=Credential(kind=kind, where=f"from {place}"))


def _look_at_file(home: Path, whose: str, now: datetime) -> Finding:
    path = home / _FILE
    place = f"{whose} login file {path}"
    try:
        login = load_login(path)
    except FileNotFoundError:
        return Finding(place=place, found=False, why="there is none")
    except (OSError, ValueError, RecursionError) as error:
        return Finding(place=place, found=False, why=f"it cannot be read: {_reason(error)}")
    problem = _find_problem(login, now)
    if problem is not None:
        return Finding(place=place, found=False, why=problem)
    credential = Credential(kind="login_file", where=f"from {place}", home=home)
    return Finding(place=place, found=True, why="it holds a login", credential=credential)


def load_login(path: Path) -> object:
    """What the login file holds, read without waiting for a pipe or taking more than a login's length.

    Raises OSError, and ValueError or RecursionError for what is no login.
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
    """Say why in words that cannot hold a piece of the file."""
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
