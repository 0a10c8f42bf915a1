"""Ranking: what a question asks for, and which notes answer it best. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from .vectors import PARAGRAPH_END, Near
from .words import fold, is_spaceless, join, split

_MOST_WORDS = 32


class QuestionWord(NamedTuple):
    text: str
    asked: str


def read_question(text: str) -> tuple[QuestionWord, ...]:
    """What a text in NFC asks for, each word once. Ignored words alone are looked for as well."""
    words, ignored = {}, {}
    folded, starts, ends = split(text)
    for number, (word, start, end) in enumerate(zip(folded, starts, ends, strict=True)):
        written = text[start:end]
        if is_spaceless(written):
            after = text[end : end + 1]
            before = text[start - 1 : start]
            if is_spaceless(after):
                words[word + after] = QuestionWord(written + after, f'"{written} {after}"')
            elif not is_spaceless(before):
                words[word] = QuestionWord(written, f'"{written}"')
        elif word in _STOP and (number == 0 or not written[0].isupper() or len(written) == 1):
            ignored[word] = QuestionWord(written, f'"{written}"')
        else:
            words[word] = QuestionWord(written, f'"{written}"')
    return tuple((words or ignored).values())[:_MOST_WORDS]


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


ON, OFF = "\x02", "\x03"  # around each word that matched

_PARAGRAPHS_OF_WINDOW = 3
_LONGEST_WINDOW, _BEFORE_MATCH = 1_200, 300
_MARKED = re.compile(f"{ON}([^{OFF}]*){OFF}")


class Window(NamedTuple):
    text: str
    terms: frozenset[int]
    counts: dict[int, int]


def best_window(
    marked: str, weights: Sequence[float], term_of: Callable[[str], int | None]
) -> Window:
    """The first with the weightiest terms; `marked` has words that matched in ON and OFF."""
    parts = PARAGRAPH_END.split(marked)
    held = [0] * (len(parts) + _PARAGRAPHS_OF_WINDOW - 1)  # by paragraph, a bit for each term
    counts: dict[int, int] = {}
    for at, part in enumerate(parts):
        for term, count in count_marked(part, term_of).items() if ON in part else ():
            counts[term] = counts.get(term, 0) + count
            held[at] |= 1 << term
    best = best_terms = last = 0
    best_weight = 0.0
    for first in range(len(parts)):
        terms = held[first] | held[first + 1] | held[first + 2]
        if terms != last:
            weight = sum(weights[term] for term in counts if terms >> term & 1)
            if weight > best_weight:
                best, best_terms, best_weight = first, terms, weight
        last = terms
    text = "\n\n".join(part.strip("\n") for part in parts[best : best + _PARAGRAPHS_OF_WINDOW])
    return Window(_cut(text), frozenset(term for term in counts if best_terms >> term & 1), counts)


def count_marked(marked: str, term_of: Callable[[str], int | None]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for word in _MARKED.findall(marked):
        if (term := term_of(word)) is not None:
            counts[term] = counts.get(term, 0) + 1
    return counts


def _cut(text: str) -> str:
    start = 0 if len(text) <= _LONGEST_WINDOW else max(0, text.find(ON) - _BEFORE_MATCH)
    return text[start : start + _LONGEST_WINDOW].replace(ON, "").replace(OFF, "").strip()


LEAST_NEAR = 0.1  # nearness of what has nothing to do with a question
_HIGH = 0.45  # and of what has much to do with it
_OFTEN, _LENGTH = 1.2, 0.75  # as FTS5 has them
_ENTITY = 0.1  # an entity goes before another note that holds about as much


def is_entity(row: int) -> bool:
    return row < 0


class Term(NamedTuple):
    word: QuestionWord
    notes: int
    weight: float


class Found(NamedTuple):
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
        self._folded = [fold(term.word.text) for term in terms]
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
    """Meaning counts for the part of the question of which a note holds no word."""
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
