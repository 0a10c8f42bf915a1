"""Journal: TinyDB's storage of all tables in one file, replayed when it is opened; and the tables,
where a change costs its own size and not the table's.

A line is `crc32 json`, a batch of changes as `[table, key, document or null]`. Only appended to, so
that a change costs one write and one fdatasync; written again when most of it is dead or in doubt.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from tinydb.storages import Storage

from parachuted.errors import StorageFailedError, storage_errors

log = logging.getLogger(__name__)

Document: TypeAlias = dict[str, object]
Tables: TypeAlias = dict[str, dict[str, Document]]
# table, key, the old and the new value as JSON ("null": it is gone)
_Change: TypeAlias = tuple[str, str, Document | None, str]

_GONE = "null"
_FORMAT = 1
_RECORDS_A_LINE = 50
_SLACK = 1_000
_HIGH_WATER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDisk:
    """The system calls that change a journal, named so that each can be made to fail."""

    open: Callable[[Path, int, int], int] = os.open
    write: Callable[[int, bytes], int] = os.write
    fdatasync: Callable[[int], None] = os.fsync if sys.platform == "darwin" else os.fdatasync
    fsync: Callable[[int], None] = os.fsync
    ftruncate: Callable[[int, int], None] = os.ftruncate
    link: Callable[[Path, Path], None] = os.link
    replace: Callable[[Path, Path], None] = os.replace


SYSTEM = JournalDisk()


@dataclass(slots=True, kw_only=True)
class _Replay:
    tables: Tables = field(default_factory=dict)
    lines: int = 0
    changes: int = 0
    length: int = 0
    torn: int = 0
    garbled: int = 0
    newer: bool = False


class Journal(Storage):
    """One lock is for reading and changing the tables, and is held during a batch."""

    def __init__(
        self, path: Path, *, disk: JournalDisk = SYSTEM, high_water: int = _HIGH_WATER
    ) -> None:
        """Open or begin the journal, and mend it. StorageFailedError. `high_water`: the length in
        bytes past which it is rewritten while in use, if four fifths of it are dead.
        """
        self.path = path
        self.lock = threading.RLock()
        self.problems: tuple[str, ...] = ()
        self._tables: Tables = {}
        self._made: list[_Change] = []  # in this batch
        self._depth = 0
        self._undone: list[Callable[[], None]] = []
        self._disk, self._high_water, self._mark = disk, high_water, high_water
        self._fd = -1
        self._length = self._changes = 0
        self._in_doubt = False
        with storage_errors(f"the disk refused {path.name}"), contextlib.ExitStack() as undo:
            undo.callback(self._close_file)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._temporary.unlink(missing_ok=True)
            self._load(_replay(path) if path.exists() else None)
            undo.pop_all()

    def on_undone(self, call: Callable[[], None]) -> None:
        """Call this after changes were undone: for what is kept in memory beside them."""
        self._undone.append(call)

    def table(self, name: str) -> Table:
        return Table(self, name)

    def of(self, table: str) -> dict[str, Document]:
        """The documents of `table`, to be read under `lock`, and not to be changed."""
        return self._tables.get(table, {})

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make the changes within durable as one, or undo them all, nested ones with the outermost.
        StorageFailedError at its end, if the disk refuses.
        """
        with self.lock:
            start = len(self._made)
            self._depth += 1
            try:
                yield
                if self._depth == 1 and self._made:
                    self._append({(table, key): text for table, key, _, text in self._made})
            except BaseException:
                self._roll_back(start)
                for call in self._undone:
                    call()
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    self._made.clear()

    def put(self, table: str, key: str, document: Mapping[str, object]) -> None:
        """Set the document at `key`; TypeError or ValueError if JSON cannot hold it."""
        text = _encoded(dict(document))
        with self.batch():
            records = self._tables.setdefault(table, {})
            old = records.get(key)
            if old is None or _encoded(old) != text:
                self._made.append((table, key, old, text))
                records[key] = json.loads(text)

    def drop(self, table: str, key: str) -> bool:
        with self.batch():
            old = self.of(table).get(key)
            if old is None:
                return False
            self._made.append((table, key, old, _GONE))
            del self._tables[table][key]
            return True

    def read(self) -> Tables:
        with self.lock:
            return {
                name: {key: _copied(document) for key, document in records.items()}
                for name, records in self._tables.items()
            }

    def write(self, data: Tables) -> None:
        with self.batch():
            for name, records in self._tables.items():
                for key in records.keys() - data.get(name, {}).keys():
                    self.drop(name, key)
            for name, documents in data.items():
                for key, document in documents.items():
                    self.put(name, key, document)

    def close(self) -> None:
        """Close the file, leaving out what is dead if that is most of it."""
        with self.lock:
            if self._fd >= 0 and self._is_mostly_dead():
                self._compact()
            self._close_file()

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(f"{self.path.name}.tmp")

    def _load(self, replay: _Replay | None) -> None:
        if replay is None:
            self._rewrite()
            return
        self._tables = replay.tables
        aside = self._set_aside() if replay.garbled or replay.newer else None
        self.problems = _losses(self.path, replay, aside)
        if aside or not replay.lines:
            self._rewrite()
            return
        self._fd = self._disk.open(self.path, os.O_WRONLY | os.O_APPEND, 0o600)
        self._length, self._changes = replay.length, replay.changes
        self._mark = self._next_mark()
        self._in_doubt = replay.torn > 0 and not self._take_back()
        if self._is_mostly_dead():
            self._compact()

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _append(self, changes: Mapping[tuple[str, str], str]) -> None:
        if self._fd < 0:
            raise StorageFailedError(f"{self.path.name} is closed")
        with storage_errors(f"the disk refused {self.path.name}"):
            if self._in_doubt:
                self._rewrite()
            else:
                written = (
                    f"[{json.dumps(table)},{json.dumps(key)},{text}]"
                    for (table, key), text in changes.items()
                )
                self._append_line(_line(f"[{','.join(written)}]"))
                self._changes += len(changes)
        if self._length > self._mark:
            self._compact()

    def _append_line(self, line: bytes) -> None:
        self._in_doubt = True  # until it is known: an interrupt may come anywhere below
        try:
            _write(self._disk, self._fd, line)
        except OSError:
            self._in_doubt = not self._take_back()
            raise
        try:
            self._disk.fdatasync(self._fd)
        except OSError:
            # what the page cache holds now says nothing about the disk: still in doubt
            self._take_back()
            raise
        self._length += len(line)
        self._in_doubt = False

    def _roll_back(self, start: int) -> None:
        while len(self._made) > start:
            table, key, old, _ = self._made.pop()
            if old is None:
                del self._tables[table][key]
            else:
                self._tables[table][key] = old

    def _take_back(self) -> bool:
        try:
            self._disk.ftruncate(self._fd, self._length)
        except OSError:
            return False
        return True

    def _rewrite(self) -> None:
        fd = self._disk.open(
            self._temporary, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600
        )
        try:
            length = sum(_write(self._disk, fd, line) for line in _lines(self._tables))
            self._disk.fsync(fd)
            self._in_doubt = True  # from here on, which file has the name is known only at the end
            self._disk.replace(self._temporary, self.path)
        except BaseException:
            os.close(fd)
            self._temporary.unlink(missing_ok=True)
            raise
        self._close_file()
        self._fd, self._length, self._changes = fd, length, self._live()
        self._mark = self._next_mark()
        _sync_folder(self._disk, self.path.parent)
        self._in_doubt = False

    def _compact(self) -> None:
        try:
            self._rewrite()
        except OSError as error:
            self._mark = self._next_mark()
            log.warning(
                "the state could not be compacted",
                extra={"file": str(self.path), "error": str(error)},
            )

    def _next_mark(self) -> int:
        return max(self._high_water, 5 * self._length)

    def _live(self) -> int:
        return sum(map(len, self._tables.values()))

    def _is_mostly_dead(self) -> bool:
        live = self._live()
        return self._changes - live > 2 * live + _SLACK

    def _set_aside(self) -> Path:
        stamp = f"{self.path.name}.garbled-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        names = (stamp if number == 1 else f"{stamp}-{number}" for number in range(1, sys.maxsize))
        aside = next(place for name in names if not (place := self.path.with_name(name)).exists())
        try:
            self._disk.link(self.path, aside)
        except OSError:  # a file system without hard links
            aside.write_bytes(self.path.read_bytes())
        return aside


