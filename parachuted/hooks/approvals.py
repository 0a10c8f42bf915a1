"""The approved scripts, by the SHA-256 of their content, in the home's hook-approvals.json.

The home is trusted, so a new script is pinned when first seen. A pinned script that changed does
not run until a person approves it, so an agent that manages to write to it gains nothing. What is
declared in the vault, such as an MCP server, is pinned the same way, and runs only once a person
has approved it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter, ValidationError

from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.home_files.private import (
    UntrustedFileError,
    locked,
    mark_at,
    mark_of,
    read_private,
    replace_private,
    without_waiting,
)

NAME = "hook-approvals.json"

_LIMIT = 1 << 20
_OTHERS = 0o022
_CHUNK = 1 << 20
_SETTLED_NS = 100_000_000
_EMPTY = f"sha256:{hashlib.sha256().hexdigest()}"
_PINS = TypeAdapter(dict[str, str])

_Mark = tuple[int, ...]


class _UnfitError(Exception):
    """The file may not run, whatever it holds; the message says why."""


class ScriptChangedError(ParachuteError):
    """A script is not what was shown, so it was not approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReview:
    """A script as it is now beside what was approved. `now` and `before` are None for one that
    cannot be read as text, or whose approved text was not kept; `digest` for one that may not run.
    """

    path: Path
    digest: str | None
    is_approved: bool
    before: str | None
    now: str | None


