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

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files import (
    REMOVED,
    CannotEditError,
    Changes,
    HomeFile,
    PlainValue,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
)
from parachuted.keys.api_key import ApiKey, key_document, parse_key, time_text
from parachuted.private import UntrustedFileError

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
        self._file = HomeFile(home, NAME, limit=_LIMIT, is_secret=True)
        self.path, self.mark = self._file.path, self._file.mark

    def load(self) -> LoadedKeys:
        """The keys; none when there is no file.

        Raises KeysRefusedError for one that is not to be trusted.
        """
        keys: dict[str, ApiKey] = {}
        faults: list[str] = []
        for number, entry in enumerate(self._load(), start=1):
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

        def added(entries: list[PlainValue]) -> Changes:
            if any(_field(one, "name") == key.name for one in entries):
                raise NameTakenError(
                    f"there is a key {key.name!r} already; revoke that one first, or take another "
                    "name"
                )
            return {(_LIST,): {len(entries): key_document(key)}}

        self._change(added)

    def remove(self, name: str) -> str:
        """Take away the key of that id, or of that name when only one has it; returns its id.

        An entry that is not understood can be taken away too. Raises NotFoundError,
        KeysRefusedError and StorageFailedError.
        """
        removed: list[str] = []

        def without(entries: list[PlainValue]) -> Changes:
            found = (
                [at for at, one in enumerate(entries) if _field(one, "id") == name]
                or [at for at, one in enumerate(entries) if _id_of(one) == name]
                or [at for at, one in enumerate(entries) if _field(one, "name") == name]
            )
            if not found:
                raise NotFoundError(
                    f"there is no key {name[:80]!r}; `parachute keys list` shows them"
                )
            if len(found) > 1:
                raise NotFoundError(
                    f"{len(found)} keys are called {name[:80]!r}; name one by its id, as "
                    "`parachute keys list` shows it"
                )
            removed.append(_id_of(entries[found[0]]))
            return {(_LIST,): {found[0]: REMOVED}}

        self._change(without)
        return removed[0]

    def note_uses(self, used: Mapping[str, datetime]) -> None:
        """Write when keys were last used, by id. Raises KeysRefusedError and StorageFailedError."""

        def noted(entries: list[PlainValue]) -> Changes:
            return {
                (_LIST, number): {"last_used": time_text(used[_id_of(one)])}
                for number, one in enumerate(entries)
                if isinstance(one, dict) and _id_of(one) in used
            }

        if self.path.exists():
            self._change(noted)

    def _load(self) -> list[PlainValue]:
        try:
            text = self._file.read()
        except UntrustedFileError as error:
            raise KeysRefusedError(f"no key opens anything: {error}") from error
        return [] if text is None else _entries(text)

    def _change(self, change: Callable[[list[PlainValue]], Changes]) -> None:
        def edited(text: str | None) -> str:
            before = new_document({_LIST: []}) if text is None else text
            return edit_document(before, change(_entries(before)), limit=_LIMIT)

        try:
            self._file.change(edited)
        except UntrustedFileError as error:
            raise KeysRefusedError(f"no key opens anything: {error}") from error
        except CannotEditError as error:
            raise KeysRefusedError(f"{NAME} cannot be changed: {error}; edit it by hand") from error


def _entries(text: str) -> list[PlainValue]:
    try:
        document = read_document(text, limit=_LIMIT, is_strict=True)
    except YamlRejectedError as error:
        raise KeysRefusedError(
            f"no key opens anything: {NAME} cannot be understood: {error}"
        ) from error
    children = document.children if document is not None else {}
    listed = children[_LIST].plain() if set(children) == {_LIST} else None
    if not isinstance(listed, list):
        raise KeysRefusedError(
            f"no key opens anything: {NAME} should hold `{_LIST}:` with a list, and nothing else"
        )
    return listed


def _field(entry: PlainValue, name: str) -> str | None:
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else None


def _id_of(entry: PlainValue) -> str:
    return _field(entry, "id") or f"k_{(_field(entry, 'key_hash') or '')[7:19]}"


def _called(entry: PlainValue, number: int) -> str:
    name = _field(entry, "name")
    return f"key {number} ({name[:80]!r})" if name else f"key {number}"
