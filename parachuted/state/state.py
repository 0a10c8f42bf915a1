"""State: the tables of one vault, kept in one journal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from parachuted.state.journal import SYSTEM, Journal, JournalDisk
from parachuted.state.table import Table
from parachuted.state.table_storage import TableStorage


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
        out anew.
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
