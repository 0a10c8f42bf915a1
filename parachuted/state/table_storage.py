"""Table storage: all tables' documents in memory, changed in batches that are durable or undone.

It is the storage beneath TinyDB's tables. A document in memory is never changed in place, so
undoing is putting the old one back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from tinydb.storages import Storage

from parachuted.state.journal import GONE, Document, Journal, JournalChange, Tables

_Undo: TypeAlias = tuple[
    str, str, Document | None, str
]  # table, key, what was there, what is there now as JSON


class TableStorage(Storage):
    """The tables of one journal; one lock for reading and changing them, held by whoever is in a
    batch.
    """

    def __init__(self, journal: Journal) -> None:
        self.lock = threading.RLock()
        self._journal = journal
        self._tables = journal.tables
        self._undo: list[_Undo] = []
        self._depth = 0
        self._undone: list[Callable[[], None]] = []

    def on_undone(self, call: Callable[[], None]) -> None:
        """Call this after changes were undone: for who keeps in memory what follows from them."""
        self._undone.append(call)

    def of(self, table: str) -> dict[str, Document]:
        """The documents of `table` by key, as they are: to be read under `lock`, and not to be
        changed.
        """
        return self._tables.get(table, {})

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make the changes within durable as one, or undo them all; one within another is part of
        the outer one.

        Raises StorageFailedError at the end of the outermost, if the disk refuses.
        """
        with self.lock:
            start = len(self._undo)
            self._depth += 1
            try:
                yield
                if self._depth == 1 and self._undo:
                    self._journal.append(self._changes())
            except BaseException:
                self._roll_back(start)
                for call in self._undone:
                    call()
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    self._undo.clear()

    def put(self, table: str, key: str, document: Mapping[str, object]) -> None:
        """Set the document at `key`, as JSON would keep it; TypeError or ValueError if it
        cannot.
        """
        text = _encoded(dict(document))
        with self.batch():
            records = self._tables.setdefault(table, {})
            old = records.get(key)
            if old is None or _encoded(old) != text:
                self._undo.append((table, key, old, text))
                records[key] = json.loads(text)

    def drop(self, table: str, key: str) -> bool:
        """Remove the document at `key`; whether there was one."""
        with self.batch():
            old = self.of(table).get(key)
            if old is None:
                return False
            self._undo.append((table, key, old, GONE))
            del self._tables[table][key]
            return True

    def read(self) -> Tables:
        """A copy of everything, as a TinyDB without our tables expects."""
        with self.lock:
            return {
                name: {key: copied(document) for key, document in records.items()}
                for name, records in self._tables.items()
            }

    def write(self, data: Tables) -> None:
        """Make everything equal `data`, as a TinyDB without our tables expects."""
        with self.batch():
            for name, records in self._tables.items():
                for key in [key for key in records if key not in data.get(name, {})]:
                    self.drop(name, key)
            for name, documents in data.items():
                for key, document in documents.items():
                    self.put(name, key, document)

    def close(self) -> None:
        """Close the journal."""
        with self.lock:
            self._journal.close()

    def _changes(self) -> list[JournalChange]:
        latest = {(table, key): text for table, key, _, text in self._undo}
        return [(table, key, text) for (table, key), text in latest.items()]

    def _roll_back(self, start: int) -> None:
        while len(self._undo) > start:
            table, key, old, _ = self._undo.pop()
            if old is None:
                del self._tables[table][key]
            else:
                self._tables[table][key] = old


def copied(document: Mapping[str, object]) -> Document:
    """A copy that shares nothing that can change."""
    return {name: _copied_value(value) for name, value in document.items()}


def _copied_value(value: object) -> object:
    if isinstance(value, dict):
        return copied(value)
    if isinstance(value, list):
        return [_copied_value(item) for item in value]
    return value


def _encoded(document: Document) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
