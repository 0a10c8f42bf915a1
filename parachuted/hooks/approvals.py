"""The approved scripts, by the SHA-256 of their content, in the home's hook-approvals.json.

A new script in the home is pinned when first seen; one that changed waits for a person. What is
declared in the vault, such as an MCP server, runs only once a person has approved it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from parachuted.errors import OutdatedError, StorageFailedError, storage_errors
from parachuted.home_files.private import (
    UntrustedFileError,
    locked,
    mark_at,
    mark_of,
    read_private,
    replace_private,
    why_untrusted,
    without_waiting,
)

NAME = "hook-approvals.json"

_LIMIT = 1 << 20
_SETTLED_NS = 100_000_000
_EMPTY = f"sha256:{hashlib.sha256().hexdigest()}"
_UNSHOWN = "(it is larger than 1 MB, or no text: open it yourself before you approve it)\n"
_PINS = TypeAdapter(dict[str, str])

_Mark = tuple[int, ...]


class _UnfitError(Exception):
    """The file may not run, whatever it holds; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReview:
    """`hash` names the script as it is now, null where it may not run; `diff` is from what was
    approved, or from nothing where that was not kept.
    """

    path: str
    hash: str | None
    state: Literal["approved", "changed", "unfit"]
    diff: str


class HookApprovals:
    """The pins of one home. May be used from any thread, and beside another process."""

    def __init__(
        self, home: Path, name: str = NAME, command: str = "parachute hooks approve"
    ) -> None:
        """`name` is the file's, `command` what a person types to approve."""
        self._home, self._path, self._command = home, home / name, command
        self._texts = self._path.with_suffix("")  # what was approved, each named by its digest
        self._lock = threading.RLock()
        self._digests: dict[Path, tuple[_Mark, str]] = {}
        self._pins: dict[str, str] | None = {}
        self._mark: _Mark | None = None

    def refusal_of(self, files: Iterable[Path]) -> str | None:
        """Why a hook with these scripts does not run, or None; pins new ones, but no empty one.
        Usually costs one stat each. A missing file that was never pinned may not be a script.
        """
        with self._lock:
            self._look()
            known = self._pins or {}
            wanted = [file for file in files if str(file) in known or file.exists()]
            if (refusal := self._differing({}, wanted)) is not None:
                return refusal
            found = {path: at for path, at in self.digests(wanted).items() if at != _EMPTY}
            if found.keys() <= known.keys():
                return None
            try:
                self._pin(found, is_new=True)
            except StorageFailedError as error:
                return f"a script that is new here could not be approved: {error.message}"
            return None if self._pins is not None else self._unreadable

    def objection(self, name: str, digest: str, files: Iterable[Path]) -> str | None:
        """Why what is declared as `name` does not run, or None: only `approve` pins it."""
        with self._lock:
            self._look()
            if self._pins is not None and name not in self._pins:
                return f"it has not been approved; `{self._command}` lets it run"
            return self._differing({name: digest}, files, must_know=True)

    def review(self, files: Iterable[Path]) -> list[ScriptReview]:
        with self._lock:
            self._look()
            known = self._pins or {}
            return [
                self._reviewed(file, known.get(str(file)))
                for file in files
                if str(file) in known or file.exists()
            ]

    def approve(
        self,
        files: Iterable[Path],
        declared: Mapping[str, str] = MappingProxyType({}),
        shown: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Let these scripts, and what is `declared` with its digest, run as they are now; returns
        those for which that is news. Unfit ones stay refused. Raises StorageFailedError, and
        OutdatedError where they are not all, and just as, `shown` says: digests by path.
        """
        with self._lock:
            self._look()
            found = {**declared, **self.digests(files)}
            if changed := {} if shown is None else dict(shown.items() ^ found.items()):
                raise OutdatedError(
                    f"{', '.join(sorted(changed))} changed since it was shown, so nothing was "
                    "approved"
                )
            return self._pin(found)

    def digests(self, files: Iterable[Path]) -> dict[str, str]:
        """What these files hold now, by path, without missing ones or those others may change."""
        found: dict[str, str] = {}
        with self._lock:
            for file in files:
                with contextlib.suppress(_UnfitError):
                    found[str(file)] = self._digest(file)
        return found

    @property
    def _unreadable(self) -> str:
        return (
            f"no script runs: {self._path.name} cannot be understood; `{self._command}` approves "
            "them as they are now, and rewrites it"
        )

    def _differing(
        self, declared: Mapping[str, str], files: Iterable[Path], *, must_know: bool = False
    ) -> str | None:
        """Why these may not run as they are. `must_know`: what is not pinned may not."""
        try:
            found = {**declared, **{str(file): self._digest(file) for file in files}}
        except _UnfitError as error:
            return str(error)
        if self._pins is None:
            return self._unreadable
        changed = [
            name
            for name, digest in found.items()
            if self._pins.get(name, None if must_know else digest) != digest
        ]
        if not changed:
            return None
        return (
            f"{', '.join(changed)} has changed since it was approved; `{self._command}` lets it run"
        )

    def _pin(self, found: Mapping[str, str], *, is_new: bool = False) -> list[str]:
        """Write them down; returns those that are news. `is_new`: only what has no pin, and not
        over pins that cannot be read. Raises StorageFailedError.
        """
        with (
            storage_errors(f"{self._path.name} could not be written"),
            locked(self._home, self._path.with_suffix(".lock").name),
        ):
            self._look()
            known = self._pins
            if is_new and known is None:
                return []
            pins = {**found, **(known or {})} if is_new else {**(known or {}), **found}
            news = sorted(name for name in found if pins[name] != (known or {}).get(name))
            if news or known is None:
                self._write(pins)
            return news

    def _write(self, pins: dict[str, str]) -> None:
        data = json.dumps(dict(sorted(pins.items())), indent=1).encode() + b"\n"
        if len(data) > _LIMIT:
            raise StorageFailedError(f"{self._path.name} would be too large; remove it first")
        replace_private(self._path, data)
        self._pins, self._mark = pins, None
        self._keep_texts(pins)

    def _look(self) -> None:
        """Read the pins again if the file may have changed; None where it cannot be understood."""
        mark = mark_at(self._path)
        if mark is not None and mark == self._mark:
            return
        try:
            text = read_private(self._path, _LIMIT)
            self._pins = {} if text is None else _PINS.validate_json(text, strict=True)
        except (UntrustedFileError, ValidationError):
            self._pins = None
        self._mark = mark

    def _keep_texts(self, pins: Mapping[str, str]) -> None:
        """Keep what is approved, if possible, to compare a later script with it."""
        wanted = {digest.removeprefix("sha256:"): Path(path) for path, digest in pins.items()}
        with contextlib.suppress(OSError):
            self._texts.mkdir(mode=0o700, exist_ok=True)
            kept = {file.name for file in self._texts.iterdir()}
            for name in kept.difference(wanted):
                (self._texts / name).unlink()
            for name in wanted.keys() - kept:
                with contextlib.suppress(OSError):
                    data = wanted[name].read_bytes()
                    if len(data) <= _LIMIT and hashlib.sha256(data).hexdigest() == name:
                        replace_private(self._texts / name, data)

    def _reviewed(self, file: Path, pinned: str | None) -> ScriptReview:
        digest = self.digests([file]).get(str(file))
        before = _text(self._texts / pinned.removeprefix("sha256:")) if pinned is not None else ""
        now = _text(file) if digest is not None else ""
        return ScriptReview(
            path=str(file),
            hash=digest,
            state="unfit" if digest is None else "approved" if digest == pinned else "changed",
            diff=_UNSHOWN if now is None else _diff(before or "", now),
        )

    def _digest(self, path: Path) -> str:
        """Cached by stat once a change can no longer leave that unchanged. Raises _UnfitError."""
        try:
            with open(path, "rb", opener=without_waiting) as file:
                at = os.fstat(file.fileno())
                if (why := why_untrusted(path, at)) is not None:
                    raise _UnfitError(why)
                mark, began = mark_of(at), time.time_ns()
                known = self._digests.get(path)
                if known is not None and known[0] == mark:
                    return known[1]
                found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except FileNotFoundError as error:
            raise _UnfitError(f"there is no {path}") from error
        except OSError as error:
            raise _UnfitError(f"{path} cannot be read: {error.strerror}") from error
        if began - at.st_ctime_ns > _SETTLED_NS:
            self._digests[path] = mark, found
        return found


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
        return data.decode() if len(data) <= _LIMIT else None
    except (OSError, UnicodeDecodeError):
        return None


def _diff(before: str, now: str) -> str:
    lines = before.splitlines(keepends=True), now.splitlines(keepends=True)
    return "".join(unified_diff(*lines, "approved", "now"))
