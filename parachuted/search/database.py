"""Database: the file that the index is kept in.

It can be deleted at any time; what cannot be read is set aside and begun anew.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parachuted.errors import StorageFailedError
from parachuted.search.words import emoji

COLUMNS = ("title", "headings", "body", "tags", "matter", "place", "facets")
_VERSION = 3
_SCHEMA = f"""
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, name BLOB NOT NULL, title TEXT NOT NULL, modified REAL NOT NULL,
    size INTEGER NOT NULL, digest TEXT NOT NULL, tags TEXT NOT NULL, matter TEXT NOT NULL, reason TEXT);
CREATE INDEX notes_by_name ON notes (name);
CREATE INDEX notes_with_reason ON notes (path) WHERE reason IS NOT NULL;
CREATE TABLE others (path BLOB PRIMARY KEY, name BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX others_by_name ON others (name);
CREATE TABLE tags (tag TEXT NOT NULL, note INTEGER NOT NULL, PRIMARY KEY (tag, note)) WITHOUT ROWID;
CREATE TABLE fields (
    note INTEGER NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, folded TEXT NOT NULL, kind TEXT NOT NULL, number REAL NOT NULL,
    PRIMARY KEY (note, key, at)) WITHOUT ROWID;
CREATE INDEX fields_by_key ON fields (key, note);
CREATE TABLE links (
    note INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, text BLOB NOT NULL, name BLOB NOT NULL, from_folder INTEGER NOT NULL,
    line INTEGER NOT NULL, PRIMARY KEY (note, at)) WITHOUT ROWID;
CREATE INDEX links_by_name ON links (name);
CREATE VIRTUAL TABLE texts USING fts5({", ".join(COLUMNS)}, tokenize = "unicode61 remove_diacritics 2 tokenchars '{emoji()}'");
PRAGMA user_version = {_VERSION};
"""  # noqa: E501
# FTS5 collects 4 MB of words in memory before it writes a segment; with its default of 1 MB a third
# of the time goes into merging
_FEW_SEGMENTS = "INSERT INTO texts (texts, rank) VALUES ('hashsize', 4194304);"
_GARBLED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CACHE_KB = 512
_KEPT_READERS = 2
_STEPS = 20_000


class OutdatedError(sqlite3.DatabaseError):
    """The file is of another version of the program."""


class Database:
    """The file, one connection that writes, and some that read.

    `met` is told each error that reading ends in.
    """

    def __init__(self, path: Path) -> None:
        """Opens nothing yet."""
        self._path = path
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._generation = 0
        self._is_closed = False
        self._is_made = threading.Event()
        self.met: Callable[[sqlite3.Error], None] = lambda _error: None

    def writer(self) -> sqlite3.Connection:
        """The connection that writes, for one thread.

        The first call opens the file, or makes it. Raises sqlite3.Error.
        """
        with self._lock:
            if self._writer is None:
                if self._is_closed:
                    raise sqlite3.ProgrammingError("the search index is closed")
                self._writer = _open(self._path)
                self._is_made.set()
            return self._writer

    @contextlib.contextmanager
    def reading(self, seconds: float) -> Iterator[sqlite3.Connection]:
        """A connection to read from, for at most so long.

        Waits for the file to be made. Raises StorageFailedError.
        """
        if not self._is_made.wait(seconds):
            raise StorageFailedError("the search index is not made yet; ask again in a moment")
        try:
            with self._read_for(seconds) as connection:
                yield connection
        except sqlite3.Error as error:
            self.met(error)
            raise StorageFailedError(
                f"the search index cannot be read just now ({error})"
            ) from error

    @contextlib.contextmanager
    def _read_for(self, seconds: float) -> Iterator[sqlite3.Connection]:
        connection, generation = self._reader()
        deadline = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            yield connection
        finally:
            connection.set_progress_handler(None, 0)
            connection.rollback()
            with self._lock:
                keep = (
                    generation == self._generation
                    and len(self._readers) < _KEPT_READERS
                    and not self._is_closed
                )
                if keep:
                    self._readers.append(connection)
            if not keep:
                connection.close()

    def set_aside(self) -> str:
        """Rename the file, if it is there, so that it is made anew; the name it has now.

        Raises OSError.
        """
        with self._lock:
            self._close()
            self._is_made.clear()
            aside = self._path.with_name(f"{self._path.name}.garbled")
            for suffix in ("-wal", "-shm"):
                self._path.with_name(f"{self._path.name}{suffix}").unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self._path.replace(aside)
            return aside.name

    def exists(self) -> bool:
        """Whether the file is there."""
        return self._path.exists()

    def close(self) -> None:
        """Close every connection; nothing is opened any more."""
        with self._lock:
            self._is_closed = True
            self._close()

    def _reader(self) -> tuple[sqlite3.Connection, int]:
        with self._lock:
            if self._is_closed:
                raise sqlite3.ProgrammingError("the search index is closed")
            if self._readers:
                return self._readers.pop(), self._generation
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
            )
            return _set_up(connection), self._generation

    def _close(self) -> None:
        self._generation += 1
        for connection in [*self._readers, *([self._writer] if self._writer else [])]:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._readers.clear()
        self._writer = None


def is_garbled(error: sqlite3.Error) -> bool:
    """Whether the file itself is to blame, so that it has to be made anew."""
    return (
        isinstance(error, OutdatedError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _GARBLED
    )


def _set_up(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        _set_up(connection)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if (
            version == 0
            and not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        ):
            connection.executescript(f"BEGIN; {_SCHEMA} {_FEW_SEGMENTS} COMMIT;")
        elif version != _VERSION:
            raise OutdatedError(f"it is of version {version}, not {_VERSION}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
