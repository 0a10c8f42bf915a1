"""Tables: the daemon's small tables, in memory and as rows of a SQLite file; TinyDB's storage."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tinydb.storages import Storage

from parachuted.errors import storage_errors
from parachuted.state.database import Database

Record: TypeAlias = dict[str, Any]
"""As it was when it was read: the caller's own copy."""
Tables: TypeAlias = dict[str, dict[str, Record]]

_MIGRATIONS = {
    1: "CREATE TABLE records (name TEXT NOT NULL, key TEXT NOT NULL, document TEXT NOT NULL, "
    "PRIMARY KEY (name, key));"
}
_PUT = (
    "INSERT INTO records (document, name, key) VALUES (?, ?, ?) "
    "ON CONFLICT DO UPDATE SET document = excluded.document"
)
_DROP = "DELETE FROM records WHERE name = ? AND key = ?"
_EARLIER = "state.journal"


class StateStore(Storage):
    """One lock is for reading and changing the tables, and is held during a batch. Never await
    inside a batch: another coroutine's changes would join it.
    """

    def __init__(self, database: Database) -> None:
        """StorageFailedError."""
        self.database = database
        self.lock = threading.RLock()
        self._tables: Tables = {}
        # table, key, the value before, and the new one as JSON; None: there is none
        self._made: list[tuple[str, str, Record | None, str | None]] = []
        self._depth = 0
        self._undone: list[Callable[[], None]] = []
        for name, key, text in database.rows("SELECT * FROM records ORDER BY rowid"):
            self._tables.setdefault(name, {})[json.loads(key)] = json.loads(text)

    @property
    def problem(self) -> str | None:
        """What was lost when it was opened."""
        return self.database.problem

    def on_undone(self, call: Callable[[], None]) -> None:
        """Call this after changes were undone: for what is kept in memory beside them."""
        self._undone.append(call)

    def table(self, name: str) -> Table:
        return Table(self, name)

    def of(self, table: str) -> dict[str, Record]:
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
                    self._save()
            except BaseException:
                self._undo(start)
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    self._made.clear()

    def _save(self) -> None:
        with self.database.write() as connection:
            for name, key, _before, text in self._made:
                row = (name, json.dumps(key))
                if text is None:
                    connection.execute(_DROP, row)
                else:
                    connection.execute(_PUT, (text, *row))

    def _undo(self, start: int) -> None:
        while len(self._made) > start:
            table, key, before, _ = self._made.pop()
            if before is None:
                del self._tables[table][key]
            else:
                self._tables[table][key] = before
        for call in self._undone:
            call()

    def put(self, table: str, key: str, document: Mapping[str, object]) -> None:
        """Set the document at `key`; TypeError or ValueError if JSON cannot hold it."""
        text = _encoded(document)
        with self.batch():
            records = self._tables.setdefault(table, {})
            before = records.get(key)
            if before is None or _encoded(before) != text:
                self._made.append((table, key, before, text))
                records[key] = json.loads(text)

    def drop(self, table: str, key: str) -> bool:
        with self.batch():
            before = self.of(table).get(key)
            if before is None:
                return False
            self._made.append((table, key, before, None))
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
        self.database.close()


class Table:
    """Each change or batch is durable when it returns, or raises StorageFailedError and changed
    nothing.
    """

    def __init__(self, state: StateStore, name: str) -> None:
        self._state, self._name = state, name

    def put(self, key: str, document: Mapping[str, object]) -> None:
        self._state.put(self._name, key, document)

    def get_record(self, key: str) -> Record | None:
        with self._state.lock:
            document = self._state.of(self._name).get(key)
            return _copied(document) if document is not None else None

    def drop(self, key: str) -> bool:
        return self._state.drop(self._name, key)

    def items(self) -> list[tuple[str, Record]]:
        """Each record with its key, in the order in which they came."""
        with self._state.lock:
            return [(key, _copied(one)) for key, one in self._state.of(self._name).items()]

    def __iter__(self) -> Iterator[Record]:
        return iter([record for _key, record in self.items()])

    def __len__(self) -> int:
        return len(self._state.of(self._name))


def open_state(path: Path) -> StateStore:
    """The state in the file `path`, created if missing, from what version 0.1 kept beside it. One
    process at a time may have it open. StorageFailedError.
    """
    state = StateStore(
        Database(
            path,
            label="the state",
            loss="what watchers had not seen yet, and tasks that waited, are lost",
            migrations=_MIGRATIONS,
        )
    )
    earlier = path.with_name(_EARLIER)
    if earlier.exists():
        with storage_errors(f"{_EARLIER} could not be read"):
            damaged = list[bytes]()
            with state.batch():
                for table, key, document in _earlier_changes(earlier, damaged):
                    if document is None:
                        state.drop(table, key)
                    else:
                        state.put(table, key, document)
            if damaged:
                aside = earlier.replace(earlier.with_name(f"{_EARLIER}.garbled"))
                lost = f"{len(damaged)} lines of {_EARLIER} could not be read"
                state.database.problem = f"{lost}; it was set aside as {aside.name}"
            else:
                earlier.unlink()
    return state


def _earlier_changes(path: Path, damaged: list[bytes]) -> Iterator[tuple[str, str, Record | None]]:
    """The changes of a journal; `damaged` gets lines that do not fit the checksum before them."""
    for line in filter(None, path.read_bytes().split(b"\n")):
        if line[:8] == b"%08x" % zlib.crc32(line[9:]):
            content = json.loads(line[9:])
            yield from content if isinstance(content, list) else ()
        else:
            damaged.append(line)


def _encoded(document: Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _copied(value: Any) -> Any:  # noqa: ANN401  what JSON holds
    """A copy that shares nothing that can change; faster than `deepcopy`."""
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
