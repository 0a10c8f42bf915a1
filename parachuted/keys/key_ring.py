"""Key ring: keys.yaml in the home, for its owner alone, and its current keys in memory.

What cannot be trusted opens nothing, and says why. The command and the daemon read and write it,
one at a time; an entry that is not understood stays as it is.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from parachuted.errors import NotFoundError, OutdatedError, ParachuteError, UntrustedError
from parachuted.home_files import (
    REMOVED,
    Changes,
    HomeFile,
    PlainValue,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
)
from parachuted.home_files.private import UntrustedFileError
from parachuted.keys.api_key import ApiKey, hash_of, key_document, parse_key, time_text
from parachuted.keys.scopes import Identity

NAME = "keys.yaml"
_NONE = "no key opens anything"
_LIST = "api_keys"
_LIMIT = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedKeys:
    """The keys that are understood, and a sentence on what is wrong with each other one."""

    keys: tuple[ApiKey, ...] = ()
    faults: tuple[str, ...] = ()


class KeyFile:
    """keys.yaml of one home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(self, home: Path) -> None:
        self._file = HomeFile(home, NAME, limit=_LIMIT, is_secret=True)
        self.path, self.mark = self._file.path, self._file.mark

    def load(self) -> LoadedKeys:
        """No keys when there is no file. Raises UntrustedError."""
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
        while orphans := [one for one in keys.values() if one.parent and one.parent not in keys]:
            for orphan in orphans:  # the other was taken out by hand, or while this one was made
                del keys[orphan.id]
                faults.append(
                    f"{orphan.name!r} opens nothing: the key {orphan.parent!r}, which signed its "
                    "browser in, is not there"
                )
        return LoadedKeys(keys=tuple(keys.values()), faults=tuple(faults))

    def add(self, key: ApiKey) -> None:
        """Raises OutdatedError, UntrustedError and StorageFailedError, having changed nothing.

        No two have the same name: people revoke a key by it, and the audit uses it.
        """

        def added(entries: list[PlainValue]) -> Changes:
            if any(_field(entry, "name") == key.name for entry in entries):
                raise OutdatedError(f"there is a key {key.name!r} already; revoke that one first")
            return {(_LIST,): {len(entries): key_document(key)}}

        self._change(added)

    def remove(self, name: str) -> str:
        """Remove the key of that id, or of a name that one has, with its browsers' keys; its id.

        An entry that is not understood can be removed too. Raises NotFoundError, UntrustedError and
        StorageFailedError.
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
            gone = set(removed)
            while more := {
                _id_of(entry) for entry in entries if _field(entry, "parent") in gone
            }.difference(gone):
                gone |= more
            return {
                (_LIST,): {at: REMOVED for at, one in enumerate(entries) if _id_of(one) in gone}
            }

        self._change(without)
        return removed[0]

    def note_uses(self, used: Mapping[str, datetime]) -> None:
        """Write when keys were last used, by id. Raises UntrustedError and StorageFailedError."""

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
        except UntrustedFileError as error:  # callers of the API read it, so it names no folder
            said = str(error).replace(f"{self.path.parent}/", "")
            raise UntrustedError(f"{_NONE}: {said}") from error
        return [] if text is None else _entries(text)

    def _change(self, change: Callable[[list[PlainValue]], Changes]) -> None:
        def edited(text: str | None) -> str:
            before = new_document({_LIST: []}) if text is None else text
            return edit_document(before, change(_entries(before)), limit=_LIMIT)

        try:
            self._file.change(edited)
        except UntrustedFileError as error:
            raise UntrustedError(f"{_NONE}: {error}") from error
        except YamlRejectedError as error:
            raise UntrustedError(f"{NAME} cannot be changed: {error}; edit it by hand") from error


def _entries(text: str) -> list[PlainValue]:
    try:
        document = read_document(text, limit=_LIMIT, is_strict=True)
    except YamlRejectedError as error:
        raise UntrustedError(f"{_NONE}: {NAME} cannot be understood: {error}") from error
    children = document.children if document is not None else {}
    listed = children[_LIST].plain() if set(children) == {_LIST} else None
    if not isinstance(listed, list):
        raise UntrustedError(
            f"{_NONE}: {NAME} should hold `{_LIST}:` with a list, and nothing else"
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


_LONGEST = 200
_UNSETTLED_S = 0.1


class KeyRing:
    """Looks at the file again whenever it may have changed, which costs one stat."""

    def __init__(self, file: KeyFile, clock: Callable[[], datetime]) -> None:
        self.file, self._clock = file, clock
        self._loaded = LoadedKeys()
        self._hashes: list[tuple[bytes, ApiKey]] = []
        self._temporary: list[ApiKey] = []
        self.problem: str | None = None
        self._mark: object = ()
        self._read_at = 0.0
        self._used: dict[str, datetime] = {}
        self.look()

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """All of them, the expired too, with the times of their last use."""
        return self._loaded.keys

    def last_used(self, key: ApiKey) -> datetime | None:
        """When it was last used here, or what the file says."""
        return self._used.get(key.id, key.last_used)

    def look(self) -> None:
        """Load the file if it changed. One that was read just when it was written is read again."""
        mark = self.file.mark()
        if mark == self._mark and not self.is_unsettled:
            return
        if mark != self._mark:
            self._read_at = time.monotonic()
        self._mark = mark
        try:
            self._loaded = self.file.load()
            self.problem = "; ".join(self._loaded.faults) or None
        except UntrustedError as error:
            self._loaded, self.problem = LoadedKeys(), error.message
        self._keep()

    @contextmanager
    def lent(self, key: ApiKey) -> Iterator[None]:
        """A key that is in no file, and ends with this."""
        self._temporary.append(key)
        self._keep()
        try:
            yield
        finally:
            self._temporary.remove(key)
            self._keep()

    def _keep(self) -> None:
        self._hashes = [
            (key.key_hash.encode(), key) for key in (*self._loaded.keys, *self._temporary)
        ]

    @property
    def is_unsettled(self) -> bool:
        """Whether the file was read so soon after it was written that it has to be read again."""
        return time.monotonic() - self._read_at <= _UNSETTLED_S

    def ends_within(self, seconds: float) -> bool:
        now = self._clock()
        return any(
            key.expires is not None and now < key.expires <= now + timedelta(seconds=seconds)
            for key in self._loaded.keys
        )

    def find(self, secret: str) -> ApiKey | None:
        """The key, expired or not. The time it takes does not tell how near `secret` was."""
        self.look()
        if len(secret) > _LONGEST:
            return None
        wanted = hash_of(secret).encode()
        api_key = None
        for digest, key in self._hashes:
            if hmac.compare_digest(wanted, digest):
                api_key = key
        return api_key

    def identity(self, name: str) -> Identity | None:
        """The caller with the key of that id; None where there is none, or it has expired."""
        self.look()
        now = self._clock()
        found = (key for _, key in self._hashes if key.id == name and not key.is_over(now))
        return next((key.identity() for key in found), None)

    def use(self, key: ApiKey) -> Identity:
        """The time of use is written by `flush` alone."""
        self._used[key.id] = self._clock()
        return key.identity()

    def holds(self, identity: Identity) -> bool:
        """Whether an unexpired key of the present file gives that identity."""
        return self.identity(identity.id) == identity

    def flush(self) -> None:
        """Write the times of use. In a thread. Raises UntrustedError and StorageFailedError."""
        used, self._used = self._used, {}
        known = {key.id for key in self._loaded.keys}
        try:
            if kept := {name: at for name, at in used.items() if name in known}:
                self.file.note_uses(kept)
        except ParachuteError:
            self._used = {**used, **self._used}
            raise
