"""Table: a TinyDB table with text keys, where a change costs its own size and not the table's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tinydb import table as tinydb_table

from parachuted.state.journal import SYSTEM, Journal, JournalDisk, copied


class TableRecord(tinydb_table.Document):
    """A document as it was when it was read: the caller's own copy, with its key."""

    def __init__(self, value: Mapping[str, object], key: str) -> None:
        super().__init__(copied(value), key)  # type: ignore[arg-type]  # TinyDB's hints know numbers only

    @property
    def key(self) -> str:
        return str(self.doc_id)


class Table(tinydb_table.Table):
    """A table with text keys. Each change or batch is durable when it returns, or raises
    StorageFailedError and changed nothing.
    """

    document_class = TableRecord  # type: ignore[assignment]  # both are there to be set, but hinted as TinyDB's own
    document_id_class = str  # type: ignore[assignment]

    def __init__(self, journal: Journal, name: str) -> None:
        # TinyDB's cache would hand one caller's copy to another
        super().__init__(journal, name, cache_size=0)
        self._journal = journal

    def put(self, key: str, document: Mapping[str, object]) -> None:
        """Set the record of `key`; TypeError or ValueError if it is not JSON."""
        self._journal.put(self.name, key, document)

    def get_record(self, key: str) -> TableRecord | None:
        with self._journal.lock:
            document = self._journal.of(self.name).get(key)
            return None if document is None else TableRecord(document, key)

    def drop(self, key: str) -> bool:
        """Remove the record of `key`; whether there was one."""
        return self._journal.drop(self.name, key)

    def items(self) -> list[tuple[str, TableRecord]]:
        """Each record with its key, in the order in which they came."""
        return [(record.key, record) for record in iter(self)]

    def __iter__(self) -> Iterator[TableRecord]:
        with self._journal.lock:
            records = self._journal.of(self.name).items()
            return iter([TableRecord(document, key) for key, document in records])

    def __len__(self) -> int:
        return len(self._journal.of(self.name))

    def _update_table(self, updater: Callable[[dict[Any, Any]], None]) -> None:
        with self._journal.batch():
            super()._update_table(updater)


class StateStore(Journal):
    """Named tables. Never await inside a batch: another coroutine's changes would join it."""

    def table(self, name: str) -> Table:
        return Table(self, name)


def open_state(path: Path, *, disk: JournalDisk = SYSTEM) -> StateStore:
    """The state in the file `path`, created if missing; `problems` says what was repaired. One
    process at a time may have it open. StorageFailedError.
    """
    return StateStore(path, disk=disk)
