"""Recall: answers a question, which is a sentence, with the passages that fit it best.

Any word that says something may match, in any form. Where little of the question matched, what a
passage means counts too, if there are vectors. Derived: the file can be deleted at any time.
"""

from __future__ import annotations

import heapq
import math
import re
import sqlite3
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from .vectors import MODEL, Array, Embedder, passages
from .words import is_spaceless, join, set_apart, split

IsWanted: TypeAlias = Callable[[str], bool]

_MOST_WORDS = 32
_MOST_RANKED = 2_000  # notes; a word that is in more of them only helps to decide between others
_CANDIDATES = 32
_NAME = 2  # what a word in a name counts more than one in the text
_RANK = 0.25  # the part of a score that is decided by how often and where words stand
_ENOUGH = 0.5  # the share of a question from which on words alone decide
_LEAST_NEAR = 0.1  # nearness of what has nothing to do with a question
_HIGH_NEAR = 0.4  # and of what has much to do with it
_ENTITY = 0.1  # an entity goes before another note that holds about as much
_LONGEST, _BEFORE_MATCH = 1_200, 300  # characters of a passage
_ON, _OFF = "\x02", "\x03"  # around each word that matched
_MARKED = re.compile(f"{_ON}([^{_OFF}]*){_OFF}")
_NO_TEXT = re.compile(f"[\ud800-\udfff\0{_ON}{_OFF}]")

