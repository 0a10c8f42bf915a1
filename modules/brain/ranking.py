"""Ranking: which notes answer a question best, by its words and by its meaning. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .question import QuestionWord
from .vectors import Near
from .words import fold, join

LEAST_NEAR = 0.1  # nearness of what has nothing to do with a question
_HIGH = 0.45  # and of what has much to do with it
_OFTEN, _LENGTH = 1.2, 0.75  # as FTS5 has them
_ENTITY = 0.1  # an entity goes before another note that holds about as much


def is_entity(row: int) -> bool:
    """Whether the note of that number is an entity: these are numbered below zero."""
    return row < 0


class Term(NamedTuple):
    """A word of the question, in how many notes it is, and how much it says."""

    word: QuestionWord
    notes: int
    weight: float


class Found(NamedTuple):
    """A note, the terms it holds, and what it is worth by its words."""

    row: int
    terms: frozenset[int]
    share: float
    score: float
    text: str


class Stems:
    """Which word of the question a word of a note is: the one with which it begins alike."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.weights = [term.weight for term in terms]
        self._whole = sum(self.weights) or 1.0
        self._folded = [fold(term.word.shown) for term in terms]
        self._known: dict[str, int | None] = {}

    def share(self, terms: Iterable[int]) -> float:
        return sum(self.weights[term] for term in terms) / self._whole

    def term_of(self, word: str) -> int | None:
        if word not in self._known:
            folded = fold(join(word))
            alike = [_alike(folded, one) for one in self._folded]
            self._known[word] = alike.index(max(alike)) if any(alike) else None
        return self._known[word]


def _alike(one: str, other: str) -> int:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))


def relevance(counts: Mapping[int, float], weights: Sequence[float], length: float) -> float:
    """BM25 of a note that holds each of these terms so often; its length, where 1 is usual."""
    usual = _OFTEN * (1 - _LENGTH + _LENGTH * length)
    return sum(
        weights[term] * count * (_OFTEN + 1) / (count + usual) for term, count in counts.items()
    )


def ranked(
    found: list[Found], near: list[Near], doubt: float
) -> list[tuple[Found, Near | None, float]]:
    """The best first; of equals an entity. Meaning counts for the part of the question of which the
    note holds no word, and as far as there is doubt about what the words found.
    """
    meanings = {one.note: one for one in near}
    rows = {one.row: one for one in found}
    for note in meanings:
        rows.setdefault(note, Found(note, frozenset(), 0.0, 0.0, ""))
    scored = []
    for row, one in rows.items():
        meaning = meanings.get(row)
        part = (meaning.nearness - LEAST_NEAR) / (_HIGH - LEAST_NEAR) if meaning else 0.0
        score = one.score + doubt * (1 - one.share) * min(1.0, part)
        if is_entity(row):
            score = min(1.0, score + _ENTITY * one.share)
        scored.append((one, meaning, score))
    return sorted(scored, key=lambda each: (-each[2], each[0].row))


def why_of(found: Found, near: Near | None, words: Sequence[str]) -> str:
    """Why a note is an answer, in a sentence; `words` are those of the question."""
    held = [words[number] for number in sorted(found.terms)]
    if held:
        parts = [f"it holds {', '.join(held)} ({found.share:.0%} of what the question says)"]
        if missing := [word for word in words if word not in held]:
            parts.append(f"not {', '.join(missing)}")
    else:
        parts = ["it holds no word of the question, and is only the nearest"]
    if near:
        parts.append(f"its meaning is near by {near.nearness:.2f}")
    return "; ".join(parts)
