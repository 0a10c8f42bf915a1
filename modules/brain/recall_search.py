"""Search for answers: which notes of a recall index answer a question, and with which passage."""

from __future__ import annotations

import math
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from .question import QuestionWord, read_question
from .ranking import LEAST_NEAR, Found, Stems, Term, ranked, why_of
from .vectors import Near, VectorTable
from .windows import OFF, ON, best_window, marked_terms
from .words import join

IsWanted: TypeAlias = Callable[[str], bool]

_MOST_RANKED = 1_200  # notes; a word that is in more of them only helps to decide between others
_CANDIDATES = 12
_ALL_NOTES = ""  # no word
_NAME = 6.0  # what a word in a name counts, against one in the text
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
        if not held:
            return []
        asked: list[Term] = []
        count = 0
        for term in held:
            if not asked or count + term.notes <= _MOST_RANKED:
                asked.append(term)
                count += term.notes
        rows = list(islice(self._promising(asked, only), most))
        marks = ", ".join("?" * len(rows))
        marked = self._database.execute(
            "SELECT bm25(texts, ?, ?, 1.0), rowid, highlight(texts, 0, ?, ?),"  # noqa: S608
            " highlight(texts, 1, ?, ?), highlight(texts, 2, ?, ?)"
            f" FROM texts WHERE texts MATCH ? AND rowid IN ({marks})",
            (_NAME, _NAME, *(ON, OFF) * 3, _any(held), *rows),
        ).fetchall()
        best = min((row[0] for row in marked), default=0.0) or -1.0  # BM25 is below zero
        stems = Stems(terms)
        return [
            _found(rank / best, row, title, aliases, body, stems)
            for rank, row, title, aliases, body in marked
        ]

    def _promising(self, terms: Sequence[Term], only: IsWanted | None) -> Iterator[int]:
        """Notes that hold a word, the best by BM25 first."""
        rows = self._database.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid < ?"
            " ORDER BY bm25(texts, ?, ?, 1.0) LIMIT ?",
            (_any(terms), 0 if only else 1 << 62, _NAME, _NAME, _MOST_RANKED),
        )
        for (row,) in rows.fetchall():
            if only is None or only(self._path(row)):
                yield row

    def _path(self, row: int) -> str:
        found = self._database.execute("SELECT path FROM notes WHERE id = ?", (row,))
        return str(found.fetchone()[0])

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


def _any(terms: Iterable[Term]) -> str:
    return " OR ".join(term.word.asked for term in terms)


def _found(rank: float, row: int, title: str, aliases: str, body: str, stems: Stems) -> Found:
    """What a note is worth by its words: how much of the question it holds in all, how much in one
    passage, and its rank, where the best has 1.
    """
    window = best_window(body, stems.weights, stems.term_of)
    in_names = marked_terms(f"{title}\n{aliases}", stems.term_of)
    terms = window.held | in_names
    share, together = stems.share(terms), stems.share(window.terms | in_names)
    score = _ALL * share + _TOGETHER * together + _RANK * rank * share
    return Found(row, terms, share, score, join(window.text))
