"""Snippets: the part of a note that shows why it was found, as HTML in which only the marks are
tags.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from parachuted.search.query import SearchTerm
from parachuted.search.words import folded, is_spaceless

LOOKED_AT = 300_000
_WIDTH, _LEAD = 220, 60
_MOST_PLACES = 200
_LONGEST_WORD = 24
_BLANKS = re.compile(r"\s+")


class SnippetMarker:
    """Finds the terms of one query in texts."""

    def __init__(self, terms: Sequence[SearchTerm]) -> None:
        patterns = sorted({_pattern(term) for term in terms}, key=len, reverse=True)
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._any = re.compile("|".join(patterns)) if patterns else None

    def count(self, text: str) -> int:
        """How often a term stands in the text."""
        return sum(1 for _ in self._any.finditer(folded(text))) if self._any is not None else 0

    def snippet(self, text: str) -> str:
        """The part of the text that holds most of the terms, with `<mark>` around each; its
        beginning where it holds none.
        """
        text = text[:LOOKED_AT]
        places = self._places(folded(text))
        start = _best(places) if places else 0
        start = max(0, start - _LEAD) if places else 0
        if start:
            start = _word_start(text, start)
        stop = _word_stop(text, min(len(text), start + _WIDTH))
        piece = _BLANKS.sub(" ", text[start:stop]).strip()
        return f"{'… ' if start else ''}{self.marked(piece)}{' …' if stop < len(text) else ''}"

    def marked(self, text: str) -> str:
        """The whole text, escaped, with its marks."""
        if self._any is None:
            return escape(text)
        parts, at = [], 0
        for match in self._any.finditer(folded(text)):
            parts += [
                escape(text[at : match.start()]),
                "<mark>",
                escape(text[match.start() : match.end()]),
                "</mark>",
            ]
            at = match.end()
        return "".join([*parts, escape(text[at:])])

    def _places(self, text: str) -> list[tuple[int, int]]:
        """Where terms stand, and which: the first places of each, in order."""
        found: list[tuple[int, int]] = []
        for number, pattern in enumerate(self._patterns):
            for match in pattern.finditer(text):
                found.append((match.start(), number))
                if len(found) >= _MOST_PLACES * (number + 1):
                    break
        return sorted(found)


def _best(places: Sequence[tuple[int, int]]) -> int:
    """The place from which on most different terms stand close together; of several the first."""
    best, most, stop = places[0][0], (0, 0), 0
    for start, (at, _number) in enumerate(places):
        while stop < len(places) and places[stop][0] < at + _WIDTH - _LEAD:
            stop += 1
        near = (
            len({number for _at, number in places[start : min(stop, start + 40)]}),
            min(stop - start, 5),
        )
        if near > most:
            best, most = at, near
    return best


def _pattern(term: SearchTerm) -> str:
    """As SQLite's tokenizer cuts: letters and digits make words, all else stands between them.

    What must not stand before a word is looked for after it, so that the search can leap from word
    to word.
    """
    parts = []
    for number, word in enumerate(term.words):
        if number:
            loose = is_spaceless(word) and is_spaceless(term.words[number - 1])
            parts.append(r"[\W_]{0,8}" if loose else r"[\W_]{1,8}")
        parts.append(re.escape(word))
        if not number and not is_spaceless(word):
            parts.append(rf"(?<![^\W_]{re.escape(word)})")
    after = (
        ""
        if is_spaceless(term.words[-1])
        else r"[^\W_]{0,40}"
        if term.is_beginning
        else r"(?![^\W_])"
    )
    return f"{''.join(parts)}{after}"


def _word_start(text: str, at: int) -> int:
    blank = _BLANKS.search(text, at, at + _LONGEST_WORD)
    return blank.end() if blank is not None else at


def _word_stop(text: str, at: int) -> int:
    blank = _BLANKS.search(text, at, at + _LONGEST_WORD)
    return blank.start() if blank is not None else at
