"""File: keys.yaml in the home, for its owner alone.

What cannot be trusted opens nothing, and says why.

It is read and written by the command and the daemon alike, one at a time; an entry that is not
understood stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError, StorageFailedError
from parachuted.keys.api_key import ApiKey, key_document, parse_key, time_text
from parachuted.keys.document import KeyFileValue, read_document, write_document
from parachuted.private import UntrustedFileError, locked, mark_at, read_private, replace_private

NAME = "keys.yaml"
_LIST = "api_keys"
_LIMIT = 256 * 1024


class KeysRefusedError(ParachuteError):
    """keys.yaml cannot be trusted, so no key opens anything."""


class NameTakenError(ParachuteError):
    """Another key has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedKeys:
    """What the file holds: the keys that are understood, and in a sentence each what is wrong with
    others.
    """

    keys: tuple[ApiKey, ...] = ()
    faults: tuple[str, ...] = ()


class KeyFile:
    """keys.yaml of one home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(self, home: Path) -> None:
        self._home, self.path = home, home / NAME

    def mark(self) -> tuple[int, ...] | None:
        """What changes whenever the file does; None: there is none."""
        return mark_at(self.path)

    def load(self) -> LoadedKeys:
        """The keys; none when there is no file.

        Raises KeysRefusedError for one that is not to be trusted.
        """
        keys: dict[str, ApiKey] = {}
        faults: list[str] = []
        for number, entry in enumerate(self._entries(), start=1):
            try:
                key = parse_key(entry)
                if key.id in keys or any(key.key_hash == other.key_hash for other in keys.values()):
                    raise ValueError("another entry has the same id or hash")  # noqa: TRY301
                keys[key.id] = key
            except ValueError as error:
                faults.append(f"{_called(entry, number)} opens nothing: {error}")
        return LoadedKeys(keys=tuple(keys.values()), faults=tuple(faults))

    def add(self, key: ApiKey) -> None:
        """Write one more.

        Raises NameTakenError, KeysRefusedError and StorageFailedError, having changed nothing.

        No two are called the same, since people revoke a key by its name and the audit tells of it
        by that.
        """

        def longer(entries: list[KeyFileValue]) -> list[object]:
            if any(_field(one, "name") == key.name for one in entries):
                raise NameTakenError(
                    f"there is a key {key.name!r} already; revoke that one first, or take another "
                    "name"
                )
            return [*entries, key_document(key)]

        self._change(longer)

    def remove(self, name: str) -> str:
        """Take away the key of that id, or of that name when only one has it; returns its id.

        An entry that is not understood can be taken away too. Raises NotFoundError,
        KeysRefusedError and StorageFailedError.
        """
        gone: list[KeyFileValue] = []

        def without(entries: list[KeyFileValue]) -> list[object]:
            found = [one for one in entries if _field(one, "id") == name] or [
                one for one in entries if _id_of(one) == name
            ]
            found = found or [one for one in entries if _field(one, "name") == name]
            if not found:
                raise NotFoundError(
                    f"there is no key {name[:80]!r}; `parachute keys list` shows them"
                )
            if len(found) > 1:
                raise NotFoundError(
                    f"{len(found)} keys are called {name[:80]!r}; name one by its id, as "
                    "`parachute keys list` shows it"
                )
            gone.append(found[0])
            return [one for one in entries if one is not found[0]]

        self._change(without)
        return _id_of(gone[0])

    def note_uses(self, used: Mapping[str, datetime]) -> None:
        """Write when keys were last used, by id. Raises KeysRefusedError and StorageFailedError."""

        def noted(entries: list[KeyFileValue]) -> list[object]:
            return [
                {**one, "last_used": time_text(used[_id_of(one)])}
                if isinstance(one, dict) and _id_of(one) in used
                else one
                for one in entries
            ]

        if self.path.exists():
            self._change(noted)

    def _entries(self) -> list[KeyFileValue]:
        text = self._text()
        if text is None:
            return []
        try:
            document = read_document(text)
        except ValueError as error:
            raise KeysRefusedError(
                f"no key opens anything: {NAME} cannot be understood, {error}"
            ) from error
        entries = (
            document.get(_LIST) if isinstance(document, dict) and set(document) == {_LIST} else None
        )
        if not isinstance(entries, list):
            raise KeysRefusedError(
                f"no key opens anything: {NAME} should hold `{_LIST}:` with a list, and nothing "
                "else"
            )
        return entries

    def _text(self) -> str | None:
        try:
            return read_private(self.path, _LIMIT, is_secret=True)
        except UntrustedFileError as error:
            raise KeysRefusedError(f"no key opens anything: {error}") from error

    def _change(self, change: Callable[[list[KeyFileValue]], list[object]]) -> None:
        try:
            with locked(self._home, "keys.lock"):
                text = write_document({_LIST: change(self._entries())})
                if len(text.encode()) > _LIMIT:
                    raise KeysRefusedError(
                        f"{NAME} would be larger than {_LIMIT // 1024} KB; revoke keys that "
                        "nobody needs"
                    )
                replace_private(self.path.resolve(), text.encode())
        except OSError as error:
            raise StorageFailedError(
                f"{NAME} could not be written: {error.strerror}", errno=error.errno
            ) from error


def _field(entry: KeyFileValue, name: str) -> str | None:
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else None


def _id_of(entry: KeyFileValue) -> str:
    return _field(entry, "id") or f"k_{(_field(entry, 'key_hash') or '')[7:19]}"


def _called(entry: KeyFileValue, number: int) -> str:
    name = _field(entry, "name")
    return f"key {number} ({name[:80]!r})" if name else f"key {number}"
