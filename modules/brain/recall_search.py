"""Search for answers: which notes of a recall index answer a question, and with which passage."""

from __future__ import annotations

import math
import sqlite3
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

from .question import QuestionWord, read_question
from .ranking import LEAST_NEAR, Found, Stems, Term, ranked, relevance, why_of
from .vectors import Near, VectorTable
from .windows import OFF, ON, Window, best_window, count_marked
from .words import join

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
    """A note that answers, and its passage. `score` is 0 to 1, comparable within one question;
    `is_match`: it holds a word of the question.
    """

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
    """Answers from the tables of an index. Not for several threads at once."""

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
            near = vectors.nearest(" ".join(word.shown for word in words), _CANDIDATES)
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
        given = 0
        for _, bits in sorted(((_weight(terms, bits), bits) for bits in groups), reverse=True):
            group = groups[bits]
            is_too_many = given + len(group) > most
            for row in self._by_rank(_held(terms, bits), group, end) if is_too_many else group:
                if only is None or only(self._path(row)):
                    given += 1
                    yield row

    def _by_rank(self, terms: Iterable[Term], wanted: set[int], end: int) -> Iterator[int]:
        """Those that are called so, then the others, each by BM25. Of very many the first are
        ranked.
        """
        asked = " AND ".join(one.word.asked for one in terms)
        given: set[int] = set()
        for match in (f"{{title aliases}} : ({asked})", asked):
            ranked_rows = self._database.execute(
                "SELECT bm25(texts, ?, ?, 1.0), rowid FROM texts WHERE texts MATCH ? AND rowid < ?"
                " LIMIT ?",
                (_NAME, _NAME, match, end, _MOST_ORDERED),
            ).fetchall()
            found = [row for _, row in sorted(ranked_rows) if row in wanted and row not in given]
            yield from found
            given.update(found)
        yield from sorted(wanted - given)

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
        why = why_of(found, near, [term.word.shown for term in terms]) if explain else ""
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
    """What each is worth by its words: how much of the question it holds in all, how much in one
    passage, and how often, against the best of them.
    """
    usual = sum(one.length for one in candidates) / len(candidates)
    ranks = [relevance(one.counts, stems.weights, one.length / usual) for one in candidates]
    top = max(ranks) or 1.0
    found = []
    for one, rank in zip(candidates, ranks, strict=True):
        terms = frozenset(one.counts)
        share, together = stems.share(terms), stems.share(one.window.terms | one.in_names)
        score = _ALL * share + _TOGETHER * together + _RANK * rank / top * share
        found.append(Found(one.row, terms, share, score, join(one.window.text)))
    return found
