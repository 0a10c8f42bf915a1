"""Windows: the best few neighbouring paragraphs of a note for the words of a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

ON, OFF = "\x02", "\x03"  # around each word that matched

_PARAGRAPHS = 3
_BACK = range(_PARAGRAPHS)
_NONE: frozenset[int] = frozenset()
_LONGEST, _BEFORE = 1_200, 300
_LEAST_WORDS, _MOST_WORDS = 25, 80
_END = re.compile(r"\n(?:[ \t\r]*\n)+|\n(?=[ \t]*(?:[-+*]|\d{1,3}[.)]|#{1,6})[ \t])")
_WORD = re.compile(r"\S+\s*")
_MARKED = re.compile(f"{ON}([^{OFF}]*){OFF}")


class Window(NamedTuple):
    """The text of some paragraphs, the terms in it, and those in all of the text."""

    text: str
    terms: frozenset[int]
    all_terms: frozenset[int]


def best_window(
    marked: str, weights: Sequence[float], term_of: Callable[[str], int | None]
) -> Window:
    """The window with the weightiest terms, the first of equals, cut to 1,200 characters.

    `marked` is the text with every word that matched between ON and OFF; `term_of` says which term
    such a word is.
    """
    parts = _END.split(marked)
    held = [marked_terms(part, term_of) for part in parts]
    best, best_terms, best_weight = 0, frozenset[int](), 0.0
    for first in {max(0, at - back) for at, one in enumerate(held) if one for back in _BACK}:
        terms = frozenset[int]().union(*held[first : first + _PARAGRAPHS])
        weight = sum(weights[term] for term in terms)
        if (-weight, first) < (-best_weight, best):
            best, best_terms, best_weight = first, terms, weight
    text = "\n\n".join(part.strip("\n") for part in parts[best : best + _PARAGRAPHS])
    return Window(_cut(text), best_terms, frozenset[int]().union(*held))


def marked_terms(marked: str, term_of: Callable[[str], int | None]) -> frozenset[int]:
    """The terms of the words that matched."""
    if ON not in marked:
        return _NONE
    found = (term_of(word) for word in _MARKED.findall(marked))
    return frozenset(term for term in found if term is not None)


def passages(text: str) -> list[tuple[int, int]]:
    """The text in pieces of some 25 to 80 words, where it can be whole paragraphs: where each
    begins and ends, in characters. There is always one.
    """
    found: list[tuple[int, int]] = []
    start = words = 0
    for begun, end, count in _pieces(text):
        if words and words + count > _MOST_WORDS:
            found.append((start, begun))
            start, words = begun, 0
        words += count
        if words >= _LEAST_WORDS:
            found.append((start, end))
            start, words = end, 0
    if words or not found:
        found.append((start, len(text)))
    return found


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Paragraphs, and long ones in parts: from, to, number of words."""
    begun = 0
    for end in [*(found.end() for found in _END.finditer(text)), len(text)]:
        stops = [found.end() for found in _WORD.finditer(text, begun, end)]
        for first in range(0, len(stops), _MOST_WORDS):
            part = stops[first : first + _MOST_WORDS]
            stop = end if first + _MOST_WORDS >= len(stops) else part[-1]
            yield begun, stop, len(part)
            begun = stop


def _cut(text: str) -> str:
    start = 0 if len(text) <= _LONGEST else max(0, text.find(ON) - _BEFORE)
    return text[start : start + _LONGEST].replace(ON, "").replace(OFF, "").strip()