def _line(text: str) -> bytes:
    data = text.encode()
    return b"%08x %s\n" % (zlib.crc32(data), data)


def _lines(tables: Tables) -> Iterator[bytes]:
    yield _line(json.dumps({"format": _FORMAT}))
    for name, records in tables.items():
        entries = [[name, key, document] for key, document in records.items()]
        for start in range(0, len(entries), _RECORDS_A_LINE):
            yield _line(json.dumps(entries[start : start + _RECORDS_A_LINE], separators=(",", ":")))


def _write(disk: JournalDisk, fd: int, data: bytes) -> int:
    written = disk.write(fd, data)
    while written < len(data):  # a short write: ask again, for the reason
        written += disk.write(fd, data[written:])
    return written


def _sync_folder(disk: JournalDisk, folder: Path) -> None:
    fd = disk.open(folder, os.O_RDONLY | os.O_DIRECTORY, 0)
    try:
        disk.fsync(fd)
    finally:
        os.close(fd)


def _replay(path: Path) -> _Replay:
    replay = _Replay()
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                replay.torn = len(line)
                break
            replay.lines += 1
            replay.length += len(line)
            try:
                changes = _changes_in(line)
            except _NewerFormatError:
                return _Replay(lines=replay.lines, newer=True)
            except (ValueError, TypeError, KeyError, RecursionError):
                replay.garbled += 1
                continue
            for table, key, document in changes:
                if document is None:
                    replay.tables.get(table, {}).pop(key, None)
                else:
                    replay.tables.setdefault(table, {})[key] = document
            replay.changes += len(changes)
    return replay


