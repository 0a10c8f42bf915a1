"""Query: turns what a person types into an FTS5 expression that is always valid."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from parachuted.search.words import cut, is_spaceless, plain, words_of, written_words_of

FacetKind: TypeAlias = Literal["folder", "tag", "key", "value"]


def facet(kind: FacetKind, text: str) -> str:
    """One word for a folder, tag, key or value as a whole, which people do not write."""
    return (
        f"zq{kind[0]}{blake2b(text.encode('utf-8', 'surrogateescape'), digest_size=6).hexdigest()}"
    )


ValueKind: TypeAlias = Literal["number", "moment", "text"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)


def number_of(text: str) -> float | None:
    if not _NUMBER.fullmatch(text.strip()):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def moment_of(text: str) -> float | None:
    """In seconds since 1970, in UTC where no zone is given."""
    if not _MOMENT.fullmatch(text.strip()):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def measure(text: str) -> tuple[ValueKind, float]:
    """What the text counts as, and how much that is (0 for a text)."""
    if not text[:1] or text.lstrip()[:1] not in "+-.0123456789":
        return "text", 0.0
    if (number := number_of(text)) is not None:
        return "number", number
    if (moment := moment_of(text)) is not None:
        return "moment", moment
    return "text", 0.0


LONGEST = 1_000
MOST_TERMS = 32
_SHORTEST_BEGINNING = 2  # one letter begins too many words to look for them in whole texts
_TERM = re.compile(
    r"(?P<minus>-?)(?:(?P<key>[^\W\d_][\w-]*):)?(?:\"(?P<phrase>[^\"]*)(?:\"|\Z)|(?P<word>[^\s\"]+))?",
    re.UNICODE,
)
_VERSION_SIGN = re.compile(r"(?<![^\W_])[vV](?=\d+\.\d)")
_LINE = re.compile(r"([^\W\d_][\w-]*):\s+(.+)")  # a line of frontmatter, as a phrase
_BLANK = re.compile(r"\s+")
_COLUMNS = {
    "title": "title",
    "heading": "headings",
    "headings": "headings",
    "body": "body",
    "path": "place",
}
PARTS = {
    "title": "title",
    "headings": "headings",
    "body": "body",
    "tags": "tags",
    "frontmatter": "matter",
}


class QueryError(ValueError):
    """The query cannot be answered; the message says why, to a person."""


class SearchTerm(NamedTuple):
    """Its words, folded; `is_beginning`: the last is only the beginning of one."""

    words: tuple[str, ...]
    is_beginning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """`expression` is FTS5's; `titles` the same where all terms stand in titles, or None."""

    expression: str
    titles: str | None
    terms: tuple[SearchTerm, ...]


def parse_query(
    text: str, *, part: str | None = None, within: Sequence[Sequence[str]] = ()
) -> ParsedQuery:
    """`part`: a key of PARTS that words must stand in; `within`: each is folders to be in one of.

    Raises QueryError for one that is too long, seeks nothing, or would match nearly everything.
    """
    if len(text) > LONGEST:
        raise QueryError(f"the query is longer than {LONGEST} characters")
    reading = _Reading()
    at = 0
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            at = blank.end()
            continue
        match = _TERM.match(text, at)
        if match is None or match.end() == at:
            at += 1
            continue
        reading.take(match)
        at = match.end()
    return reading.query(part, within)


