"""Texts: recent texts, cached in little memory so that the next change can be compared with them.

One SQLite file, not synced: ten thousand notes go in within a fraction of a second, and losing it
costs no more than a diff.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from parachuted.errors import StorageFailedError
from parachuted.state import Database, DatabaseStatus

_STOOD = (
    "INSERT INTO places (path, digest, at) VALUES (?, ?, ?) ON CONFLICT (path, digest) DO "
    "UPDATE SET at = excluded.at"
)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (path BLOB, digest TEXT, at INTEGER NOT NULL, PRIMARY KEY (path, digest)) WITHOUT ROWID;
"""  # noqa: E501


class TextStore:
    """Contents by digest.

    Any fault of the file reads as a text that is not kept.
    """

    def __init__(self, path: Path) -> None:
        """Raises StorageFailedError when the disk refuses a new file too."""
        self._database = Database(
            path,
            label=path.name,
            loss="changes made while the daemon is off are shown without a difference",
            migrations={1: _SCHEMA},
            is_derived=True,
        )
        with self._database.writer():
            pass

    def status(self) -> DatabaseStatus:
        return self._database.status()

    def put(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Keep contents under their digests. Raises OSError when the disk refuses."""
        rows = list(texts)  # before the lock: making them may ask what is kept
        try:
            try:
                self._put(rows)
            except StorageFailedError:
                if not self._database.is_damaged:
                    raise
                self._database.set_aside("damaged")
                self._put(rows)
        except StorageFailedError as error:
            raise OSError(f"texts could not be kept: {error}") from error

    def _put(self, rows: Sequence[tuple[str, bytes]]) -> None:
        with self._database.write() as connection:
            connection.executemany("INSERT OR IGNORE INTO texts (digest, data) VALUES (?, ?)", rows)

    def put_places(self, places: Iterable[tuple[bytes, str]], at: int) -> None:
        """Remember that contents of these digests were at these paths, at that moment in seconds
        since 1970. Raises OSError.
        """
        try:
            with self._database.write() as connection:
                connection.executemany(_STOOD, [(*place, at) for place in places])
        except StorageFailedError as error:
            raise OSError(f"the places of texts could not be kept: {error}") from error

    def has_place(self, path: bytes, digest: str) -> bool:
        with contextlib.suppress(StorageFailedError):
            sql = "SELECT 1 FROM places WHERE path = ? AND digest = ?"
            return bool(self._database.rows(sql, (path, digest)))
        return False

    def forget_places(self, before: int) -> None:
        """Forget places last seen before that. A fault keeps more than wanted."""
        with contextlib.suppress(StorageFailedError), self._database.write() as connection:
            connection.execute("DELETE FROM places WHERE at < ?", (before,))

    def get(self, digest: str) -> bytes | None:
        with contextlib.suppress(StorageFailedError):
            for (data,) in self._database.rows(
                "SELECT data FROM texts WHERE digest = ?", (digest,)
            ):
                return bytes(data)
        return None

    def __contains__(self, digest: str) -> bool:
        with contextlib.suppress(StorageFailedError):
            return bool(self._database.rows("SELECT 1 FROM texts WHERE digest = ?", (digest,)))
        return False

    def keep_only(self, digests: Iterable[str]) -> None:
        """Forget all but these. A fault keeps more than wanted."""
        with contextlib.suppress(StorageFailedError), self._database.write() as connection:
            kept = {digest for (digest,) in connection.execute("SELECT digest FROM texts")}
            unwanted = [(digest,) for digest in kept.difference(digests)]
            connection.executemany("DELETE FROM texts WHERE digest = ?", unwanted)

    def close(self) -> None:
        self._database.close()
