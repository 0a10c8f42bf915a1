"""Patterns: the lines of a `watch:` declaration, and the queries among them, as values.

A pattern is vault content, so it is bounded and can name nothing outside the vault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from parachuted.search import KeyFilter, NoteQuery
from parachuted.search.indexed_note import Operator
from parachuted.state import StateStore
from parachuted.vault.paths import nfc

_MOST_TERMS = 10
_FIRST = re.compile(r"[^\W\d][\w-]*:[^\s/*]")
_TERM = re.compile(r'\s*([^\W\d][\w-]*):("[^"]*"|\S+)')
_OPERATORS = frozenset({"eq", "ne", "gt", "lt", "in"})


@dataclass(frozen=True, slots=True)
class WatchQuery:
    text: str
    asked: NoteQuery


def is_query(text: str) -> bool:
    """Whether it selects notes by content: a key and a colon, directly before a value."""
    return _FIRST.match(text) is not None


def parse_query_terms(text: str) -> tuple[WatchQuery, str]:
    """`tag:x`, `folder:x`, `key:value`, `key:op:value`, `key:*`; also what follows. ValueError."""
    filters: list[KeyFilter] = []
    named: dict[str, str] = {}
    at = 0
    while (term := _TERM.match(text, at)) is not None:
        key, value = term[1], term[2].strip('"')
        at = term.end()
        if key in {"tag", "folder"}:
            if key in named:
                raise ValueError(f"A query takes one `{key}:`.")
            named[key] = value.strip("#/")
        else:
            filters.append(_filter(key, value))
    if len(filters) + len(named) > _MOST_TERMS:
        raise ValueError(f"A query takes at most {_MOST_TERMS} conditions.")
    query = NoteQuery(
        filters=tuple(filters),
        folder=named.get("folder") or None,
        tag=named.get("tag") or None,
        limit=1_000,
    )
    return WatchQuery(" ".join(text[:at].split()), query), text[at:].strip()


def _filter(key: str, value: str) -> KeyFilter:
    op, colon, rest = value.partition(":")
    if value == "*":
        return KeyFilter(key=key, op="exists", value=True)
    if colon and op in _OPERATORS:
        return KeyFilter(
            key=key, op=cast("Operator", op), value=tuple(rest.split(",")) if op == "in" else rest
        )
    return KeyFilter(key=key, op="eq", value=value)


class QueryMatches:
    """The notes that each query lists. Changes join the state's open batch."""

    def __init__(self, state: StateStore) -> None:
        self._table = state.table("watch_matches")
        self.version = 0
        self._load()
        state.on_undone(self._load)

    def paths(self, query: WatchQuery) -> Collection[str]:
        return self._paths.get(query.text, ())

    def is_known(self, query: WatchQuery) -> bool:
        return query.text in self._paths

    def has(self, query: WatchQuery, path: str) -> bool:
        return path in self._paths.get(query.text, ())

    def decide(self, query: WatchQuery, path: str, *, is_match: bool) -> bool:
        """Record whether a changed note is listed now; whether that is new."""
        if query.text not in self._paths:
            # the index has not answered yet, and may answer with what was before
            self._undecided.setdefault(query.text, {})[path] = is_match
            return False
        if (path in self._paths[query.text]) == is_match:
            return False
        self._put(query, path, is_match=is_match)
        return True

    def answer(self, query: WatchQuery, paths: Iterable[str]) -> None:
        """What has changed since the question keeps its newer state."""
        found = set(paths)
        for path, is_match in self._undecided.pop(query.text, {}).items():
            (found.add if is_match else found.discard)(path)
        self._paths[query.text] = set()
        self._table.put(query.text, {"query": query.text, "path": None})
        for path in found:
            self._put(query, path, is_match=True)

    def forget(self, wanted: Collection[WatchQuery]) -> None:
        """Drop all queries but these."""
        texts = {query.text for query in wanted}
        for text in [text for text in self._paths if text not in texts]:
            for path in self._paths.pop(text):
                self._table.drop(f"{text}\t{path}")
            self._table.drop(text)
        for text in [text for text in self._undecided if text not in texts]:
            del self._undecided[text]

    def _put(self, query: WatchQuery, path: str, *, is_match: bool) -> None:
        key = f"{query.text}\t{path}"
        if is_match:
            self._table.put(key, {"query": query.text, "path": path})
            self._paths[query.text].add(path)
        else:
            self._table.drop(key)
            self._paths[query.text].discard(path)
        self.version += 1

    def _load(self) -> None:
        self._paths: dict[str, set[str]] = {}
        self._undecided: dict[str, dict[str, bool]] = {}
        for row in self._table:
            paths = self._paths.setdefault(row["query"], set())
            if row["path"] is not None:
                paths.add(row["path"])
        self.version += 1


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
    """`#`: a section by its heading, `@`: a frontmatter key."""

    mark: Literal["#", "@"]
    name: str

    def __str__(self) -> str:
        return f"{self.mark}{self.name}"