class _NewerFormatError(Exception): ...


def _changes_in(line: bytes) -> list[tuple[str, str, Document | None]]:
    data = line[9:-1]
    if line[:9] != b"%08x " % zlib.crc32(data):
        raise ValueError("the checksum differs")
    content = json.loads(data)
    if isinstance(content, dict):
        if content["format"] != _FORMAT:
            raise _NewerFormatError
        return []
    changes = [(table, key, document) for table, key, document in content]
    for table, key, document in changes:
        are_names = isinstance(table, str) and isinstance(key, str)
        if not are_names or not isinstance(document, dict | None):
            raise TypeError("not a change")
    return changes


def _losses(path: Path, replay: _Replay, aside: Path | None) -> tuple[str, ...]:
    name, kept = path.name, aside.name if aside else ""
    losses = []
    if replay.newer:
        losses.append(
            f"{name} was written by a newer version and set aside as {kept}; a new one was started"
        )
    if replay.garbled:
        gone = f"{replay.garbled} of its {replay.lines} lines were unreadable"
        losses.append(f"{name} was set aside as {kept}: {gone}, and the rest was kept")
    if replay.torn:
        losses.append(
            f"{name} ended within a line, as after a crash; those {replay.torn} bytes were dropped"
        )
    elif not replay.lines:
        losses.append(f"{name} was empty; a new one was started")
    return tuple(losses)


def _encoded(document: Document) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _copied(value: Any) -> Any:  # noqa: ANN401  what JSON holds
    """A copy that shares nothing that can change; faster than `deepcopy`."""
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


Record: TypeAlias = dict[str, Any]
"""As it was when it was read: the caller's own copy."""


class Table:
    """Each change or batch is durable when it returns, or raises StorageFailedError and changed
    nothing.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal, self._name = journal, name

    def put(self, key: str, document: Mapping[str, object]) -> None:
        self._journal.put(self._name, key, document)

    def get_record(self, key: str) -> Record | None:
        with self._journal.lock:
            document = self._journal.of(self._name).get(key)
            return _copied(document) if document is not None else None

    def drop(self, key: str) -> bool:
        return self._journal.drop(self._name, key)

    def items(self) -> list[tuple[str, Record]]:
        """Each record with its key, in the order in which they came."""
        with self._journal.lock:
            return [(key, _copied(one)) for key, one in self._journal.of(self._name).items()]

    def __iter__(self) -> Iterator[Record]:
        return iter([record for _key, record in self.items()])

    def __len__(self) -> int:
        return len(self._journal.of(self._name))


StateStore: TypeAlias = Journal
"""Never await inside a batch: another coroutine's changes would join it."""


def open_state(path: Path, *, disk: JournalDisk = SYSTEM) -> StateStore:
    """The state in the file `path`, created if missing; `problems` says what was repaired. One
    process at a time may have it open. StorageFailedError.
    """
    return Journal(path, disk=disk)
