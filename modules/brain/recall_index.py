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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from .ranking import (
    LEAST_NEAR,
    OFF,
    ON,
    Found,
    QuestionWord,
    Stems,
    Term,
    Window,
    best_window,
    count_marked,
    ranked,
    read_question,
    relevance,
    why_of,
)
from .vectors import MODEL, Embedder, Near, VectorTable
from .words import join, set_apart

IsWanted: TypeAlias = Callable[[str], bool]

_MOST_RANKED = 1_200  # notes; a word that is in more of them only helps to decide between others
_MOST_ORDERED = 150  # of notes with the same words
_CANDIDATES = 12
_ALL_NOTES = ""  # no word
_NAME = 4.0  # what a word in a name counts, against one in the text
_ALL, _TOGETHER, _RANK = 0.5, 0.25, 0.25
_ENOUGH = 0.4  # the share of a question from which on words alone decide


@dataclass(frozen=True, slots=True)
class Recalled:
    path: str
    title: str
    text: str
    score: float
    is_match: bool
    why: str


class _Candidate(NamedTuple):
    row: int
    window: Window
    in_names: frozenset[int]
    counts: dict[int, float]
    length: int


class RecallSearch:
    """Not for several threads at once."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._frequencies: dict[str, int] = {}

    def forget_counts(self) -> None:
        self._frequencies.clear()

    def search(
        self,
        question: str,
        limit: int,
        vectors: VectorTable | None,
        *,
        explain: bool,
        only: IsWanted | None,
    ) -> list[Recalled]:
        """As RecallIndex.search says; `vectors` None: by words alone."""
        words = read_question(unicodedata.normalize("NFC", question))
        terms = self._terms(words)
        found = self._by_words(terms, max(limit, _CANDIDATES), only)
        doubt = 1 - max((one.share for one in found), default=0.0) / _ENOUGH
        near = []
        if vectors is not None and doubt > 0 and only is None:
            near = vectors.nearest(" ".join(word.text for word in words), _CANDIDATES)
            near = [one for one in near if one.nearness > LEAST_NEAR]
        return [
            self._recalled(one, meaning, score, terms, explain=explain)
            for one, meaning, score in ranked(found, near, doubt)[:limit]
        ]

    def _terms(self, words: Iterable[QuestionWord]) -> list[Term]:
        if _ALL_NOTES not in self._frequencies:
            count = self._database.execute("SELECT count(*) FROM notes").fetchone()[0]
            self._frequencies[_ALL_NOTES] = count
        count = self._frequencies[_ALL_NOTES]
        made = []
        for word in words:
            notes = self._notes_with(word.asked)
            made.append(Term(word, notes, math.log((count - notes + 0.5) / (notes + 0.5) + 1)))
        return made

    def _notes_with(self, asked: str) -> int:
        if asked not in self._frequencies:
            self._frequencies[asked] = self._database.execute(
                "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)",
                (asked, 4 * _MOST_RANKED),
            ).fetchone()[0]
        return self._frequencies[asked]

    def _by_words(self, terms: Sequence[Term], most: int, only: IsWanted | None) -> list[Found]:
        held = sorted((term for term in terms if term.notes), key=lambda term: term.notes)
        asked: list[Term] = []
        count = 0
        for term in held:
            if not asked or count + term.notes <= _MOST_RANKED:
                asked.append(term)
                count += term.notes
        rows = list(islice(self._promising(asked, most, only), most))
        if not rows:
            return []
        stems = Stems(terms)
        every = " OR ".join(term.word.asked for term in held)
        return _found(self._candidates(rows, every, stems), stems)

    def _promising(self, terms: Sequence[Term], most: int, only: IsWanted | None) -> Iterator[int]:
        """Notes that hold a word: those whose words say most first, then by BM25."""
        end = 0 if only else 1 << 62
        held: dict[int, int] = {}  # the terms of a note, a bit for each
        for number, term in enumerate(terms):
            rows = self._database.execute(
                "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid < ? LIMIT ?",
                (term.word.asked, end, 2 * _MOST_RANKED),
            )
            for (row,) in rows:
                held[row] = held.get(row, 0) | 1 << number
        groups = defaultdict[int, set[int]](set)
        for row, bits in held.items():
            groups[bits].add(row)
        count = 0
        for _, bits in sorted(((_weight(terms, bits), bits) for bits in groups), reverse=True):
            group = groups[bits]
            is_too_many = count + len(group) > most
            for row in self._by_rank(_held(terms, bits), group, end) if is_too_many else group:
                if only is None or only(self._path(row)):
                    count += 1
                    yield row

    def _by_rank(self, terms: Iterable[Term], wanted: set[int], end: int) -> Iterator[int]:
        """Those that are called so come first; of very many only the first are ranked."""
        asked = " AND ".join(term.word.asked for term in terms)
        seen: set[int] = set()
        for match in (f"{{title aliases}} : ({asked})", asked):
            ranked_rows = self._database.execute(
                "SELECT bm25(texts, ?, ?, 1.0), rowid FROM texts WHERE texts MATCH ? AND rowid < ?"
                " LIMIT ?",
                (_NAME, _NAME, match, end, _MOST_ORDERED),
            ).fetchall()
            found = [row for _, row in sorted(ranked_rows) if row in wanted and row not in seen]
            yield from found
            seen.update(found)
        yield from sorted(wanted - seen)

    def _path(self, row: int) -> str:
        found = self._database.execute("SELECT path FROM notes WHERE id = ?", (row,))
        return str(found.fetchone()[0])

    def _candidates(self, rows: Sequence[int], asked: str, stems: Stems) -> list[_Candidate]:
        marks = ", ".join("?" * len(rows))
        marked = self._database.execute(
            "SELECT rowid, highlight(texts, 0, ?, ?), highlight(texts, 1, ?, ?),"  # noqa: S608
            f" highlight(texts, 2, ?, ?) FROM texts WHERE texts MATCH ? AND rowid IN ({marks})",
            (ON, OFF) * 3 + (asked, *rows),
        ).fetchall()
        return [_candidate(row, title, names, body, stems) for row, title, names, body in marked]

    def _recalled(
        self,
        found: Found,
        near: Near | None,
        score: float,
        terms: Sequence[Term],
        *,
        explain: bool,
    ) -> Recalled:
        path, title = self._database.execute(
            "SELECT path, title FROM notes WHERE id = ?", (found.row,)
        ).fetchone()
        text = found.text
        if near and not found.terms:
            body = self._database.execute(
                "SELECT body FROM texts WHERE rowid = ?", (found.row,)
            ).fetchone()[0]
            text = join(body[near.start : near.stop]).strip()
        why = why_of(found, near, [term.word.text for term in terms]) if explain else ""
        return Recalled(path, title, text, round(score, 3), bool(found.terms), why)


def _held(terms: Sequence[Term], bits: int) -> list[Term]:
    return [term for number, term in enumerate(terms) if bits >> number & 1]


def _weight(terms: Sequence[Term], bits: int) -> float:
    return sum(term.weight for term in _held(terms, bits))


def _candidate(row: int, title: str, aliases: str, body: str, stems: Stems) -> _Candidate:
    window = best_window(body, stems.weights, stems.term_of)
    counts: dict[int, float] = dict(window.counts)
    names = count_marked(f"{title}\n{aliases}", stems.term_of)
    for term, count in names.items():
        counts[term] = counts.get(term, 0) + _NAME * count
    length = len(title) + len(aliases) + len(body)
    return _Candidate(row, window, frozenset(names), counts, length)


def _found(candidates: Sequence[_Candidate], stems: Stems) -> list[Found]:
    """By how much of the question it holds in all, in one passage, and how often."""
    usual = sum(candidate.length for candidate in candidates) / len(candidates)
    ranks = [
        relevance(candidate.counts, stems.weights, candidate.length / usual)
        for candidate in candidates
    ]
    top = max(ranks) or 1.0
    found = []
    for one, rank in zip(candidates, ranks, strict=True):
        terms = frozenset(one.counts)
        share, together = stems.share(terms), stems.share(one.window.terms | one.in_names)
        score = _ALL * share + _TOGETHER * together + _RANK * rank / top * share
        found.append(Found(one.row, terms, share, score, join(one.window.text)))
    return found


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
    """Delete the file: it is built again from the vault."""


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
        """`text` is the note's body, without what is private."""
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
        """Make so many notes' vectors; how many are left. It holds the index for some 20 ms."""
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
