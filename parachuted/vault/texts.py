"""Texts: recent texts, cached in little memory so that the next change can be compared with them.

One SQLite file, not synced: ten thousand notes go in within a fraction of a second, and losing it
costs no more than a diff.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from parachuted.errors import StorageFailedError

_STOOD = (
    "INSERT INTO places (path, digest, at) VALUES (?, ?, ?) ON CONFLICT (path, digest) DO "
    "UPDATE SET at = excluded.at"
)
_GARBLED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class TextStore:
    """Contents by digest.

    Any fault of the file reads as a text that is not kept; a file that cannot be used is begun
    anew.
    """

    def __init__(self, path: Path) -> None:
        """Raises StorageFailedError when the disk refuses a new file too."""
        self._lock = threading.Lock()
        self._path = path
        try:
            self._database = _open(path)
        except sqlite3.DatabaseError:
            self._database = self._recreate()

    def put(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Keep contents under their digests. Raises OSError when the disk refuses."""
        rows = list(texts)  # before the lock: making them may ask what is kept
        with self._lock:
            try:
                self._put(rows)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _GARBLED:
                    raise OSError(f"texts could not be kept: {error}") from error
                self._database.close()
                self._database = self._recreate()
                self._put(rows)

    def _put(self, rows: Sequence[tuple[str, bytes]]) -> None:
        with self._database:
            self._database.executemany(
                "INSERT OR IGNORE INTO texts (digest, data) VALUES (?, ?)", rows
            )

    def _recreate(self) -> sqlite3.Connection:
        try:
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(f"{self._path.name}{suffix}").unlink(missing_ok=True)
            return _open(self._path)
        except (sqlite3.Error, OSError) as error:
            raise StorageFailedError(
                f"{self._path.name} could not be made anew: {error}"
            ) from error

    def put_places(self, places: Iterable[tuple[bytes, str]], at: int) -> None:
        """Remember that contents of these digests stood at these paths, at that moment in seconds
        since 1970. Raises OSError.
        """
        with self._lock:
            try:
                with self._database:
                    self._database.executemany(_STOOD, [(*place, at) for place in places])
            except sqlite3.Error as error:
                raise OSError(f"where texts stood could not be kept: {error}") from error

    def has_place(self, path: bytes, digest: str) -> bool:
        """Whether a content of that digest is remembered to have stood there."""
        with self._lock:
            try:
                row = self._database.execute(
                    "SELECT 1 FROM places WHERE path = ? AND digest = ?", (path, digest)
                ).fetchone()
            except sqlite3.Error:
                return False
        return row is not None

    def forget_places(self, before: int) -> None:
        """Forget where contents stood that were not seen there since.

        A fault leaves more than was wanted.
        """
        with self._lock, contextlib.suppress(sqlite3.Error), self._database:
            self._database.execute("DELETE FROM places WHERE at < ?", (before,))

    def get(self, digest: str) -> bytes | None:
        """The content of that digest, as it was put; None when it is not kept."""
        with self._lock:
            try:
                row = self._database.execute(
                    "SELECT data FROM texts WHERE digest = ?", (digest,)
                ).fetchone()
            except sqlite3.Error:
                return None
        return None if row is None else bytes(row[0])

    def __contains__(self, digest: str) -> bool:
        with self._lock:
            try:
                return (
                    self._database.execute(
                        "SELECT 1 FROM texts WHERE digest = ?", (digest,)
                    ).fetchone()
                    is not None
                )
            except sqlite3.Error:
                return False

    def keep_only(self, digests: Iterable[str]) -> None:
        """Forget all but these. A fault leaves more than was wanted, which harms nobody."""
        rows = [(digest,) for digest in digests]
        with self._lock, contextlib.suppress(sqlite3.Error), self._database:
            self._database.execute("DROP TABLE IF EXISTS temp.wanted")
            self._database.execute(
                "CREATE TEMP TABLE wanted (digest TEXT PRIMARY KEY) WITHOUT ROWID"
            )
            self._database.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", rows)
            self._database.execute(
                "DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM wanted)"
            )
            self._database.execute("DROP TABLE wanted")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute(
            "CREATE TABLE IF NOT EXISTS texts (digest TEXT PRIMARY KEY, data BLOB NOT NULL) "
            "WITHOUT ROWID"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS places (path BLOB, digest TEXT, at INTEGER NOT NULL, "
            "PRIMARY KEY (path, digest)) WITHOUT ROWID"
        )
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database
