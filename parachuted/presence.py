"""Presence: which daemon is running for a home, and that there is only one for a home and for a vault.

Kept cheap to import: it is all that `parachute status` needs to know before it asks. A lock held for life is the proof; the record
beside it only says whom to ask.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from parachuted.errors import DaemonError

_RECORD = "daemon.json"
_LOCK = "daemon.lock"
_PROBED_S = 0.3
_STEP_S = 0.01


class Presence:
    """Held by the daemon while it lives; released by the system however it ends."""

    def __init__(self, home: str, vault: str) -> None:
        """Take both locks. Raises DaemonError when another daemon has one of them, or when they cannot be taken."""
        self._run = os.path.join(home, "run")
        self._held: list[int] = []
        try:
            os.makedirs(self._run, mode=0o700, exist_ok=True)
            self._hold(os.path.join(self._run, _LOCK), os.O_RDWR | os.O_CREAT, _for_home(home))
            self._forget()  # what a killed daemon left, lest it be taken for ours
            self._hold(vault, os.O_RDONLY | os.O_DIRECTORY, _for_vault(vault))
        except OSError as error:
            self._let_go()
            raise DaemonError(f"{error.filename or home} cannot be locked: {error.strerror}") from error

    def announce(self, record: dict[str, object]) -> None:
        """Say whom to ask: pid, host, port, vault, version, started, and the token that the command shows."""
        target = os.path.join(self._run, _RECORD)
        with open(f"{target}.tmp", "w", encoding="utf-8", opener=_private) as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(record, file)
        os.replace(f"{target}.tmp", target)

    def release(self) -> None:
        """Give both locks back."""
        self._forget()
        self._let_go()

    def _forget(self) -> None:
        record = os.path.join(self._run, _RECORD)
        if os.path.exists(record):
            os.unlink(record)

    def _hold(self, path: str, flags: int, taken: str) -> None:
        """Take one lock. Whoever asks whether a daemon runs holds it for a moment too, so one refusal is none."""
        deadline = time.monotonic() + _PROBED_S
        while (descriptor := _locked(path, flags)) is None:
            if time.monotonic() > deadline:
                self._let_go()
                raise DaemonError(taken)
            time.sleep(_STEP_S)
        self._held.append(descriptor)

    def _let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def running_daemon(home: str) -> dict[str, object] | None:
    """The record of the daemon that runs for this home, or None. A record whose lock nobody holds is a dead daemon's."""
    run = os.path.join(home, "run")
    try:
        if not _is_held(os.path.join(run, _LOCK), os.O_RDWR):
            return None
        with open(os.path.join(run, _RECORD), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return None  # none, or one that has only begun
    return record if isinstance(record, dict) else None


def refuse_second(home: str, vault: str) -> None:
    """Raise the DaemonError that `Presence` would, as far as it is known already: long before a daemon is built."""
    for path, flags, taken in (
        (os.path.join(home, "run", _LOCK), os.O_RDWR, _for_home(home)),
        (vault, os.O_RDONLY | os.O_DIRECTORY, _for_vault(vault)),
    ):
        try:
            is_held = _is_held(path, flags)
        except OSError:
            continue  # `Presence` will say what is wrong with it
        if is_held:
            raise DaemonError(taken)


def _for_home(home: str) -> str:
    return f"a daemon is already running for {home}; `parachute status` tells more, `parachute stop` ends it"


def _for_vault(vault: str) -> str:
    return f"another daemon is already at work on {vault}; a vault has one writer"


def _is_held(path: str, flags: int) -> bool:
    descriptor = _locked(path, flags)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _locked(path: str, flags: int) -> int | None:
    """A descriptor that holds the lock on `path`, or None when someone else does."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
