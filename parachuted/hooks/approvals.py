"""The approved scripts, by the SHA-256 of their content, in the home's hook-approvals.json.

A new script in the home is pinned when first seen; one that changed waits for a person. What is
declared in the vault, such as an MCP server, runs only once a person has approved it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import ValidationError

from parachuted.errors import OutdatedError, StorageFailedError, storage_errors
from parachuted.home_files.private import (
    UntrustedFileError,
    locked,
    read_private,
    replace_private,
    why_untrusted,
    without_waiting,
)
from parachuted.texts.adapters import late_adapter

NAME = "hook-approvals.json"

_LIMIT = 1 << 20
_EMPTY = f"sha256:{hashlib.sha256().hexdigest()}"
_NOT_TEXT = "(it is larger than 1 MB, or no text: open it yourself before you approve it)\n"
_PINS = late_adapter(dict[str, str])


class _RefusedError(Exception):
    """It may not run; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReview:
    """`hash` names the script as it is now, null where it may not run."""

    path: str
    hash: str | None
    state: Literal["approved", "changed", "unfit"]
    text: str


class HookApprovals:
    """The pins of one home. May be used from any thread, and beside another process."""

    def __init__(
        self, home: Path, name: str = NAME, command: str = "parachute hooks approve"
    ) -> None:
        """`name` is the file's, `command` what a person types to approve."""
        self._home, self._path, self._command = home, home / name, command

    def refusal_of(self, files: Iterable[Path]) -> str | None:
        """Why a hook with these scripts does not run, or None; pins new ones, but no empty one.
        A missing file that was never pinned may not be a script.
        """
        try:
            pins = self._load()
            found = {
                str(file): _digest(file) for file in files if str(file) in pins or file.exists()
            }
            self._refuse_changed(pins, found)
            new = {name: at for name, at in found.items() if name not in pins and at != _EMPTY}
            if new:
                self._pin(new, is_new=True)
        except _RefusedError as error:
            return str(error)
        except StorageFailedError as error:
            return f"a script that is new here could not be approved: {error.message}"
        return None

    def objection(self, name: str, digest: str, files: Iterable[Path]) -> str | None:
        """Why what is declared as `name` does not run, or None: only `approve` pins it."""
        try:
            pins = self._load()
            if name not in pins:
                return f"it has not been approved; `{self._command}` lets it run"
            found = {name: digest, **{str(file): _digest(file) for file in files}}
            self._refuse_changed({**dict.fromkeys(found, ""), **pins}, found)
        except _RefusedError as error:
            return str(error)
        return None

    def review(self, files: Iterable[Path]) -> list[ScriptReview]:
        with contextlib.suppress(_RefusedError):
            pins = self._load()
            return [
                _reviewed(file, pins.get(str(file)))
                for file in files
                if str(file) in pins or file.exists()
            ]
        return [_reviewed(file, None) for file in files if file.exists()]

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
        found = {**declared, **self.digests(files)}
        if changed := {} if shown is None else dict(shown.items() ^ found.items()):
            names = ", ".join(sorted(changed))
            raise OutdatedError(f"{names} changed since it was shown, so nothing was approved")
        return self._pin(found)

    def digests(self, files: Iterable[Path]) -> dict[str, str]:
        """What these files hold now, by path, without missing ones or those others may change."""
        found: dict[str, str] = {}
        for file in files:
            with contextlib.suppress(_RefusedError):
                found[str(file)] = _digest(file)
        return found

    def _refuse_changed(self, pins: Mapping[str, str], found: Mapping[str, str]) -> None:
        changed = [name for name, digest in found.items() if pins.get(name, digest) != digest]
        if changed:
            names = ", ".join(changed)
            raise _RefusedError(
                f"{names} has changed since it was approved; `{self._command}` lets it run"
            )

    def _load(self) -> dict[str, str]:
        try:
            text = read_private(self._path, _LIMIT)
            return {} if text is None else _PINS().validate_json(text, strict=True)
        except (UntrustedFileError, ValidationError) as error:
            raise _RefusedError(
                f"no script runs: {self._path.name} cannot be understood; `{self._command}` "
                "approves them as they are now, and rewrites it"
            ) from error

    def _pin(self, found: Mapping[str, str], *, is_new: bool = False) -> list[str]:
        """Write them down; returns those that are news. `is_new`: only what has no pin, and not
        over pins that cannot be read. Raises StorageFailedError and, for new ones, _RefusedError.
        """
        with (
            storage_errors(f"{self._path.name} could not be written"),
            locked(self._home, self._path.with_suffix(".lock").name),
        ):
            known: dict[str, str] = {}
            with contextlib.nullcontext() if is_new else contextlib.suppress(_RefusedError):
                known = self._load()
            pins = {**found, **known} if is_new else {**known, **found}
            news = sorted(name for name in found if pins[name] != known.get(name))
            data = json.dumps(dict(sorted(pins.items())), indent=1).encode() + b"\n"
            if len(data) > _LIMIT:
                raise StorageFailedError(f"{self._path.name} would be too large; remove it first")
            if news:
                replace_private(self._path, data)
            return news


def _reviewed(file: Path, pinned: str | None) -> ScriptReview:
    try:
        digest, text = _digest(file), _text(file)
    except _RefusedError:
        digest, text = None, ""
    state: Literal["approved", "changed"] = "approved" if digest == pinned else "changed"
    return ScriptReview(
        path=str(file), hash=digest, state=state if digest is not None else "unfit", text=text
    )


def _digest(path: Path) -> str:
    try:
        with open(path, "rb", opener=without_waiting) as file:
            if (why := why_untrusted(path, os.fstat(file.fileno()))) is not None:
                raise _RefusedError(why)
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except FileNotFoundError as error:
        raise _RefusedError(f"there is no {path}") from error
    except OSError as error:
        raise _RefusedError(f"{path} cannot be read: {error.strerror}") from error


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
        return data.decode() if len(data) <= _LIMIT else _NOT_TEXT
    except (OSError, UnicodeDecodeError):
        return _NOT_TEXT
