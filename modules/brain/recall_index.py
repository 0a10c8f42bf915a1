"""Recall: answers a question, which is a sentence, with the passages that fit it best.

Any word that says something may match, in any form. Where little of the question matched, what a
passage means counts too, if there are vectors. Derived: the file can be deleted at any time.
"""

from __future__ import annotations

import math
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from .question import QuestionWord, read_question
from .ranking import LEAST_NEAR, Found, Stems, Term, is_entity, ranked, why_of
from .vectors import MODEL, Embedder, Near, VectorTable
from .windows import OFF, ON, best_window, marked_terms
from .words import join, set_apart

_Row: TypeAlias = tuple[str, str, str, str, bytes]  # key, path, title, both digests
How: TypeAlias = Literal["words", "words and meaning", "meaning", "nothing"]

_VERSION = 2
# what is private, and what a word is, may be another thing in another release
_MADE_WITH = f"{MODEL}, parachuted {metadata.version('parachuted')}"
_FIRST_ENTITY = -(1 << 40)  # FTS5 is fast where numbers grow
# FTS5 collects 4 MB of words in memory before it writes them: a third less time for many notes
_SCHEMA = """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, path TEXT NOT NULL, title TEXT NOT NULL,
    digest TEXT NOT NULL, text_digest BLOB NOT NULL, has_vectors INTEGER NOT NULL DEFAULT 0);
CREATE INDEX without_vectors ON notes (id) WHERE has_vectors = 0;
CREATE VIRTUAL TABLE texts USING fts5(
    title, aliases, body, tokenize = "porter unicode61 remove_diacritics 2");
INSERT INTO texts (texts, rank) VALUES ('hashsize', 4194304);
CREATE TABLE passages (
    note INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (note, start)) WITHOUT ROWID;
CREATE TABLE model (name TEXT NOT NULL);
"""
_MOST_RANKED = 1_200  # notes; a word that is in more of them only helps to decide between others
_CANDIDATES = 12
_NO_TEXT = re.compile(f"[\ud800-\udfff\0{ON}{OFF}]")
_TITLE, _ALIAS, _BODY = 4.0, 4.0, 1.0
_ALL, _TOGETHER, _RANK = 0.5, 0.25, 0.25
_ENOUGH = 0.4  # the share of a question from which on words alone decide


class RecallDamagedError(Exception):
    """The file is not what it was: delete it, and build it from the vault."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A note that answers, and the passage of it that does.

    `score` is 0 to 1, comparable within one question. `words` are those of the question that the
    note's names and the passage hold, `missing` the others. `meaning` is how near the passage is to
    the question, -1 to 1; None: not compared. `is_match`: it holds a word of the question; else it
    is only the nearest that there is.
    """

    key: str
    path: str
    title: str
    text: str
    score: float
    is_match: bool
    words: tuple[str, ...]
    missing: tuple[str, ...]
    meaning: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Recall:
    """The best first. `words` are what was looked for, `ignored` those that say nothing."""

    results: tuple[Recalled, ...]
    words: tuple[str, ...]
    ignored: tuple[str, ...]
    how: How