@dataclass(frozen=True, slots=True)
class SegmentGlob:
    """`*` and `**` alone, or text with `*` and `?` in it."""

    text: str


Segment = str | SegmentGlob


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPattern:
    """One line of a `watch:` list; `segments` run from the vault's top, `**` is any folders.

    With `context` they name folders whose context file is meant, with `query` there are none.
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
    watcher: str
    patterns: tuple[WatchPattern, ...]
    problems: tuple[str, ...] = ()


def parse_declaration(watcher: str, texts: object) -> WatchDeclaration:
    """The value of `watch`: a list of strings or one string; anything else is a problem."""
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
    """Raises ValueError with a sentence for a person.

    `Projects/C#.md` and `People/@kevin.md` are names: a mark narrows only where the text before it
    is a pattern by itself and the text after it can be a heading or a key.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"The pattern is longer than {MAX_LENGTH:,} characters.")
    if _CONTROL.search(text):
        raise ValueError("The pattern holds a control character.")
    rest = nfc(text.strip())
    excludes = rest.startswith("!")
    rest = rest.removeprefix("!").lstrip()
    query: WatchQuery | None = None
    segments: tuple[Segment, ...] = ()
    context = False
    if is_query(rest):
        query, narrowing = _query_of(rest)
    else:
        where, narrowing = _split_narrowing(rest)
        segments, context = _segments(where, watcher), not _SUFFIX.search(where)
    return WatchPattern(
        watcher=watcher,
        text=text,
        segments=segments,
        context=context,
        excludes=excludes,
        narrowing=narrowing,
        query=query,
    )


def _query_of(text: str) -> tuple[WatchQuery, PatternPart | None]:
    query, behind = parse_query_terms(text)
    mark, name = behind[:1], behind[1:]
    if not behind:
        return query, None
    if not (mark in _BEHIND_NOTE and _BEHIND_NOTE[mark].fullmatch(name)):
        raise ValueError(
            f"{_shown(behind)} is not a condition like `tag:book` or `status:open`; a value with "
            "blanks stands in double quotes."
        )
    return query, PatternPart(mark="#" if mark == "#" else "@", name=name)


def _lines(texts: object) -> Sequence[object]:
    if texts is None:
        return ()
    return texts if isinstance(texts, list | tuple) else (texts,)


def _shown(text: str) -> str:
    clean = _CONTROL.sub("?", text[:_SHOWN])
    return f'"{clean}"' if len(text) <= _SHOWN else f'"{clean}…"'


def _split_narrowing(text: str) -> tuple[str, PatternPart | None]:
    for match in _MARK.finditer(text, 1):
        before, mark, after = text[: match.start()], match[0], text[match.end() :]
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
    resolved: list[Segment] = list(nfc(watcher).split("/")[:-1]) if relative else []
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
