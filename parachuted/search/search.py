"""Search: the index of one vault in the daemon: its updates and its queries."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.search.engine import SearchEngine
from parachuted.search.index_tables import make_database, text_of
from parachuted.search.indexed_note import NoteQuery
from parachuted.search.indexer import Indexer, IndexReport
from parachuted.search.note_catalogue import NoteCatalogue
from parachuted.state import DatabaseStatus
from parachuted.vault import IndexEntry, VaultIndex, VaultRoot

_SECONDS, _WAIT_S = 5.0, 1.0
_TRIES = 50
_BETWEEN_TRIES_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class UnindexedNote:
    path: str
    reason: str


class Search:
    """`report` is called in a thread; it takes a subject and what is wrong with it, or None."""

    def __init__(
        self,
        path: Path,
        root: VaultRoot,
        index: VaultIndex,
        report: IndexReport,
        *,
        caught_up: Callable[[], None] = lambda: None,
        is_noticing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Touches nothing until `start`."""
        self._database = make_database(path)
        self.engine = SearchEngine(self._database)
        self.indexer = Indexer(
            self._database,
            root,
            listing=lambda: files_of(index),
            report=report,
            caught_up=caught_up,
            is_noticing=is_noticing,
        )
        self._database.on_damage = self.indexer.lose
        self.catalogue = NoteCatalogue(self._database)

    @property
    def is_behind(self) -> bool:
        return self.indexer.is_behind

    def settle(self, seconds: float) -> bool:
        """See `Indexer.settle`. Blocks."""
        return self.indexer.settle(seconds)

    async def list_when_current(self, query: NoteQuery) -> list[str]:
        while not await asyncio.to_thread(self.settle, _WAIT_S):
            pass
        return await asyncio.to_thread(self.catalogue.paths, query)

    def unindexed(self) -> list[UnindexedNote]:
        """By path. Blocks. Raises StorageFailedError."""
        with self._database.reading(_SECONDS) as connection:
            rows = connection.execute(
                "SELECT path, reason FROM notes WHERE reason IS NOT NULL ORDER BY path"
            ).fetchall()
        return [UnindexedNote(path=text_of(path), reason=reason) for path, reason in rows]

    def count(self) -> int:
        """How many notes are indexed. Blocks. Raises StorageFailedError."""
        with self._database.reading(_SECONDS) as connection:
            return int(connection.execute("SELECT count(*) FROM notes").fetchone()[0])

    def status(self) -> DatabaseStatus:
        return self._database.status()

    def close(self) -> None:
        self.indexer.close()
        self._database.close()


def files_of(index: VaultIndex) -> Mapping[str, IndexEntry]:
    """Read again while the loop changes it. OSError if that fails: nothing counts as gone then."""
    for _ in range(_TRIES):
        try:
            return {
                f"{folder}/{name}" if folder else name: entry
                for folder in index.all_folders()
                for name, entry in dict(index.entries(folder)).items()
            }
        except RuntimeError:
            time.sleep(_BETWEEN_TRIES_S)
    raise OSError(errno.EAGAIN, "too much changes at once")
