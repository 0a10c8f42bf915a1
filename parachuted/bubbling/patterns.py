"""Patterns: the lines of a `watch:` declaration, as values.

A pattern is vault content, so it is bounded and can name nothing outside the vault. What a changed
path means to many patterns at once is the trie's work; here a line of text becomes a value or a
sentence that says why not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from parachuted.bubbling.queries import WatchQuery, is_query, parse_query_terms

MAX_PATTERNS = 200
MAX_LENGTH = 1_000
MAX_SEGMENTS = 32
MAX_DEEP = 4
_SHOWN = 80

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SUFFIX = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_MARK = re.compile(r"[#@]")
# What may follow a mark: behind a note (`x.md`) nearly anything, behind a folder only what no name
# would hold.
_BEHIND_NOTE = {"#": re.compile(r"\S.*"), "@": re.compile(r"[^\s/@][^/]*")}
_BEHIND_FOLDER = {"#": re.compile(r"[^\s./*?#][^/*]*"), "@": re.compile(r"[^\W\d][\w-]*")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPart:
    """The part of a note that a pattern is about: `#` a section by its heading, `@` a frontmatter
    key.
    """

    mark: Literal["#", "@"]
    name: str

    def __str__(self) -> str:
        return f"{self.mark}{self.name}"


@dataclass(frozen=True, slots=True)
class SegmentGlob:
    """A segment with wildcards: `*` and `**` alone, or text with `*` and `?` in it."""

    text: str


Segment = str | SegmentGlob


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPattern:
    """One parsed line of a `watch:` list.

    `segments` run from the vault's top; a `**` among them stands for zero or more folders. With
    `context` they name folders whose context file is meant, otherwise the last one names notes.
    With `query` there are none: the query selects the notes.
    """

    watcher: str
    text: str
    segments: tuple[Segment, ...]
    context: bool
    excludes: bool = False
    narrowing: PatternPart | None = None
    query: WatchQuery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDeclaration:
    """Everything that one note watches, and sentences about invalid parts of its `watch:`."""

    watcher: str
    patterns: tuple[WatchPattern, ...]
    problems: tuple[str, ...] = ()


def normal(name: str) -> str:
    """A path or name in the form in which patterns compare it (NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def parse_declaration(watcher: str, texts: object) -> WatchDeclaration:
    """Parse the value of `watch` in a note's frontmatter: a list of strings or one string; anything
    else is reported.
    """
    lines = _lines(texts)
    patterns: dict[str, WatchPattern] = {}
    problems = []
    for line in lines[:MAX_PATTERNS]:
        if not isinstance(line, str):
            problems.append(
                f"A pattern must be text; this one is of the type {type(line).__name__}."
            )
            continue
        try:
            patterns.setdefault(line, parse_pattern(line, watcher))
        except ValueError as error:
            problems.append(f"{_shown(line)}: {error}")
    if len(lines) > MAX_PATTERNS:
        problems.append(
            f"Only the first {MAX_PATTERNS} patterns of a note count; "
            f"{len(lines) - MAX_PATTERNS:,} more are ignored."
        )
    return WatchDeclaration(
        watcher=watcher, patterns=tuple(patterns.values()), problems=tuple(problems)
    )


def parse_pattern(text: str, watcher: str) -> WatchPattern:
    """Parse one pattern of the note `watcher`; raises ValueError with a sentence for a person.

    `Projects/C#.md` and `People/@kevin.md` are names: a mark narrows only where the text before it
    is a pattern by itself and the text after it can be a heading or a key. To name a folder such as
    `People/@kevin`, end it with `/`.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"The pattern is longer than {MAX_LENGTH:,} characters.")
    if _CONTROL.search(text):
        raise ValueError("The pattern holds a control character.")
    rest = normal(text.strip())
    excludes = rest.startswith("!")
    if is_query(rest.removeprefix("!").lstrip()):
        return _parse_query(text, rest.removeprefix("!").lstrip(), watcher, excludes=excludes)
    where, narrowing = _split_narrowing(rest[1:].lstrip() if excludes else rest)
    segments = _segments(where, watcher)
    return WatchPattern(
        watcher=watcher,
        text=text,
        segments=segments,
        context=not _SUFFIX.search(where),
        excludes=excludes,
        narrowing=narrowing,
    )


def _parse_query(text: str, rest: str, watcher: str, *, excludes: bool) -> WatchPattern:
    """A query, which a section or key may follow."""
    query, behind = parse_query_terms(rest)
    mark, name = behind[:1], behind[1:]
    if behind and not (mark in _BEHIND_NOTE and _BEHIND_NOTE[mark].fullmatch(name)):
        raise ValueError(
            f"{_shown(behind)} is not a condition like `tag:book` or `status:open`; a value with "
            "blanks stands in double quotes."
        )
    narrowing = PatternPart(mark="#" if mark == "#" else "@", name=name) if behind else None
    return WatchPattern(
        watcher=watcher,
        text=text,
        segments=(),
        context=False,
        excludes=excludes,
        narrowing=narrowing,
        query=query,
    )


def _lines(texts: object) -> Sequence[object]:
    if texts is None:
        return ()
    return texts if isinstance(texts, list | tuple) else (texts,)


def _shown(text: str) -> str:
    clean = _CONTROL.sub("?", text[:_SHOWN])
    return f'"{clean}"' if len(text) <= _SHOWN else f'"{clean}…"'


def _split_narrowing(text: str) -> tuple[str, PatternPart | None]:
    for found in _MARK.finditer(text, 1):
        before, mark, after = text[: found.start()], found[0], text[found.end() :]
        if _narrows(before, mark, after):
            return before, PatternPart(mark="#" if mark == "#" else "@", name=after)
    return text, None


def _narrows(before: str, mark: str, after: str) -> bool:
    if before.endswith(".md"):
        return bool(_BEHIND_NOTE[mark].fullmatch(after))
    return bool(_BEHIND_FOLDER[mark].fullmatch(after)) and not _SUFFIX.search(after)


def _segments(where: str, watcher: str) -> tuple[Segment, ...]:
    _refuse_hostile(where)
    names = where.removesuffix("/").split("/")
    if len(names) > MAX_SEGMENTS:
        raise ValueError(f"The pattern has more than {MAX_SEGMENTS} segments.")
    if names.count("**") > MAX_DEEP:
        raise ValueError(f"The pattern has more than {MAX_DEEP} segments that are `**`.")
    relative = names[0] in {".", ".."}
    resolved: list[Segment] = list(normal(watcher).split("/")[:-1]) if relative else []
    for segment in _read_names(names):
        _append(resolved, segment)
    if resolved and resolved[-1] == SegmentGlob("**"):
        resolved.append(SegmentGlob("*"))  # at the end `**` means one folder or more
    return tuple(resolved)


def _refuse_hostile(where: str) -> None:
    if not where:
        raise ValueError("The pattern is empty.")
    if where.startswith("/"):
        raise ValueError(
            "The pattern is absolute; write it from the vault's top, without the first `/`."
        )
    if where.startswith("~"):
        raise ValueError("The pattern begins with `~`; nothing outside the vault can be watched.")
    if "//" in where:
        raise ValueError("The pattern holds `//`.")


def _read_names(names: Sequence[str]) -> Iterator[Segment]:
    for name in names:
        if name == "**" or not ("*" in name or "?" in name):
            yield SegmentGlob(name) if name == "**" else name
        else:
            yield SegmentGlob(re.sub(r"\*+", "*", name))


def _append(resolved: list[Segment], segment: Segment) -> None:
    if segment == ".." and not resolved:
        raise ValueError("The pattern leaves the vault.")
    if segment == ".." and isinstance(resolved[-1], SegmentGlob):
        raise ValueError("`..` cannot follow a wildcard.")
    if segment == "..":
        resolved.pop()
    elif segment != "." and not (segment == SegmentGlob("**") and resolved[-1:] == [segment]):
        resolved.append(segment)
