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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from .question import QuestionWord, read_question
from .vectors import MODEL, Embedder, Near, VectorTable
from .windows import OFF, ON, best_window, marked_terms
from .words import fold, join, set_apart

How: TypeAlias = Literal["words", "words and meaning", "meaning", "nothing"]

_VERSION = 1
# FTS5 collects 4 MB of words in memory before it writes them: a third less time for many notes
_SCHEMA = """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, path TEXT NOT NULL, title TEXT NOT NULL,
    digest TEXT NOT NULL, has_vectors INTEGER NOT NULL DEFAULT 0);
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
_LOW, _HIGH = 0.1, 0.45  # nearness of what has nothing, and of what has much to do with a question


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


class _Term(NamedTuple):
    """A word of the question, in how many notes it is, and how much it says."""

    word: QuestionWord
    notes: int
    weight: float


class _Found(NamedTuple):
    """A note, the terms it holds, and what it is worth by its words."""

    row: int
    terms: frozenset[int]
    share: float
    score: float
    text: str


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
        """Every key with the digest that it was put with."""
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
        self, key: str, title: str, aliases: Iterable[str], text: str, path: str, digest: str = ""
    ) -> None:
        """Take up a note, or what it has become. `text` is its body, without frontmatter."""
        with self.batch():
            self.remove(key)
            made = self._database.execute(
                "INSERT INTO notes (key, path, title, digest) VALUES (?, ?, ?, ?)",
                (key, _storable(path), _storable(title), digest),
            )
            texts = (set_apart(_storable(one)) for one in (title, "\n".join(aliases), text))
            self._database.execute(
                "INSERT INTO texts (rowid, title, aliases, body) VALUES (?, ?, ?, ?)",
                (made.lastrowid, *texts),
            )

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

    def search(self, question: str, limit: int = 5, *, explain: bool = False) -> Recall:
        """The best answers. `explain`: each says why it is one."""
        question = unicodedata.normalize("NFC", _storable(question))
        asked = read_question(question)
        with self._using():
            terms = self._terms(asked.words)
            found = self._by_words(terms)
            doubt = 1 - max((one.share for one in found), default=0.0) / _ENOUGH
            near = self._nearest(asked.words) if doubt > 0 else []
            ranked = _ranked(found, near, doubt)
            results = tuple(
                self._recalled(one, meaning, score, terms, explain=explain)
                for one, meaning, score in ranked[:limit]
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

    def _terms(self, words: Iterable[QuestionWord]) -> list[_Term]:
        count = self._database.execute("SELECT count(*) FROM notes").fetchone()[0]
        made = []
        for word in words:
            notes = self._notes_with(word.asked)
            made.append(_Term(word, notes, math.log((count - notes + 0.5) / (notes + 0.5) + 1)))
        return made

    def _notes_with(self, asked: str) -> int:
        """How many notes have that word; beyond 6,000 it does not matter how many."""
        if asked not in self._frequencies:
            self._frequencies[asked] = self._database.execute(
                "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)",
                (asked, 4 * _MOST_RANKED),
            ).fetchone()[0]
        return self._frequencies[asked]

    def _by_words(self, terms: list[_Term]) -> list[_Found]:
        """The best notes that hold a word of the question."""
        held = sorted((term for term in terms if term.notes), key=lambda term: term.notes)
        asked: list[str] = []
        ranked = 0
        for term in held:
            if not asked or ranked + term.notes <= _MOST_RANKED:
                asked.append(term.word.asked)
                ranked += term.notes
        if not asked:
            return []
        rows = self._database.execute(
            "SELECT bm25(texts, ?, ?, ?), rowid FROM texts WHERE texts MATCH ? LIMIT ?",
            (_TITLE, _ALIAS, _BODY, " OR ".join(asked), 2 * _MOST_RANKED),
        ).fetchall()
        best = nsmallest(_CANDIDATES, rows)
        every = " OR ".join(term.word.asked for term in held)
        stems = _Stems(terms)
        top = -best[0][0] or 1.0
        return [self._weighed(row, -rank / top, stems, every) for rank, row in best]

    def _nearest(self, words: Iterable[QuestionWord]) -> list[Near]:
        if self._vectors is None:
            return []
        near = self._vectors.nearest(" ".join(word.shown for word in words), _CANDIDATES)
        return [one for one in near if one.nearness > _LOW]

    def _weighed(self, row: int, rank: float, stems: _Stems, asked: str) -> _Found:
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
        return _Found(row, held, share, score, join(window.text))

    def _recalled(
        self, found: _Found, near: Near | None, score: float, terms: list[_Term], *, explain: bool
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
            _why(found, words, missing, meaning) if explain else "",
        )


class _Stems:
    """Which word of the question a word of a note is: the one with which it begins alike."""

    def __init__(self, terms: list[_Term]) -> None:
        self.weights = [term.weight for term in terms]
        self._whole = sum(self.weights) or 1.0
        self._folded = [fold(term.word.shown) for term in terms]
        self._known: dict[str, int | None] = {}

    def share(self, terms: Iterable[int]) -> float:
        """How much of what the question says these terms say."""
        return sum(self.weights[term] for term in terms) / self._whole

    def term_of(self, word: str) -> int | None:
        if word not in self._known:
            folded = fold(join(word))
            alike = [_alike(folded, one) for one in self._folded]
            self._known[word] = alike.index(max(alike)) if any(alike) else None
        return self._known[word]


def _alike(one: str, other: str) -> int:
    """How many characters two words have in common at their beginning."""
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))


def _ranked(
    found: list[_Found], near: list[Near], doubt: float
) -> list[tuple[_Found, Near | None, float]]:
    """The best first. What a passage means counts for the part of the question of which the note
    holds no word, and as far as there is doubt about what the words found.
    """
    meanings = {one.note: one for one in near}
    rows = {one.row: one for one in found}
    for note in meanings:
        rows.setdefault(note, _Found(note, frozenset(), 0.0, 0.0, ""))
    scored = []
    for row, one in rows.items():
        meaning = meanings.get(row)
        part = (meaning.nearness - _LOW) / (_HIGH - _LOW) if meaning else 0.0
        scored.append((one, meaning, one.score + doubt * (1 - one.share) * min(1.0, part)))
    return sorted(scored, key=lambda each: (-each[2], each[0].row))


def _why(
    found: _Found, words: tuple[str, ...], missing: tuple[str, ...], meaning: float | None
) -> str:
    parts = []
    if words:
        parts.append(f"it holds {', '.join(words)} ({found.share:.0%} of what the question says)")
        if missing:
            parts.append(f"not {', '.join(missing)}")
    else:
        parts.append("it holds no word of the question, and is only the nearest")
    if meaning is not None:
        parts.append(f"its meaning is near by {meaning:.2f}")
    return "; ".join(parts)


def _open(path: Path | Literal[":memory:"]) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if not version:
            database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
            database.execute("INSERT INTO model VALUES (?)", (MODEL,))
        _check(database, version or _VERSION)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection, version: int) -> None:
    """That it is an index as it is made today; all others are begun again."""
    made_with = database.execute("SELECT name FROM model").fetchall()
    if version != _VERSION or made_with != [(MODEL,)]:
        raise sqlite3.DatabaseError("made by another version")


def _delete(path: Path | Literal[":memory:"]) -> None:
    for name in (f"{path}{suffix}" for suffix in ("", "-wal", "-shm")):
        Path(name).unlink(missing_ok=True)


def _storable(text: str) -> str:
    return _NO_TEXT.sub("\ufffd", text)
