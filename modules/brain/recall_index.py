"""Recall: answers a question, which is a sentence, with the passages that fit it best.

Any word that says something may match, in any form. Where little of the question matched, what a
passage means counts too, if there are vectors. Derived: the file can be deleted at any time.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Literal

from .recall_search import IsWanted, Recalled, RecallSearch
from .vectors import MODEL, Embedder, VectorTable
from .windows import OFF, ON
from .words import set_apart

_VERSION = 5
# what is private, and what a word is, may be another thing in another release
_MADE_WITH = f"{MODEL}, parachuted {metadata.version('parachuted')}"
_FIRST_ENTITY = -(1 << 40)  # FTS5 is fast where numbers grow
# FTS5 collects 4 MB of words in memory before it writes them: a third less time for many notes
_SCHEMA = """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
    digest TEXT NOT NULL, text_digest BLOB NOT NULL, has_vectors INTEGER NOT NULL DEFAULT 0);
CREATE INDEX without_vectors ON notes (id) WHERE has_vectors = 0;
CREATE VIRTUAL TABLE texts USING fts5(
    title, aliases, body, tokenize = "porter unicode61 remove_diacritics 2");
INSERT INTO texts (texts, rank) VALUES ('hashsize', 4194304);
CREATE TABLE passages (
    note INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, scale REAL NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (note, start)) WITHOUT ROWID;
CREATE TABLE model (name TEXT NOT NULL);
"""
_NO_TEXT = re.compile(f"[\ud800-\udfff\0{ON}{OFF}]")


class RecallDamagedError(Exception):
    """The file is not what it was: delete it, and build it from the vault."""


class RecallIndex:
    """The index in a file (":memory:": in none) that no other process has open.

    Calls wait for the disk; any thread may make them. RecallDamagedError: the file is damaged; one
    that cannot be opened starts again, empty.
    """

    def __init__(self, path: Path | Literal[":memory:"], embedder: Embedder | None = None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._in_batch = False
        try:
            self._database = _open(path)
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            self._database = _open(path)
        self._searching = RecallSearch(self._database)
        self._vectors = VectorTable(self._database, embedder) if embedder else None
        self._next = {
            True: self._after("WHERE id < 0", _FIRST_ENTITY),
            False: self._after("WHERE id > 0", 1),
        }

    def _after(self, where: str, first: int) -> int:
        last = self._database.execute(f"SELECT max(id) FROM notes {where}").fetchone()[0]  # noqa: S608  both are above
        return first if last is None else last + 1

    @property
    def has_vectors(self) -> bool:
        return self._vectors is not None

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def digests(self) -> dict[str, str]:
        with self._using() as database:
            return dict(database.execute("SELECT path, digest FROM notes"))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Makes all changes within it at once, or none of them."""
        with self._using() as database:
            if self._in_batch:
                yield
                return
            database.execute("BEGIN IMMEDIATE")
            self._in_batch = True
            try:
                yield
            except BaseException:
                database.execute("ROLLBACK")
                if self._vectors:
                    self._vectors.reset()
                raise
            else:
                database.execute("COMMIT")
            finally:
                self._in_batch = False
                self._searching.forget_counts()

    def put(
        self,
        path: str,
        title: str,
        aliases: Iterable[str],
        text: str,
        digest: str = "",
        *,
        is_entity: bool = False,
    ) -> None:
        """Take up a note: `text` is its body, without what is private, which is then no longer
        found.
        """
        texts = tuple(set_apart(_storable(one)) for one in (title, "\n".join(aliases), text))
        text_digest = blake2b("\0".join(texts).encode(), digest_size=16).digest()
        row = (path, _storable(title), digest, text_digest)
        with self.batch():
            held = self._database.execute(
                "SELECT id, digest, text_digest FROM notes WHERE path = ?", (path,)
            ).fetchone()
            if held and (held[2], held[0] < 0) == (text_digest, is_entity):
                if held[1] != digest:
                    self._database.execute(
                        "UPDATE notes SET digest = ? WHERE id = ?", (digest, held[0])
                    )
                return
            if held:
                self.remove(path)
            number = self._next[is_entity]
            self._next[is_entity] += 1
            self._database.execute(
                "INSERT INTO notes (id, path, title, digest, text_digest) VALUES (?, ?, ?, ?, ?)",
                (number, *row),
            )
            self._database.execute(
                "INSERT INTO texts (rowid, title, aliases, body) VALUES (?, ?, ?, ?)",
                (number, *texts),
            )

    def remove(self, path: str) -> None:
        with self.batch():
            row = self._database.execute("SELECT id FROM notes WHERE path = ?", (path,)).fetchone()
            if row is not None:
                self._database.execute("DELETE FROM texts WHERE rowid = ?", row)
                self._database.execute("DELETE FROM notes WHERE id = ?", row)
                self._database.execute("DELETE FROM passages WHERE note = ?", row)
                if self._vectors:
                    self._vectors.forget(row[0])

    def embed(self, most: int = 200) -> int:
        """Make the vectors of so many notes that have none; how many are left.

        It holds the index for some 20 ms: call it until nothing is left, with pauses.
        """
        if self._vectors is None:
            return 0
        with self.batch():
            rows = self._database.execute(
                "SELECT id, texts.title, body FROM notes JOIN texts ON texts.rowid = id"
                " WHERE has_vectors = 0 ORDER BY id LIMIT ?",
                (most,),
            ).fetchall()
            for note, made in self._vectors.make(rows).items():
                self._vectors.put(note, made)
                self._database.execute("UPDATE notes SET has_vectors = 1 WHERE id = ?", (note,))
            left = self._database.execute("SELECT count(*) FROM notes WHERE has_vectors = 0")
            return int(left.fetchone()[0])

    def optimize(self) -> None:
        """Put together what many changes left in pieces: questions then take half the time."""
        with self._using() as database:
            database.execute("INSERT INTO texts (texts) VALUES ('optimize')")

    def search(
        self,
        question: str,
        limit: int = 5,
        *,
        explain: bool = False,
        only: IsWanted | None = None,
    ) -> list[Recalled]:
        """The best answers. `only`: entities alone, by path, that hold a word of the question."""
        with self._using():
            return self._searching.search(
                _storable(question), limit, self._vectors, explain=explain, only=only
            )

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._database
            except sqlite3.DatabaseError as error:
                raise RecallDamagedError(f"{self._path}: {error}") from error


def _open(path: Path | Literal[":memory:"]) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA secure_delete = ON")  # what became private is not in the file
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if not version:
            database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
            database.execute("INSERT INTO model VALUES (?)", (_MADE_WITH,))
        _check(database, version or _VERSION)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection, version: int) -> None:
    made_with = database.execute("SELECT name FROM model").fetchall()
    if version != _VERSION or made_with != [(_MADE_WITH,)]:
        raise sqlite3.DatabaseError("made by another version")


def _storable(text: str) -> str:
    return _NO_TEXT.sub("\ufffd", text)
