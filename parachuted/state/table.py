"""Table: a TinyDB table with text keys, where a change costs its own size and not the table's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tinydb import table as tinydb_table
from tinydb.queries import QueryLike

from parachuted.state.journal import SYSTEM, Document, Journal, JournalDisk, TableStorage, copied


class TableRecord(tinydb_table.Document):
    """A document as it was when it was read: the caller's own copy, with its key."""

    def __init__(self, value: Mapping[str, object], key: str) -> None:
        super().__init__(copied(value), key)  # type: ignore[arg-type]  # TinyDB's hints know numbers only

    @property
    def key(self) -> str:
        """The key it is kept under."""
        return str(self.doc_id)


class Table(tinydb_table.Table):
    """TinyDB's API over `TableStorage`, and `put`, `get_record`, `drop`, `items` for records with a
    key of their own.

    All keys are text: a number given as one is read as its digits, and `insert` hands out such
    digits. Each change is durable when it returns, or raises StorageFailedError and changed
    nothing; so is each batch.
    """

    document_class = TableRecord  # type: ignore[assignment]  # both are there to be set, but hinted as TinyDB's own
    document_id_class = str  # type: ignore[assignment]

    def __init__(self, records: TableStorage, name: str) -> None:
        super().__init__(
            records, name, cache_size=0
        )  # the cache would hand one caller's copy to another
        self._records = records
        self._number = 0

    def put(self, key: str, document: Mapping[str, object]) -> None:
        """Set the record of `key`; TypeError or ValueError if it is not JSON."""
        self._records.put(self.name, key, document)

    def get_record(self, key: str) -> TableRecord | None:
        """The record of `key`, if there is one."""
        with self._records.lock:
            document = self._records.of(self.name).get(key)
            return None if document is None else TableRecord(document, key)

    def drop(self, key: str) -> bool:
        """Remove the record of `key`; whether there was one."""
        return self._records.drop(self.name, key)

    def items(self) -> list[tuple[str, TableRecord]]:
        """Each record with its key, in the order in which they came."""
        return [(record.key, record) for record in iter(self)]

    def get(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # TinyDB's six overloads
        """As TinyDB's: one record, by query or `doc_id`, or those of `doc_ids`."""
        with self._records.lock:
            return super().get(*args, **kwargs)

    def search(self, cond: QueryLike) -> list[tinydb_table.Document]:
        """As TinyDB's."""
        with self._records.lock:
            return super().search(cond)

    def update(
        self,
        fields: Mapping[str, object] | Callable[[MutableMapping[str, object]], None],
        cond: QueryLike | None = None,
        doc_ids: Iterable[Any] | None = None,
    ) -> list[Any]:
        """As TinyDB's; what a query does not match is not touched."""
        with self._records.lock:
            return super().update(fields, doc_ids=self._chosen(cond, doc_ids))

    def remove(
        self, cond: QueryLike | None = None, doc_ids: Iterable[Any] | None = None
    ) -> list[Any]:
        """As TinyDB's; what a query does not match is not touched."""
        with self._records.lock:
            return super().remove(doc_ids=self._chosen(cond, doc_ids))

    def __iter__(self) -> Iterator[TableRecord]:
        with self._records.lock:
            return iter(
                [
                    TableRecord(document, key)
                    for key, document in self._records.of(self.name).items()
                ]
            )

    def _chosen(self, cond: QueryLike | None, doc_ids: Iterable[Any] | None) -> list[Any] | None:
        if doc_ids is not None:
            return [str(doc_id) for doc_id in doc_ids]
        return (
            None
            if cond is None
            else [key for key, document in self._records.of(self.name).items() if cond(document)]
        )

    def _get_next_id(self) -> str:
        with self._records.lock:  # TinyDB asks before it changes anything
            records = self._records.of(self.name)
            if not self._number:
                self._number = max((int(key) for key in records if key.isdecimal()), default=0)
            self._number += 1
            while str(self._number) in records:
                self._number += 1
            return str(self._number)

    def _read_table(self) -> dict[str, Any]:
        return self._records.of(self.name)

    def _update_table(self, updater: Callable[..., None]) -> None:
        with self._records.batch():
            draft = _Draft(self._records, self.name)
            updater(draft)
            draft.finish()


class _Draft(MutableMapping[str, Document]):
    """A table while TinyDB changes it: what was handed out is kept, since TinyDB changes documents
    in place.
    """

    def __init__(self, records: TableStorage, table: str) -> None:
        self._records = records
        self._table = table
        self._out: dict[str, Document] = {}

    def finish(self) -> None:
        for key, document in self._out.items():
            self._records.put(self._table, key, document)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def __getitem__(self, key: object) -> Document:
        text = str(key)
        if text not in self._out:
            self._out[text] = copied(self._records.of(self._table)[text])
        return self._out[text]

    def __setitem__(self, key: object, document: Document) -> None:
        self._out.pop(str(key), None)
        self._records.put(self._table, str(key), document)

    def __delitem__(self, key: object) -> None:
        self._out.pop(str(key), None)
        if not self._records.drop(self._table, str(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return str(key) in self._records.of(self._table)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records.of(self._table))

    def __len__(self) -> int:
        return len(self._records.of(self._table))


class StateStore:
    """Named tables; what one holds is on the disk when the change returns."""

    def __init__(self, journal: Journal) -> None:
        self._records = TableStorage(journal)
        self._tables: dict[str, Table] = {}
        self.problems = journal.problems

    def table(self, name: str) -> Table:
        """The table of that name, empty if nothing was put in it yet."""
        return self._tables.setdefault(name, Table(self._records, name))

    def batch(self) -> AbstractContextManager[None]:
        """A block whose changes, in any table, become durable as one when it ends, or are all
        undone if it raises.

        Raises StorageFailedError if the disk refuses. Other threads wait for it; never await
        inside, since another coroutine's changes would join.
        """
        return self._records.batch()

    def on_undone(self, call: Callable[[], None]) -> None:
        """Call this after a batch was undone, so that what was worked out from the tables is worked
        out again.
        """
        self._records.on_undone(call)

    def close(self) -> None:
        """Close the file; nothing was waiting to be written."""
        self._records.close()


def open_state(path: Path, *, disk: JournalDisk = SYSTEM) -> StateStore:
    """The state kept in the file `path`, created if it is missing, repaired and reported in
    `problems` if it was damaged.

    One process at a time may have it open. Raises StorageFailedError if the disk refuses.
    """
    return StateStore(Journal(path, disk=disk))
