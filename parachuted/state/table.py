"""Table: records with text keys, where a change costs its own size and not the table's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.state.journal import SYSTEM, Journal, JournalDisk, copied

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
            return None if document is None else copied(document)

    def drop(self, key: str) -> bool:
        return self._journal.drop(self._name, key)

    def items(self) -> list[tuple[str, Record]]:
        """Each record with its key, in the order in which they came."""
        with self._journal.lock:
            return [(key, copied(one)) for key, one in self._journal.of(self._name).items()]

    def __iter__(self) -> Iterator[Record]:
        return iter([record for _key, record in self.items()])

    def __len__(self) -> int:
        return len(self._journal.of(self._name))


class StateStore(Journal):
    """Named tables. Never await inside a batch: another coroutine's changes would join it."""

    def table(self, name: str) -> Table:
        return Table(self, name)


def open_state(path: Path, *, disk: JournalDisk = SYSTEM) -> StateStore:
    """The state in the file `path`, created if missing; `problems` says what was repaired. One
    process at a time may have it open. StorageFailedError.
    """
    return StateStore(path, disk=disk)