# Words of a question that say nothing of what is asked for; a name among them is written large.
_STOP = frozenset(
    """
    a about again all also am an and any anybody anyone anything are as ask asked at away be
    because been before being both but by can could d did didn do does doesn doing don done each
    either ever every find for from get give given go got had has have having he her here hers him
    his how i if in into is isn it its itself just know known let ll look looking m many may maybe
    me mean might mine more most much my myself name named no nor not now of off on one only or
    other our ours out over own please re really remember remind s said same say see she should
    show so some somebody someone something such t tell than that the their theirs them then there
    these they thing things think this those through to too under up us ve very want was wasn we
    were what whatever when where whether which while who whoever whom whose why will with wonder
    would yes yet you your yours
    """.split()  # noqa: SIM905  a list of these would take two hundred lines
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteText:
    """What is indexed of a note: `body` is without what is private."""

    path: str
    title: str
    aliases: Sequence[str] = ()
    body: str
    digest: str = ""
    is_entity: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    path: str
    title: str
    text: str
    score: float
    is_match: bool


class _Word(NamedTuple):
    """A word of the question as FTS5 is asked for it; `rows` are some of the notes that have it."""

    asked: str
    notes: int
    weight: float
    rows: Sequence[int]


class _Found(NamedTuple):
    """`share` is how much of the question the note holds, `text` the passage that answers it."""

    score: float
    row: int
    share: float
    text: str


def question_words(text: str) -> list[str]:
    """What a question asks for, each word once; words that say nothing, where there is no other."""
    text = unicodedata.normalize("NFC", text)
    words, ignored = dict[str, str](), dict[str, str]()
    for word, start, end in zip(*split(text), strict=True):
        written, after = text[start:end], text[end : end + 1]
        if is_spaceless(written):  # scripts without spaces are asked for by pairs of characters
            if is_spaceless(after):
                words[word + after] = f"{written} {after}"
            elif not is_spaceless(text[start - 1 : start]):
                words[word] = written
        elif word in _STOP and (start == 0 or not written[0].isupper() or len(written) == 1):
            ignored[word] = written
        else:
            words[word] = written
    return list((words or ignored).values())[:_MOST_WORDS]


# what is private, and what a word is, may be another thing in another release
_MADE_WITH = f"6, {MODEL}, parachuted {metadata.version('parachuted')}"
_FIRST_ENTITY = -(1 << 40)  # FTS5 is fast where numbers grow
# FTS5 collects 4 MB of words in memory before it writes them: a third less time for many notes
_SCHEMA = """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, digest TEXT NOT NULL,
    vectors BLOB);
CREATE INDEX without_vectors ON notes (id) WHERE vectors IS NULL;
CREATE VIRTUAL TABLE texts USING fts5(
    title, aliases, body, tokenize = "porter unicode61 remove_diacritics 2");
INSERT INTO texts (texts, rank) VALUES ('hashsize', 4194304);
CREATE TABLE made_with (name TEXT NOT NULL);
"""


class RecallIndex:
    """The index in a file (":memory:": in none) that no other process has open.

    Calls wait for the disk; any thread may make them. A file that cannot be opened starts again,
    empty.
    """

    def __init__(self, path: Path | Literal[":memory:"], embedder: Embedder | None = None) -> None:
        self._embedder, self._lock = embedder, threading.Lock()
        self._vectors: tuple[Array, list[tuple[int, int]]] | None = None
        try:
            self._database = _open(path)
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            self._database = _open(path)

    @property
    def has_vectors(self) -> bool:
        return self._embedder is not None

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def digests(self) -> dict[str, str]:
        with self._lock:
            return dict(self._database.execute("SELECT path, digest FROM notes"))

    def update(self, texts: Iterable[NoteText], gone: Iterable[str] = ()) -> None:
        """All of it or nothing. A text with the digest that is there is not looked at."""
        with self._changing():
            for path in gone:
                self._remove(path)
            for text in texts:
                held = self._database.execute(
                    "SELECT digest FROM notes WHERE path = ?", (text.path,)
                ).fetchone()
                if held is None or not text.digest or held[0] != text.digest:
                    self._remove(text.path)
                    self._put(text)

    def _put(self, text: NoteText) -> None:
        where, first = ("< 0", _FIRST_ENTITY) if text.is_entity else ("> 0", 1)
        last = self._database.execute(f"SELECT max(id) FROM notes WHERE id {where}").fetchone()[0]  # noqa: S608
        number = first if last is None else last + 1
        self._database.execute(
            "INSERT INTO notes (id, path, title, digest) VALUES (?, ?, ?, ?)",
            (number, text.path, _storable(text.title), text.digest),
        )
        parts = (text.title, "\n".join(text.aliases), text.body)
        self._database.execute(
            "INSERT INTO texts (rowid, title, aliases, body) VALUES (?, ?, ?, ?)",
            (number, *(set_apart(_storable(part)) for part in parts)),
        )

    def _remove(self, path: str) -> None:
        row = self._database.execute("SELECT id FROM notes WHERE path = ?", (path,)).fetchone()
        if row is not None:
            self._database.execute("DELETE FROM texts WHERE rowid = ?", row)
            self._database.execute("DELETE FROM notes WHERE id = ?", row)

    def embed(self, most: int = 200) -> int:
        """Make so many notes' vectors; how many are left. It holds the index for some 20 ms."""
        if self._embedder is None:
            return 0
        with self._changing() as database:
            rows = database.execute(
                "SELECT id, texts.title, body FROM notes JOIN texts ON texts.rowid = id"
                " WHERE vectors IS NULL ORDER BY id LIMIT ?",
                (most,),
            ).fetchall()
            parts = [[body[start:stop] for start, stop in passages(body)] for _, _, body in rows]
            for (row, _, _), made in zip(rows, self._embedder.vectors_of(rows, parts), strict=True):
                database.execute("UPDATE notes SET vectors = ? WHERE id = ?", (made, row))
            left = database.execute("SELECT count(*) FROM notes WHERE vectors IS NULL")
            return int(left.fetchone()[0])

    def optimize(self) -> None:
        """Put together what many changes left in pieces: questions then take half the time."""
        with self._lock:
            self._database.execute("INSERT INTO texts (texts) VALUES ('optimize')")

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._vectors = None
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def search(
        self, question: str, limit: int = 5, *, only: IsWanted | None = None
    ) -> list[Recalled]:
        """The best answers. `only`: entities alone, by path, that hold a word of the question."""
        written = question_words(_storable(question))
        with self._lock:
            words = self._weighed(written, entities_only=only is not None)
            found = self._by_words(words, limit, only)
            doubt = 1 - max((one.share for one in found.values()), default=0.0) / _ENOUGH
            if self._embedder is not None and doubt > 0 and only is None:
                self._add_near(found, self._embedder.embed([" ".join(written)])[0], limit, doubt)
            best = sorted(found.values(), key=lambda one: (-one.score, one.row))[:limit]
            return [self._recalled(one) for one in best]

    def _weighed(self, words: Iterable[str], *, entities_only: bool) -> list[_Word]:
        """The rarest first."""
        notes = self._database.execute("SELECT count(*) FROM notes").fetchone()[0]
        where = "FROM texts WHERE texts MATCH ?" + (" AND rowid < 0" if entities_only else "")
        found = []
        for word in words:
            asked = f'"{word}"'
            first = f"SELECT rowid {where} LIMIT {_MOST_RANKED}"
            rows = [row for (row,) in self._database.execute(first, (asked,))]
            count = len(rows)
            if count == _MOST_RANKED:
                every = f"SELECT count(*) {where}"
                count = self._database.execute(every, (asked,)).fetchone()[0]
            weight = math.log((notes - count + 0.5) / (count + 0.5) + 1)
            found.append(_Word(asked, count, weight, rows))
        return sorted(found, key=lambda word: word.notes)

    def _by_words(
        self, words: Sequence[_Word], limit: int, only: IsWanted | None
    ) -> dict[int, _Found]:
        """The notes with the weightiest words, those in names first. Common words find none by
        themselves, and count where rare ones found something.
        """
        rare, count = list[_Word](), 0
        for word in words:
            count += word.notes
            if rare and count > _MOST_RANKED:
                break
            rare.append(word)
        shares, names = defaultdict[int, float](float), defaultdict[int, int](int)
        for word in rare:
            for row in word.rows:
                shares[row] += word.weight
            in_names = "SELECT rowid FROM texts WHERE texts MATCH ? LIMIT ?"
            asked = (f"{{title aliases}} : {word.asked}", _MOST_RANKED)
            for (row,) in self._database.execute(in_names, asked):
                names[row] += 1
        wanted = shares if only is None else [row for row in shares if only(self._path(row))]
        rows = heapq.nsmallest(
            max(limit, _CANDIDATES), wanted, key=lambda row: (-shares[row] - names[row], row)
        )
        numbers = ", ".join(map(str, rows))
        among = f"FROM texts WHERE texts MATCH ? AND rowid IN ({numbers})"
        for word in words[len(rare) :] if rows else ():
            for (row,) in self._database.execute(f"SELECT rowid {among}", (word.asked,)):
                shares[row] += word.weight
        every = " OR ".join(word.asked for word in words if word.notes)
        marked = f"SELECT rowid, highlight(texts, 2, '{_ON}', '{_OFF}') {among}"
        bodies = self._database.execute(marked, (every,)) if rows else ()
        best = {row: _best_passage(body) for row, body in bodies}
        ranks = {row: count + _NAME * names[row] for row, (count, _) in best.items()}
        top = max(ranks.values(), default=1) or 1
        whole = sum(word.weight for word in words) or 1.0
        return {
            row: _found(row, shares[row] / whole, ranks[row] / top, text)
            for row, (_, text) in best.items()
        }

    def _path(self, row: int) -> str:
        cursor = self._database.execute("SELECT path FROM notes WHERE id = ?", (row,))
        return str(cursor.fetchone()[0])

    def _add_near(self, found: dict[int, _Found], asked: Array, limit: int, doubt: float) -> None:
        """Meaning counts for the part of the question of which a note holds no word."""
        if self._embedder is None or not asked.any():
            return
        if self._vectors is None:
            held = self._database.execute("SELECT id, vectors FROM notes WHERE vectors NOT NULL")
            self._vectors = self._embedder.matrix_of(held.fetchall())
        vectors, places = self._vectors
        nearest = dict[int, tuple[float, int]]()
        for nearness, place in self._embedder.nearest(vectors, asked, 4 * max(limit, _CANDIDATES)):
            row, number = places[place]
            if nearness > _LEAST_NEAR:
                nearest.setdefault(row, (nearness, number))
        for row, (nearness, number) in nearest.items():
            one = found.get(row) or _Found(0.0, row, 0.0, self._passage(row, number))
            part = min(1.0, (nearness - _LEAST_NEAR) / (_HIGH_NEAR - _LEAST_NEAR))
            found[row] = one._replace(score=one.score + doubt * (1 - one.share) * part)

    def _passage(self, row: int, number: int) -> str:
        cursor = self._database.execute("SELECT body FROM texts WHERE rowid = ?", (row,))
        (body,) = cursor.fetchone()
        start, stop = passages(body)[number]
        return str(body[start:stop])

    def _recalled(self, found: _Found) -> Recalled:
        path, title = self._database.execute(
            "SELECT path, title FROM notes WHERE id = ?", (found.row,)
        ).fetchone()
        text = join(_cut(found.text))
        return Recalled(path, title, text, round(found.score, 3), bool(found.share))


def _best_passage(marked: str) -> tuple[int, str]:
    """How many different words of the question it holds, and itself; of several the first."""
    parts = [marked[start:stop] for start, stop in passages(marked)]
    held = [len({*map(str.casefold, _MARKED.findall(part))}) for part in parts]
    best = max(range(len(parts)), key=held.__getitem__)
    return held[best], parts[best]


def _found(row: int, share: float, rank: float, text: str) -> _Found:
    is_entity = row < 0
    score = share * (1 - _RANK + _RANK * rank) + _ENTITY * share * is_entity
    return _Found(min(1.0, score), row, share, text)


def _cut(text: str) -> str:
    start = 0 if len(text) <= _LONGEST else max(0, text.find(_ON) - _BEFORE_MATCH)
    return text[start : start + _LONGEST].replace(_ON, "").replace(_OFF, "").strip()


def _open(path: Path | Literal[":memory:"]) -> sqlite3.Connection:
    """Raises sqlite3.DatabaseError, also where another version made it."""
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA secure_delete = ON")  # what became private is not in the file
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            database.execute("INSERT INTO made_with VALUES (?)", (_MADE_WITH,))
        made_with = database.execute("SELECT name FROM made_with").fetchone()
    except sqlite3.DatabaseError:
        database.close()
        raise
    if made_with != (_MADE_WITH,):
        database.close()
        raise sqlite3.DatabaseError("made by another version")
    return database


def _storable(text: str) -> str:
    return _NO_TEXT.sub("\ufffd", text)
