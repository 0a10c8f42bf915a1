"""Search engine: answers a query from the database, best notes first.

bm25 over each hit of a common word takes long, so no more than some thousands are ranked: those
with the words in their title, and of the others the freshest. Words in more than half of the
freshest notes, and callers who see only some notes, get title and freshness alone: bm25 would
tell such a caller how many unseen notes hold a word.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import chain, islice
from typing import Annotated, TypeAlias

from pydantic import Field, PlainSerializer

from parachuted.search.index_tables import COLUMNS, text_of
from parachuted.search.query import ParsedQuery, SearchTerm
from parachuted.search.words import FoldedText, is_part, is_spaceless, joined, plain
from parachuted.state import Database
from parachuted.texts.times import UnixTime
from parachuted.vault import PathText

LOOKED_AT = 300_000
_WIDTH, _LEAD = 220, 60
_MOST_PLACES, _MOST_LOOKED_AT = 200, 2_000
_LONGEST_WORD = 24
_BLANKS = re.compile(r"\s+")


class SnippetMarker:
    def __init__(self, terms: Sequence[SearchTerm]) -> None:
        patterns = sorted(
            {(_pattern(term), _pattern(term, is_part=True)) for term in terms},
            key=lambda pair: len(pair[0]),
            reverse=True,
        )
        self._patterns = [(re.compile(whole), part) for whole, part in patterns]

    def count(self, text: str) -> int:
        return len(self._spans(text))

    def snippet(self, text: str) -> str:
        """The part that holds most of the terms, with `<mark>` around each; else its beginning."""
        text = text[:LOOKED_AT]
        folded = FoldedText(text)
        places = sorted(self._places(text, folded))
        start = max(0, folded.place(_best(places)) - _LEAD) if places else 0
        if start:
            start = _word_start(text, start)
        stop = _word_stop(text, min(len(text), start + _WIDTH))
        piece = _BLANKS.sub(" ", text[start:stop]).strip()
        return f"{'… ' if start else ''}{self.marked(piece)}{' …' if stop < len(text) else ''}"

    def marked(self, text: str) -> str:
        parts, at = [], 0
        for start, stop in self._spans(text):
            parts += [escape(text[at:start]), "<mark>", escape(text[start:stop]), "</mark>"]
            at = stop
        return "".join([*parts, escape(text[at:])])

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """In order; of two that overlap the first, or the longer term."""
        folded, found = FoldedText(text), list[tuple[int, int]]()
        matches = [
            (match.start(), number, match.end())
            for number in range(len(self._patterns))
            for match in self._matches(number, text, folded)
        ]
        matches.sort()
        for start, _number, stop in matches:
            if not found or start >= found[-1][1]:
                found.append((start, stop))
        return [(folded.place(start), folded.place(stop)) for start, stop in found]

    def _places(self, text: str, folded: FoldedText) -> Iterator[tuple[int, int]]:
        for number in range(len(self._patterns)):
            for match in islice(self._matches(number, text, folded), _MOST_PLACES):
                yield match.start(), number

    def _matches(self, number: int, text: str, folded: FoldedText) -> Iterator[re.Match[str]]:
        """One that is nowhere a whole word is looked for in parts of words."""
        whole, part = self._patterns[number]
        matches = whole.finditer(folded.text)
        if (first := next(matches, None)) is not None:
            return chain([first], matches)
        return (
            match
            for match in islice(re.finditer(part, folded.text), _MOST_LOOKED_AT)
            if is_part(text, folded.place(match.start()), folded.place(match.end()))
        )


def _best(places: Sequence[tuple[int, int]]) -> int:
    """Where most different terms stand close together; of several the first."""
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


def _pattern(term: SearchTerm, *, is_part: bool = False) -> str:
    """As SQLite's tokenizer cuts; `is_part`: it may begin and end within a word.

    What must not stand before a word is looked for after it, so that the search can leap on.
    """
    parts = []
    for number, word in enumerate(term.words):
        if number:
            loose = is_spaceless(word) and is_spaceless(term.words[number - 1])
            parts.append(r"[\W_]{0,8}" if loose else r"[\W_]{1,8}")
        parts.append(re.escape(word))
        if not (number or is_part or is_spaceless(word)):
            parts.append(rf"(?<![^\W_]{re.escape(word)})")
    after = (
        ""
        if is_part or is_spaceless(term.words[-1])
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


_WEIGHTS = (10.0, 4.0, 1.0, 5.0, 2.0, 2.0, 0.0)
_MOST_RANKED, _MOST_BY_TITLE, _FEWEST = 1_000, 400, 200
# all that were found by their titles, so that the one with that very title is among them
_WEIGHED = _MOST_BY_TITLE
_MANY_TERMS = 4
_SECONDS = 2.0
_FRESHEST, _HALF_LIFE_S = 0.15, 30 * 86_400.0
_SAME_TITLE = 1.5
_NO_WORDS = 1e-6  # where only tags, keys or folders are asked for: then the fresh ones come first

_CANDIDATES = f"""SELECT texts.rowid, -bm25(texts, {", ".join(map(str, _WEIGHTS))}) FROM texts
WHERE texts MATCH ? ORDER BY texts.rowid DESC LIMIT ?"""  # noqa: S608
_FLAT_CANDIDATES = "SELECT rowid, ? FROM texts WHERE texts MATCH ? ORDER BY rowid DESC LIMIT ?"
_IS_COMMON = """SELECT 1 FROM texts WHERE texts MATCH :words AND rowid > (SELECT id FROM texts_docsize ORDER BY id DESC LIMIT 1 OFFSET 2 * :most)
ORDER BY rowid DESC LIMIT 1 OFFSET :most - 1"""  # noqa: E501
_SEEN_CANDIDATES = """SELECT texts.rowid, notes.path FROM texts
CROSS JOIN notes ON notes.id = texts.rowid WHERE texts MATCH ? ORDER BY texts.rowid DESC"""
_IN_TEXT, _IN_TITLE = 1.0, 3.0
_WEIGHED_NOTES = (
    "SELECT id, title, modified FROM notes WHERE id IN (SELECT value FROM json_each(?))"
)
_NOTE = "SELECT path, title, modified, tags FROM notes WHERE id = ?"
_TEXTS = f"""SELECT {", ".join(f"substr(c{number}, 1, {LOOKED_AT})" for number in range(len(COLUMNS) - 1))}
FROM texts_content WHERE id = ?"""  # noqa: S608, E501


# words that most notes have in common weigh nearly nothing, so digits count, not places
_Short: TypeAlias = Annotated[
    float, PlainSerializer(lambda number: float(f"{number:.5g}"), return_type=float)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The score is `bm25` times `freshness` times `same_title`; `hits` counts words by column.

    `bm25` is 1, or 3 where the title holds the words, where bm25 itself is not used.
    """

    bm25: _Short
    freshness: _Short
    same_title: float
    hits: dict[str, int] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return (self.bm25 or _NO_WORDS) * self.freshness * self.same_title


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """`snippet` is HTML: escaped text of the note, with `<mark>` around what was sought."""

    path: PathText
    title: str
    modified: UnixTime
    tags: tuple[str, ...]
    snippet: str
    score: _Short
    why: Annotated[Ranking | None, Field(exclude_if=lambda why: why is None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    """`is_capped`: not all that match were ranked."""

    hits: tuple[SearchHit, ...]
    is_capped: bool


class SearchEngine:
    """Blocks for some milliseconds: call it in a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(
        self,
        query: ParsedQuery,
        limit: int,
        sees: Callable[[str], bool] | None,
        *,
        explain: bool = False,
    ) -> SearchResults:
        """`sees` None: all notes exist for the caller. Raises StorageFailedError."""
        with self._database.reading(_SECONDS) as connection:
            scores, is_capped = _candidates(connection, query, sees)
            ranked = self._ranked(connection, scores, _wanted_title(query))[:limit]
            marker = SnippetMarker(query.terms)
            hits = [
                hit
                for number, ranking in ranked
                if (hit := _hit(connection, number, ranking, marker, explain=explain)) is not None
            ]
        return SearchResults(hits=tuple(hits), is_capped=is_capped)

    def _ranked(
        self, connection: sqlite3.Connection, scores: dict[int, float], wanted: str
    ) -> list[tuple[int, Ranking]]:
        """The best ones by bm25 alone, put in order by all that counts."""
        now = time.time()
        best = sorted(scores, key=lambda number: (-scores[number], -number))[:_WEIGHED]
        weighed = []
        for number, title, modified in connection.execute(_WEIGHED_NOTES, (json.dumps(best),)):
            bm25 = scores[number]
            freshness = 1 + _FRESHEST * 2 ** (-max(0.0, now - modified) / _HALF_LIFE_S)
            same = _SAME_TITLE if wanted and plain(title) == wanted else 1.0
            ranking = Ranking(bm25=bm25, freshness=freshness, same_title=same)
            weighed.append((number, modified, ranking))
        weighed.sort(key=lambda item: (-item[2].score, -item[1], -item[0]))
        return [(number, ranking) for number, _modified, ranking in weighed]


def _candidates(
    connection: sqlite3.Connection, query: ParsedQuery, sees: Callable[[str], bool] | None
) -> tuple[dict[int, float], bool]:
    most = max(_FEWEST, _MOST_RANKED * _MANY_TERMS // max(_MANY_TERMS, len(query.terms)))
    words = {"words": query.expression, "most": most}
    is_flat = sees is not None or connection.execute(_IS_COMMON, words).fetchone() is not None
    scores = dict(_scored(connection, query.expression, most, sees, _IN_TEXT if is_flat else None))
    is_capped = len(scores) >= most
    if (is_capped or sees is not None) and query.titles is not None:
        for number, score in _scored(
            connection, query.titles, _MOST_BY_TITLE, sees, _IN_TITLE if is_flat else None
        ):
            if is_capped or number in scores:
                scores[number] = max(score, scores.get(number, 0.0))
    return scores, is_capped


def _scored(
    connection: sqlite3.Connection,
    expression: str,
    most: int,
    sees: Callable[[str], bool] | None,
    flat: float | None,
) -> Iterator[tuple[int, float]]:
    """The freshest that match, with the `flat` score; None: with bm25."""
    if flat is None:
        yield from connection.execute(_CANDIDATES, (expression, most))
        return
    if sees is None:
        yield from connection.execute(_FLAT_CANDIDATES, (flat, expression, most))
        return
    left = most
    for number, path in connection.execute(_SEEN_CANDIDATES, (expression,)):
        if sees(text_of(path)):
            yield number, flat
            left -= 1
            if left == 0:
                return


def _wanted_title(query: ParsedQuery) -> str:
    return " ".join(word for term in query.terms for word in term.words)


def _hit(
    connection: sqlite3.Connection,
    number: int,
    ranking: Ranking,
    marker: SnippetMarker,
    *,
    explain: bool,
) -> SearchHit | None:
    row = connection.execute(_NOTE, (number,)).fetchone()
    texts = connection.execute(_TEXTS, (number,)).fetchone()
    if row is None or texts is None:
        return None
    columns = dict(zip(COLUMNS, map(joined, texts), strict=False))
    path, title, modified, tags = row
    return SearchHit(
        path=text_of(path),
        title=title,
        modified=modified,
        tags=tuple(json.loads(tags)),
        snippet=marker.snippet(columns["body"]),
        score=ranking.score,
        why=replace(ranking, hits=_counted(columns, marker)) if explain else ranking,
    )


def _counted(columns: dict[str, str], marker: SnippetMarker) -> dict[str, int]:
    names: Sequence[tuple[str, str]] = [
        ("frontmatter" if name == "matter" else "path" if name == "place" else name, name)
        for name in columns
    ]
    return {label: count for label, name in names if (count := marker.count(columns[name]))}