class _Reading:
    def __init__(self) -> None:
        self._sought: list[str] = []
        self._facets: list[str] = []
        self._unwanted: list[str] = []
        self._letters: list[tuple[str, SearchTerm]] = []
        self._terms: list[SearchTerm] = []

    def take(self, match: re.Match[str]) -> None:
        value = match["phrase"] if match["phrase"] is not None else match["word"] or ""
        is_beginning = match["phrase"] is None and value.endswith("*")
        key = match["key"]
        expression = (
            self._keyed(plain(key), value, is_beginning)
            if key
            else self._free(value, is_beginning, match["minus"])
        )
        if expression is None:
            return
        if match["minus"]:
            self._unwanted.append(expression)
        elif key:
            self._facets.append(expression)
        else:
            self._sought.append(expression)
        if (
            len(self._sought) + len(self._facets) + len(self._unwanted) + len(self._letters)
            > MOST_TERMS
        ):
            raise QueryError(f"the query holds more than {MOST_TERMS} terms")

    def query(self, part: str | None, within: Sequence[Sequence[str]]) -> ParsedQuery:
        """One letter with a star is sought in titles alone; beside words it narrows too little."""
        if self._letters and not self._sought:
            self._sought = [expression for expression, _term in self._letters]
            self._terms = [term for _expression, term in self._letters]
            part = part or "title"
        if not self._sought and not self._facets:
            raise QueryError(
                "write what to look for, such as a word"
                + (", besides what is to be left out" if self._unwanted else "")
            )
        sought = " AND ".join(self._sought)
        rest = [*self._facets, *map(_any, within)]
        if part is not None and sought:
            sought = f"{{{PARTS[part]}}} : ({sought})"
        is_anywhere = bool(sought) and part is None
        return ParsedQuery(
            expression=self._whole(sought, rest),
            titles=self._whole(f"{{title}} : ({sought})", rest) if is_anywhere else None,
            terms=tuple(self._terms),
        )

    def _whole(self, sought: str, rest: Sequence[str]) -> str:
        wanted = " AND ".join([*([f"({sought})"] if sought else []), *rest])
        return f"({wanted}) NOT ({' OR '.join(self._unwanted)})" if self._unwanted else wanted

    def _free(self, value: str, is_beginning: bool, minus: str) -> str | None:  # noqa: FBT001
        words = words_of(_VERSION_SIGN.sub("", value))
        if not words:
            return None
        term = SearchTerm(tuple(words), is_beginning)
        if (
            is_beginning
            and not minus
            and len(words) == 1
            and len(words[0]) < _SHORTEST_BEGINNING
            and not is_spaceless(words[0])
        ):
            self._letters.append((_phrase(value, is_beginning=True), term))
            return None
        if not minus:
            self._terms.append(term)
        phrase = _phrase(value, is_beginning=is_beginning)
        line = _LINE.fullmatch(value)
        if line is None:
            return phrase
        return (
            f"({phrase} OR ({_valued(plain(line[1]), line[2])} AND {{matter}} : "
            f"{_phrase(line[2], is_beginning=False)}))"
        )

    def _keyed(self, key: str, value: str, is_beginning: bool) -> str | None:  # noqa: FBT001
        words = words_of(value)
        if key in _COLUMNS:
            beginning = is_beginning or (
                key == "path" and bool(words) and len(words[-1]) >= _SHORTEST_BEGINNING
            )
            return (
                f"{{{_COLUMNS[key]}}} : {_phrase(value, is_beginning=beginning)}" if words else None
            )
        if key in {"tag", "tags"}:
            tag = plain(value).strip("#/*")
            if not tag:
                return _word(facet("key", "tags"))
            return (
                f"{{tags}} : {_phrase(value, is_beginning=True)}"
                if is_beginning and words
                else _word(facet("tag", tag))
            )
        if not words:
            return _word(facet("key", key))
        return (
            f"(({_valued(key, value)}) OR {_phrase(f'{key} {value}', is_beginning=is_beginning)})"
        )


def _phrase(value: str, *, is_beginning: bool) -> str:
    return f"{_word(_letters(value))} *" if is_beginning else _word(_letters(value))


def _valued(key: str, value: str) -> str:
    return " AND ".join(
        _word(facet("value", f"{key}\n{word}")) for word in words_of(value)[:MOST_TERMS]
    ) or _word(facet("key", key))


def _letters(value: str) -> str:
    """`v1.2` is sought as `1.2`, by which both are found."""
    return " ".join(written_words_of(_VERSION_SIGN.sub("", value)))


def _word(text: str) -> str:
    return '"' + cut(text).replace('"', " ") + '"'


def _any(folders: Sequence[str]) -> str:
    return "(" + " OR ".join(_word(facet("folder", folder)) for folder in folders) + ")"
