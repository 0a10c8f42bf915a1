"""Windows: the best few neighbouring paragraphs of a note for the words of a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

ON, OFF = "\x02", "\x03"  # around each word that matched

_PARAGRAPHS = 3
_LONGEST, _BEFORE = 1_200, 300
_LEAST_WORDS, _MOST_WORDS = 25, 80
_END = re.compile(r"\n(?:[ \t\r]*\n)+|\n(?=[ \t]*(?:[-+*]|\d{1,3}[.)]|#{1,6})[ \t])")
_WORD = re.compile(r"\S+\s*")
_MARKED = re.compile(f"{ON}([^{OFF}]*){OFF}")


class Window(NamedTuple):
    text: str
    terms: frozenset[int]
    counts: dict[int, int]


def best_window(
    marked: str, weights: Sequence[float], term_of: Callable[[str], int | None]
) -> Window:
    """The window with the weightiest terms, the first of equals, cut to 1,200 characters.

    `marked` has every word that matched between ON and OFF.
    """
    parts = _END.split(marked)
    held = [0] * (len(parts) + _PARAGRAPHS - 1)  # by paragraph, a bit for each term
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
    text = "\n\n".join(part.strip("\n") for part in parts[best : best + _PARAGRAPHS])
    return Window(_cut(text), frozenset(term for term in counts if best_terms >> term & 1), counts)


def count_marked(marked: str, term_of: Callable[[str], int | None]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for word in _MARKED.findall(marked):
        if (term := term_of(word)) is not None:
            counts[term] = counts.get(term, 0) + 1
    return counts


def passages(text: str) -> list[tuple[int, int]]:
    """Where its pieces of some 25 to 80 words begin and end, whole paragraphs where possible."""
    found: list[tuple[int, int]] = []
    start = words = 0
    for begin, end, count in _pieces(text):
        if words and words + count > _MOST_WORDS:
            found.append((start, begin))
            start, words = begin, 0
        words += count
        if words >= _LEAST_WORDS:
            found.append((start, end))
            start, words = end, 0
    if words or not found:
        found.append((start, len(text)))
    return found


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    begin = 0
    for end in [*(found.end() for found in _END.finditer(text)), len(text)]:
        count = len(text[begin:end].split())
        if count <= _MOST_WORDS:
            yield begin, end, count
            begin = end
            continue
        stops = [found.end() for found in _WORD.finditer(text, begin, end)]
        for first in range(0, len(stops), _MOST_WORDS):
            part = stops[first : first + _MOST_WORDS]
            stop = end if first + _MOST_WORDS >= len(stops) else part[-1]
            yield begin, stop, len(part)
            begin = stop


def _cut(text: str) -> str:
    start = 0 if len(text) <= _LONGEST else max(0, text.find(ON) - _BEFORE)
    return text[start : start + _LONGEST].replace(ON, "").replace(OFF, "").strip()
