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
    """Some paragraphs of a note, the terms in them, and those in all of it."""

    text: str
    terms: frozenset[int]
    held: frozenset[int]


def best_window(
    marked: str, weights: Sequence[float], term_of: Callable[[str], int | None]
) -> Window:
    """The window with the weightiest terms, the first of equals, cut to 1,200 characters.

    `marked` has every word that matched between ON and OFF.
    """
    parts = _END.split(marked)
    held = [marked_terms(part, term_of) if ON in part else frozenset[int]() for part in parts]
    windows = {
        frozenset[int]().union(*held[first : first + _PARAGRAPHS]): first
        for first in reversed(range(len(parts)))
    }
    terms = max(reversed(windows), key=lambda found: sum(weights[term] for term in sorted(found)))
    first = windows[terms]
    text = "\n\n".join(part.strip("\n") for part in parts[first : first + _PARAGRAPHS])
    return Window(_cut(text), terms, frozenset[int]().union(*held))


def marked_terms(marked: str, term_of: Callable[[str], int | None]) -> frozenset[int]:
    found = map(term_of, _MARKED.findall(marked))
    return frozenset(term for term in found if term is not None)


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