class RecallIndex:
    """The index in a file (":memory:": in none) that no other process has open.

    Calls wait for the disk; any thread may make them. They raise RecallDamagedError where the file
    is damaged; one that cannot be opened is begun again, empty.
    """

    def __init__(self, path: Path | Literal[":memory:"], embedder: Embedder | None = None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._in_batch = False
        self._frequencies: dict[str, int] = {}
        try:
            self._database = _open(path)
        except sqlite3.DatabaseError:
            _delete(path)
            self._database = _open(path)
        self._vectors = VectorTable(self._database, embedder) if embedder else None
        self._next = {
            True: self._after("WHERE id < 0", _FIRST_ENTITY),
            False: self._after("WHERE id > 0", 1),
        }

    def _after(self, where: str, first: int) -> int:
        """The number of the next note."""
        last = self._database.execute(f"SELECT max(id) FROM notes {where}").fetchone()[0]  # noqa: S608  both are above
        return first if last is None else last + 1

    @property
    def has_vectors(self) -> bool:
        """Whether meaning is compared."""
        return self._vectors is not None

    def forget_vectors(self) -> None:
        """Answer by words alone from now on, and free the memory."""
        with self._lock:
            self._vectors = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def digests(self) -> dict[str, str]:
        """Every key with the digest that it was put with: its file's, as the caller says it."""
        with self._using() as database:
            return dict(database.execute("SELECT key, digest FROM notes"))

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
                self._frequencies.clear()

    def put(
        self,
        key: str,
        title: str,
        aliases: Iterable[str],
        text: str,
        path: str,
        digest: str = "",
        *,
        is_entity: bool = False,
    ) -> None:
        """Take up a note, or what it has become. `text` is its body, without frontmatter, and
        without what is private: what is no longer in it is found no more.
        """
        texts = tuple(set_apart(_storable(one)) for one in (title, "\n".join(aliases), text))
        row = (key, _storable(path), _storable(title), digest, _digest_of(texts, path))
        with self.batch():
            held = self._database.execute(
                "SELECT id, digest, text_digest FROM notes WHERE key = ?", (key,)
            ).fetchone()
            if held and (held[2], held[0] < 0) == (row[4], is_entity):
                if held[1] != digest:
                    self._database.execute(
                        "UPDATE notes SET digest = ? WHERE id = ?", (digest, held[0])
                    )
                return
            if held:
                self.remove(key)
            self._add(row, texts, is_entity=is_entity)

    def _add(self, row: _Row, texts: Sequence[str], *, is_entity: bool) -> int:
        number = self._next[is_entity]
        self._next[is_entity] += 1
        self._database.execute(
            "INSERT INTO notes (id, key, path, title, digest, text_digest)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (number, *row),
        )
        self._database.execute(
            "INSERT INTO texts (rowid, title, aliases, body) VALUES (?, ?, ?, ?)",
            (number, *texts),
        )
        return number

    def follow(self, other: RecallIndex, keys: Collection[str]) -> None:
        """Hold of the other index what has one of these keys, and nothing else."""
        with other._using() as source, self.batch():
            wanted = {
                key: (number, digest)
                for key, number, digest in source.execute("SELECT key, id, text_digest FROM notes")
                if key in keys
            }
            mine = dict(self._database.execute("SELECT key, text_digest FROM notes"))
            for key, digest in mine.items():
                if wanted.get(key, (0, b""))[1] != digest:
                    self.remove(key)
            for key, (number, digest) in sorted(wanted.items(), key=lambda one: one[1][0]):
                if mine.get(key) != digest:
                    self._copy(source, number)

    def _copy(self, source: sqlite3.Connection, number: int) -> None:
        row = source.execute(
            "SELECT key, path, title, digest, text_digest, has_vectors FROM notes WHERE id = ?",
            (number,),
        ).fetchone()
        texts = source.execute(
            "SELECT title, aliases, body FROM texts WHERE rowid = ?", (number,)
        ).fetchone()
        made = self._add(row[:5], texts, is_entity=is_entity(number))
        if row[5] and self._vectors:
            passages = source.execute(
                "SELECT start, stop, vector FROM passages WHERE note = ?", (number,)
            ).fetchall()
            self._vectors.put(made, passages)
            self._database.execute("UPDATE notes SET has_vectors = 1 WHERE id = ?", (made,))

    def remove(self, key: str) -> None:
        """Forget a note; one that is not known is no mistake."""
        with self.batch():
            row = self._database.execute("SELECT id FROM notes WHERE key = ?", (key,)).fetchone()
            if row is not None:
                self._database.execute("DELETE FROM texts WHERE rowid = ?", row)
                self._database.execute("DELETE FROM notes WHERE id = ?", row)
                self._database.execute("DELETE FROM passages WHERE note = ?", row)
                if self._vectors:
                    self._vectors.forget(row[0])

    def embed(self, most: int = 200) -> int:
        """Make the vectors of so many notes that have none; how many are left. 0 without a model.

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

    def search(
        self,
        question: str,
        limit: int = 5,
        *,
        explain: bool = False,
        only: Callable[[str], bool] | None = None,
    ) -> Recall:
        """The best answers. `explain`: each says why it is one. `only`: those entities alone, by
        key, that hold a word of the question.
        """
        question = unicodedata.normalize("NFC", _storable(question))
        asked = read_question(question)
        with self._using():
            terms = self._terms(asked.words)
            found = self._by_words(terms, max(limit, _CANDIDATES), only)
            doubt = 1 - max((one.share for one in found), default=0.0) / _ENOUGH
            near = self._nearest(asked.words) if doubt > 0 and only is None else []
            results = tuple(
                self._recalled(one, meaning, score, terms, explain=explain)
                for one, meaning, score in ranked(found, near, doubt)[:limit]
            )
        how: How = "words" if not near else "words and meaning" if found else "meaning"
        return Recall(
            results,
            tuple(term.word.shown for term in terms),
            asked.ignored,
            how if results else "nothing",
        )

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._database
            except sqlite3.DatabaseError as error:
                raise RecallDamagedError(f"{self._path}: {error}") from error

    def _terms(self, words: Iterable[QuestionWord]) -> list[Term]:
        count = self._database.execute("SELECT count(*) FROM notes").fetchone()[0]
        made = []
        for word in words:
            notes = self._notes_with(word.asked)
            made.append(Term(word, notes, math.log((count - notes + 0.5) / (notes + 0.5) + 1)))
        return made

    def _notes_with(self, asked: str) -> int:
        """How many notes have that word; beyond 6,000 it does not matter how many."""
        if asked not in self._frequencies:
            self._frequencies[asked] = self._database.execute(
                "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)",
                (asked, 4 * _MOST_RANKED),
            ).fetchone()[0]
        return self._frequencies[asked]

    def _by_words(
        self, terms: list[Term], most: int, only: Callable[[str], bool] | None
    ) -> list[Found]:
        """The best notes that hold a word of the question."""
        held = sorted((term for term in terms if term.notes), key=lambda term: term.notes)
        asked: list[str] = []
        count = 0
        for term in held:
            if not asked or count + term.notes <= _MOST_RANKED:
                asked.append(term.word.asked)
                count += term.notes
        if not asked:
            return []
        rows = self._database.execute(
            "SELECT bm25(texts, ?, ?, ?), rowid FROM texts WHERE texts MATCH ? AND rowid < ?"
            " LIMIT ?",
            (_TITLE, _ALIAS, _BODY, " OR ".join(asked), 0 if only else 1 << 62, 2 * _MOST_RANKED),
        ).fetchall()
        best = (
            list(islice(self._wanted(sorted(rows), only), most)) if only else nsmallest(most, rows)
        )
        if not best:
            return []
        every = " OR ".join(term.word.asked for term in held)
        stems = Stems(terms)
        top = -best[0][0] or 1.0
        return [self._weighed(row, -rank / top, stems, every) for rank, row in best]

    def _wanted(
        self, rows: Iterable[tuple[float, int]], only: Callable[[str], bool]
    ) -> Iterator[tuple[float, int]]:
        for rank, number in rows:
            key = self._database.execute("SELECT key FROM notes WHERE id = ?", (number,))
            if only(key.fetchone()[0]):
                yield rank, number

    def _nearest(self, words: Iterable[QuestionWord]) -> list[Near]:
        if self._vectors is None:
            return []
        near = self._vectors.nearest(" ".join(word.shown for word in words), _CANDIDATES)
        return [one for one in near if one.nearness > LEAST_NEAR]

    def _weighed(self, row: int, rank: float, stems: Stems, asked: str) -> Found:
        title, aliases, body = self._database.execute(
            "SELECT highlight(texts, 0, ?, ?), highlight(texts, 1, ?, ?), highlight(texts, 2, ?, ?)"
            " FROM texts WHERE texts MATCH ? AND rowid = ?",
            (ON, OFF) * 3 + (asked, row),
        ).fetchone()
        names = marked_terms(title, stems.term_of) | marked_terms(aliases, stems.term_of)
        window = best_window(body, stems.weights, stems.term_of)
        held = window.all_terms | names
        share, together = stems.share(held), stems.share(window.terms | names)
        score = _ALL * share + _TOGETHER * together + _RANK * rank * share
        return Found(row, held, share, score, join(window.text))

    def _recalled(
        self, found: Found, near: Near | None, score: float, terms: list[Term], *, explain: bool
    ) -> Recalled:
        key, path, title = self._database.execute(
            "SELECT key, path, title FROM notes WHERE id = ?", (found.row,)
        ).fetchone()
        text = found.text
        if near and not found.terms:
            body = self._database.execute(
                "SELECT body FROM texts WHERE rowid = ?", (found.row,)
            ).fetchone()[0]
            text = join(body[near.start : near.stop]).strip()
        words = tuple(terms[number].word.shown for number in sorted(found.terms))
        missing = tuple(term.word.shown for term in terms if term.word.shown not in words)
        meaning = round(near.nearness, 3) if near else None
        return Recalled(
            key,
            path,
            title,
            text,
            round(score, 3),
            bool(words),
            words,
            missing,
            meaning,
            why_of(found, words, missing, meaning) if explain else "",
        )


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
    """That it is an index as it is made today; all others are begun again."""
    made_with = database.execute("SELECT name FROM model").fetchall()
    if version != _VERSION or made_with != [(_MADE_WITH,)]:
        raise sqlite3.DatabaseError("made by another version")


def _delete(path: Path | Literal[":memory:"]) -> None:
    for name in (f"{path}{suffix}" for suffix in ("", "-wal", "-shm")):
        Path(name).unlink(missing_ok=True)


def _digest_of(texts: Sequence[str], path: str) -> bytes:
    return blake2b("\0".join([*texts, path]).encode(), digest_size=16).digest()


def _storable(text: str) -> str:
    return _NO_TEXT.sub("\ufffd", text)
