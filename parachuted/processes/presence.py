"""Presence: which daemon runs for a home, and that only one runs per home and per vault.

A lock held for life is the proof; the record beside it says whom to ask. A vault is locked for its
daemon alone, and the folders above it so that others may share them, so a daemon on a folder within
or above another's vault finds a lock. Cheap to import, for `parachute status`.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping

from parachuted.errors import DaemonError

_RECORD = "daemon.json"
_LOCK = "daemon.lock"
_PROBED_S = 0.3
_STEP_S = 0.01
_ONE = "a vault has one writer"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def home_of(env: Mapping[str, str]) -> str:
    """The machine-local home: $PARACHUTE_HOME, else ~/.parachute."""
    return absolute(env.get("PARACHUTE_HOME") or "~/.parachute", env)


def absolute(path: str, env: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        path = (env.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.abspath(path)


class Presence:
    """Held by the daemon while it lives; released by the system however it ends."""

    def __init__(self, home: str, vault: str) -> None:
        """Raises DaemonError when another daemon has a lock, or when it cannot be taken."""
        self._run = os.path.join(home, "run")
        self._held: list[int] = []
        try:
            os.makedirs(self._run, mode=0o700, exist_ok=True)
            for lock in _locks(home, vault):
                self._held.append(_wait_for(*lock))
                self._forget()  # of a killed daemon, or its record would be taken for ours
        except DaemonError:
            self._let_go()
            raise
        except OSError as error:
            self._let_go()
            raise DaemonError(
                f"{error.filename or home} cannot be locked: {error.strerror}"
            ) from error

    def announce(self, record: dict[str, object]) -> None:
        """Say whom to ask: pid, host, port, vault, version, started, and the command's token."""
        target = os.path.join(self._run, _RECORD)
        with open(f"{target}.tmp", "w", encoding="utf-8", opener=_private) as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(record, file)
        os.replace(f"{target}.tmp", target)

    def release(self) -> None:
        self._forget()
        self._let_go()

    def _forget(self) -> None:
        record = os.path.join(self._run, _RECORD)
        if os.path.exists(record):
            os.unlink(record)

    def _let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def running_daemon(home: str) -> dict[str, object] | None:
    """The record of this home's daemon, or None. One whose lock is free is a dead daemon's."""
    run = os.path.join(home, "run")
    try:
        if not _is_held(os.path.join(run, _LOCK)):
            return None
        with open(os.path.join(run, _RECORD), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return None  # none, or one that has only just started
    return record if isinstance(record, dict) else None


def is_locked(home: str) -> bool:
    """Whether a daemon has this home: also one that is starting, or ending, and has no record."""
    try:
        return _is_held(os.path.join(home, "run", _LOCK))
    except OSError:
        return False


def refuse_second(home: str, vault: str) -> None:
    """Raise the DaemonError that `Presence` would, long before a daemon is built."""
    for lock in _locks(home, vault):
        try:
            os.close(_wait_for(*lock))
        except OSError:
            continue  # `Presence` will say what is wrong with it


def _locks(home: str, vault: str) -> Iterator[tuple[str, int, int, str]]:
    yield (
        os.path.join(home, "run", _LOCK),
        os.O_RDWR | os.O_CREAT,
        fcntl.LOCK_EX,
        f"a daemon is already running for {home}; `parachute stop` ends it",
    )
    yield (
        vault,
        _FOLDER,
        fcntl.LOCK_EX,
        f"another daemon is already at work on {vault}, or on a folder inside it; {_ONE}",
    )
    for above in _folders_above(vault):
        yield (
            above,
            _FOLDER,
            fcntl.LOCK_SH,
            f"another daemon is already at work on {above}, which holds {vault}; {_ONE}",
        )


def _wait_for(path: str, flags: int, kind: int, taken: str) -> int:
    """The lock's descriptor, or DaemonError: a process that only checks holds it for a moment."""
    deadline = time.monotonic() + _PROBED_S
    while (descriptor := _locked(path, flags, kind)) is None:
        if time.monotonic() > deadline:
            raise DaemonError(taken)
        time.sleep(_STEP_S)
    return descriptor


def _folders_above(vault: str) -> list[str]:
    found, folder = [], os.path.dirname(os.path.realpath(vault))
    while folder != os.path.dirname(folder):
        if os.access(folder, os.R_OK):
            found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _is_held(path: str) -> bool:
    descriptor = _locked(path, os.O_RDWR, fcntl.LOCK_EX)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _locked(path: str, flags: int, kind: int) -> int | None:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
