"""Queries: patterns that select notes by content, such as `tag:book status:reading`, and which
notes match.

A query's first answer comes from the search index, once that has caught up; from then on each
changed note is held against it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from parachuted.search import KeyFilter, NoteQuery
from parachuted.state import StateStore

_MOST_TERMS = 10
_FIRST = re.compile(r"[^\W\d][\w-]*:[^\s/*]")
_TERM = re.compile(r'\s*([^\W\d][\w-]*):("[^"]*"|\S+)')
_OPERATORS: Mapping[str, Literal["eq", "ne", "gt", "lt", "in"]] = {
    "eq": "eq",
    "ne": "ne",
    "gt": "gt",
    "lt": "lt",
    "in": "in",
}


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """A query as it is written and as the index understands it."""

    text: str
    asked: NoteQuery


def is_query(text: str) -> bool:
    """Whether a pattern selects notes by content: it begins with a key and a colon, directly before
    a value.
    """
    return _FIRST.match(text) is not None


def parse_query_terms(text: str) -> tuple[WatchQuery, str]:
    """Parse the terms `tag:x`, `folder:x`, `key:value`, `key:op:value` and `key:*`; also what
    follows them. Raises ValueError.
    """
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
            key=key, op=_OPERATORS[op], value=tuple(rest.split(",")) if op == "in" else rest
        )
    return KeyFilter(key=key, op="eq", value=value)


class QueryMatches:
    """The notes that each query lists, stored in the table `watch_matches`.

    Changes join the state's open batch; `version` grows with each.
    """

    def __init__(self, state: StateStore) -> None:
        self._table = state.table("watch_matches")
        self.version = 0
        self._load()
        state.on_undone(self._load)

    def paths(self, query: WatchQuery) -> Collection[str]:
        """The notes that it lists now, as far as is known."""
        return self._paths.get(query.text, ())

    def is_known(self, query: WatchQuery) -> bool:
        """Whether the index has answered."""
        return query.text in self._paths

    def has(self, query: WatchQuery, path: str) -> bool:
        return path in self._paths.get(query.text, ())

    def decide(self, query: WatchQuery, path: str, *, is_match: bool) -> bool:
        """Record whether a changed note is listed now. Returns whether that is new."""
        if (
            query.text not in self._paths
        ):  # the index has not answered yet, and may answer with what was before
            self._undecided.setdefault(query.text, {})[path] = is_match
            return False
        if (path in self._paths[query.text]) == is_match:
            return False
        self._put(query, path, is_match=is_match)
        return True

    def answer(self, query: WatchQuery, paths: Iterable[str]) -> None:
        """Store the index's answer; what has changed since the question keeps its newer state."""
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