class HookApprovals:
    """The pins of one home. May be used from any thread, and beside another process."""

    def __init__(
        self, home: Path, name: str = NAME, command: str = "parachute hooks approve"
    ) -> None:
        """`name` is the file's, `command` what a person types to approve."""
        self._home, self._name, self._path, self._command = home, name, home / name, command
        self._unreadable = (
            f"no script runs: {name} cannot be understood; `{command}` approves them as they are "
            "now, and rewrites it"
        )
        self._texts = self._path.with_suffix("")  # what was approved, each named by its digest
        self._lock = threading.RLock()
        self._digests: dict[Path, tuple[_Mark, str]] = {}
        self._pins: dict[str, str] | None = {}
        self._mark: _Mark | None = None

    def refusal_of(self, files: Iterable[Path]) -> str | None:
        """Why a hook with these scripts does not run, or None.

        Pins new scripts. Usually costs one stat each. An empty new script is not pinned yet. A
        missing file that was never pinned is ignored: it may not be a script.
        """
        with self._lock:
            try:
                self._look()
                found = {
                    str(file): self._digest(file)
                    for file in files
                    if self._is_pinned(file) or file.exists()
                }
            except _UnfitError as error:
                return str(error)
            if self._pins is None:
                return self._unreadable
            changed = [
                path for path, digest in found.items() if self._pins.get(path, digest) != digest
            ]
            if changed:
                return self._changed(changed)
            return self._pin_new(
                {path: digest for path, digest in found.items() if digest != _EMPTY}
            )

    def objection(self, name: str, digest: str, files: Iterable[Path]) -> str | None:
        """Why what is declared as `name`, with these scripts, does not run, or None: nothing of it
        is pinned but by `approve`.
        """
        with self._lock:
            try:
                self._look()
                found = {name: digest} | {str(file): self._digest(file) for file in files}
            except _UnfitError as error:
                return str(error)
            if self._pins is None:
                return self._unreadable
            if name not in self._pins:
                return f"it has not been approved; `{self._command}` lets it run"
            changed = [one for one, now in found.items() if self._pins.get(one) != now]
            if not changed:
                return None
            return self._changed(changed)

    def review(self, files: Iterable[Path]) -> list[ScriptReview]:
        """Each script, and what was approved of it."""
        with self._lock:
            self._look()
            return [
                self._reviewed(file) for file in files if self._is_pinned(file) or file.exists()
            ]

    def approve(
        self,
        files: Iterable[Path],
        declared: Mapping[str, str] = MappingProxyType({}),
        shown: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Let these scripts, and what is `declared` with its digest, run as they are now; returns
        those for which that is news. Raises StorageFailedError, and ScriptChangedError where they
        are not all, and just as, `shown` says: digests by path. None: whatever they are.

        One that is not there, or that others may write to, stays refused.
        """
        with self._lock, self._writing():
            self._look()
            pins = {} if self._pins is None else self._pins
            found = {**declared, **self.digests(files)}
            if changed := {} if shown is None else dict(shown.items() ^ found.items()):
                raise ScriptChangedError(
                    f"{', '.join(sorted(changed))} changed since it was shown, so nothing was "
                    "approved; look at it again"
                )
            news = sorted(path for path, digest in found.items() if pins.get(path) != digest)
            if news or self._pins is None:
                self._write({**pins, **found})
            return news

    def digests(self, files: Iterable[Path]) -> dict[str, str]:
        """What these files hold now, by path; one that is not there, or that others may write to,
        is left out.
        """
        found: dict[str, str] = {}
        with self._lock:
            for file in files:
                with contextlib.suppress(_UnfitError):
                    found[str(file)] = self._digest(file)
        return found

    def _changed(self, names: Iterable[str]) -> str:
        return (
            f"{', '.join(names)} has changed since it was approved; `{self._command}` lets it run"
        )

    def _is_pinned(self, file: Path) -> bool:
        return self._pins is not None and str(file) in self._pins

    def _pin_new(self, found: dict[str, str]) -> str | None:
        if self._pins is not None and found.keys() <= self._pins.keys():
            return None
        try:
            with self._writing():
                self._look()
                if self._pins is None:
                    return self._unreadable
                self._write({**found, **self._pins})
        except StorageFailedError as error:
            return f"a script that is new here could not be approved: {error.message}"
        return None

    def _look(self) -> None:
        """Read the pins again if the file may have changed; None where it cannot be understood."""
        mark = mark_at(self._path)
        if mark is not None and mark == self._mark:
            return
        self._pins, self._mark = self._read(), mark

    def _read(self) -> dict[str, str] | None:
        try:
            text = read_private(self._path, _LIMIT)
        except UntrustedFileError:
            return None
        if text is None:
            return {}
        try:
            return _PINS.validate_json(text, strict=True)
        except ValidationError:
            return None

    def _write(self, pins: dict[str, str]) -> None:
        data = json.dumps(dict(sorted(pins.items())), indent=1).encode() + b"\n"
        if len(data) > _LIMIT:
            raise StorageFailedError(
                f"{self._name} would be too large; remove it, and approve what is there"
            )
        try:
            replace_private(self._path, data)
        except OSError as error:
            raise StorageFailedError(
                f"{self._name} could not be written: {error.strerror}", errno=error.errno
            ) from error
        self._pins, self._mark = pins, None
        self._keep_texts(pins)

    def _keep_texts(self, pins: Mapping[str, str]) -> None:
        """Keep what is approved, to compare a later script with it; what cannot be kept is not."""
        wanted = {digest.removeprefix("sha256:"): Path(path) for path, digest in pins.items()}
        with contextlib.suppress(OSError):
            self._texts.mkdir(mode=0o700, exist_ok=True)
            kept = {one.name for one in self._texts.iterdir()}
            for name in kept.difference(wanted):
                (self._texts / name).unlink()
            for name in wanted.keys() - kept:
                with contextlib.suppress(_UnfitError, OSError):
                    data = wanted[name].read_bytes()
                    if len(data) <= _LIMIT and hashlib.sha256(data).hexdigest() == name:
                        replace_private(self._texts / name, data)

    def _reviewed(self, file: Path) -> ScriptReview:
        try:
            digest = self._digest(file)
        except _UnfitError:
            digest = None
        pinned = (self._pins or {}).get(str(file))
        before = self._texts / (pinned or "none").removeprefix("sha256:")
        return ScriptReview(
            path=file,
            digest=digest,
            is_approved=digest is not None and digest == pinned,
            before=_text(before) if pinned is not None else None,
            now=_text(file) if digest is not None else None,
        )

    def _digest(self, path: Path) -> str:
        """The content's digest, cached by stat once a change can no longer leave that unchanged."""
        try:
            with open(path, "rb", opener=without_waiting) as file:
                at = os.fstat(file.fileno())
                _check(path, at)
                mark = mark_of(at)
                known = self._digests.get(path)
                if known is not None and known[0] == mark:
                    return known[1]
                began = time.time_ns()
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except FileNotFoundError as error:
            raise _UnfitError(f"there is no {path}") from error
        except OSError as error:
            raise _UnfitError(f"{path} cannot be read: {error.strerror}") from error
        found = f"sha256:{digest.hexdigest()}"
        if began - at.st_ctime_ns > _SETTLED_NS:
            self._digests[path] = mark, found
        return found

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(self._home, self._path.with_suffix(".lock").name))
            except OSError as error:
                raise StorageFailedError(
                    f"{self._name} could not be written: {error.strerror}", errno=error.errno
                ) from error
            yield


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
        return data.decode() if len(data) <= _LIMIT else None
    except (OSError, UnicodeDecodeError):
        return None


def _check(path: Path, at: os.stat_result) -> None:
    if not stat.S_ISREG(at.st_mode):
        raise _UnfitError(f"{path} is not a file")
    if at.st_uid not in {os.geteuid(), 0}:
        raise _UnfitError(f"{path} belongs to someone else, who may change it at any time")
    if at.st_mode & _OTHERS:
        raise _UnfitError(f"others may change {path}; `chmod go-w {path}` mends that")
