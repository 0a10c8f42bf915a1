"""Watches: who watches what by the notes' declarations, and the texts each watcher began with."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime

from parachuted.bubbling.graph import WatchGraph, woken_by
from parachuted.bubbling.patterns import (
    QueryMatches,
    WatchDeclaration,
    WatchPattern,
    WatchQuery,
    parse_declaration,
)
from parachuted.bubbling.trie import VaultTree, WatchMatch, WatchTrie, paths_of
from parachuted.errors import ParachuteError
from parachuted.events import Change
from parachuted.search.listing import matching
from parachuted.state import StateStore
from parachuted.vault import CONTEXT_NAMES, ObjectStore, VaultIndex, VaultPath, VaultRoot, digest_of
from parachuted.vault.conflict_copies import is_conflict_copy

_CONTEXT = " or ".join(CONTEXT_NAMES)


def unmatched(declaration: WatchDeclaration, tree: VaultTree) -> Iterator[str]:
    """A sentence for each pattern without a match; it may name folders and notes beside those."""
    for pattern in (pattern for pattern in declaration.patterns if pattern.query is None):
        alone = WatchDeclaration(
            watcher=declaration.watcher, patterns=(replace(pattern, excludes=False),)
        )
        if not paths_of(alone, tree):
            yield (
                f'"{pattern.text}" '
                f"{'leaves nothing out' if pattern.excludes else 'matches nothing'}: "
                f"{_why(pattern, tree)}"
            )


def _why(pattern: WatchPattern, tree: VaultTree) -> str:
    folder, *rest = "", *pattern.segments
    while len(rest) > (0 if pattern.context else 1) and isinstance(rest[0], str):
        name = str(rest.pop(0))
        here = _joined(folder, name)
        if name not in tree.folders(folder):
            if f"{name}.md" in tree.files(folder):
                return f'there is no folder {here}; for the note write "{here}.md"'
            return f"there is no folder {here}{_meant(name, folder, tree.folders)}"
        folder = here
    if pattern.context and not rest:
        return (
            f"the folder {folder or 'of the vault'} has no {_CONTEXT}; for its notes write "
            f'"{_joined(folder, "*.md")}"'
        )
    if pattern.context:
        return (
            f'none of these folders has an {_CONTEXT}; for notes write "{_joined(folder, "*.md")}"'
        )
    if isinstance(rest[0], str):
        return f"there is no file {_joined(folder, rest[0])}{_meant(rest[0], folder, tree.files)}"
    return "this file does not exist"


def _meant(name: str, folder: str, names: Callable[[str], Iterable[str]]) -> str:
    known = {one.casefold(): one for one in names(folder)}
    found = difflib.get_close_matches(name.casefold(), known, n=1)
    return f"; did you mean {_joined(folder, known[found[0]])}?" if found else ""


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


_EDGES_AT_ONCE = 2000
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationChange:
    """`now` is None when the note watches nothing any more."""

    watcher: str
    now: WatchDeclaration | None


class WatchRegistry:
    """The declarations are stored, so that a start need not read the notes again."""

    def __init__(self, state: StateStore, index: VaultIndex, clock: Callable[[], datetime]) -> None:
        self._table = state.table("context_watches")
        self._problems = state.table("watch_problems")
        self.matches = QueryMatches(state)
        self._left: set[tuple[WatchQuery, str]] = set()
        self._index = index
        self._clock = clock
        self._version = 0
        self._reach: WatchGraph | None = None
        self._reach_version = -1
        self._load()
        state.on_undone(self._load)

    def __len__(self) -> int:
        return len(self._texts)

    def all(self) -> list[WatchDeclaration]:
        """By watcher, also of notes without a valid pattern."""
        watchers = {declaration.watcher for declaration in self._trie.declarations()} | {
            key for key, _row in self._problems.items()
        }
        return [found for watcher in sorted(watchers) if (found := self.of(watcher)) is not None]

    def of(self, watcher: str) -> WatchDeclaration | None:
        declared, row = self._trie.declaration(watcher), self._problems.get_record(watcher)
        problems = tuple(row["problems"]) if row is not None else ()
        if declared is None:
            return (
                WatchDeclaration(watcher=watcher, patterns=(), problems=problems)
                if problems
                else None
            )
        return replace(declared, problems=(*declared.problems, *problems))

    def unmatched(self, watcher: str) -> list[str]:
        """Sentences about patterns that match nothing now. Thread-safe."""
        declaration = self.of(watcher)
        if declaration is None:
            return []
        queries = (
            (pattern.text, pattern.query)
            for pattern in declaration.patterns
            if pattern.query is not None
        )
        empty = [
            f'"{text}" matches no note now'
            for text, query in queries
            if self.matches.is_known(query) and not self.matches.paths(query)
        ]
        return [*unmatched(declaration, _Glance(self._index)), *empty]

    def since(self, watcher: str) -> str | None:
        """When the note's declaration was first seen, as ISO 8601."""
        return min(self._texts.get(watcher, {}).values(), default=None)

    def watchers_of(self, path: str) -> list[WatchMatch]:
        """Whether the file exists or not; by a query, also who watched it until now."""
        if is_conflict_copy(path):
            return []
        listing = [
            pattern
            for query, patterns in self._queries.items()
            if self.matches.has(query, path) or (query, path) in self._left
            for pattern in patterns
        ]
        return self._trie.watchers_of(path, self._would_be_context(path), listing)

    def queries(self) -> list[WatchQuery]:
        return list(self._queries)

    def watchers_by(self, query: WatchQuery) -> list[str]:
        return sorted({pattern.watcher for pattern in self._queries.get(query, ())})

    @contextlib.contextmanager
    def leaving(self, left: Iterable[tuple[WatchQuery, str]]) -> Iterator[None]:
        """Inside, notes that queries no longer list still reach their former watchers."""
        self._left = set(left)
        try:
            yield
        finally:
            self._left = set()

    def watched_by(self, watcher: str) -> list[VaultPath]:
        """Searches the whole vault for a pattern like `**`, so it is thread-safe."""
        declaration = self.of(watcher)
        if declaration is None:
            return []
        found = paths_of(declaration, _Glance(self._index))
        queries = [pattern.query for pattern in declaration.patterns if pattern.query is not None]
        if queries:
            every = {
                *found,
                *(path for query in queries for path in tuple(self.matches.paths(query))),
            }
            found = [
                path
                for path in sorted(every)
                if any(match.watcher == watcher for match in self.watchers_of(path))
            ]
        return [VaultPath(path) for path in found]

    def downstream(self, path: str) -> Iterable[str]:
        return [match.watcher for match in self.watchers_of(path)]

    def blockers(self, watchers: Collection[str]) -> Mapping[str, str]:
        """For each of these downstream of another, and not in a cycle with it, one such."""
        return self.reach.blockers(watchers)

    @property
    def reach(self) -> WatchGraph:
        """As of the last `prepare`, if there was one."""
        if self._reach is None:
            edges = {watcher: woken_by(watcher, self.downstream) for watcher in self._texts}
            self._reach = _reach_of(edges)
            self._reach_version = self._version + self.matches.version
        return self._reach

    async def prepare(self) -> None:
        """Update `reach`, leaving the event loop free; may lag while declarations change."""
        for _ in range(_ATTEMPTS):
            version = self._version + self.matches.version
            if self._reach is not None and self._reach_version == version:
                return
            edges = {watcher: after async for watcher, after in self._edges()}
            self._reach, self._reach_version = await asyncio.to_thread(_reach_of, edges), version

    def declare(
        self, watcher: str, texts: tuple[str, ...], problems: tuple[str, ...] = ()
    ) -> DeclarationChange | None:
        """None when nothing changed. Joins the state's open batch."""
        texts = () if is_conflict_copy(watcher) else texts
        before, row = self._texts.get(watcher, {}), self._problems.get_record(watcher)
        if before.keys() == set(texts) and problems == (
            tuple(row["problems"]) if row is not None else ()
        ):
            return None
        if problems:
            self._problems.put(watcher, {"problems": list(problems)})
        elif row is not None:
            self._problems.drop(watcher)
        if before.keys() != set(texts):
            was = self._trie.declaration(watcher)
            self._keep(watcher, before, dict.fromkeys(texts))
            if texts:
                self._trie.add(parse_declaration(watcher, list(self._texts[watcher])))
            else:
                self._trie.remove(watcher)
            if _has_queries(was) or _has_queries(self._trie.declaration(watcher)):
                self._follow_queries()
                self.matches.forget(self._queries)
        return DeclarationChange(watcher=watcher, now=self.of(watcher))

    def _keep(self, watcher: str, before: Mapping[str, str], texts: Iterable[str]) -> None:
        moment = self._clock().isoformat()
        now = {text: before.get(text, moment) for text in texts}
        for text in before.keys() - now.keys():
            self._table.drop(f"{watcher}\t{text}")
        for text, created in now.items():
            row = {
                "watcher_path": watcher,
                "watch_pattern": text,
                "resolved_paths": None,
                "created_at": created,
                "updated_at": moment,
            }
            self._table.put(f"{watcher}\t{text}", row)
        self._texts[watcher] = now
        if not now:
            del self._texts[watcher]
        self._version += 1

    def _follow_queries(self) -> None:
        queries: dict[WatchQuery, list[WatchPattern]] = {}
        for declaration in self._trie.declarations():
            for pattern in declaration.patterns:
                if pattern.query is not None:
                    queries.setdefault(pattern.query, []).append(pattern)
        self._queries = queries

    async def _edges(self) -> AsyncIterator[tuple[str, tuple[str, ...]]]:
        """Each watcher with those who watch it; edges cost, so pauses go by their number."""
        found = 0
        for watcher in list(self._texts):
            after = woken_by(watcher, self.downstream)
            yield watcher, after
            found += 1 + len(after)
            if found > _EDGES_AT_ONCE:
                found = 0
                await asyncio.sleep(0)

    def _would_be_context(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name == CONTEXT_NAMES[0] or (
            name == CONTEXT_NAMES[1] and CONTEXT_NAMES[0] not in self._index.entries(folder)
        )

    def _load(self) -> None:
        """Also when changes to the table were undone."""
        self._texts: dict[str, dict[str, str]] = {}
        for row in self._table:
            if not is_conflict_copy(row["watcher_path"]):  # an earlier version took it in
                self._texts.setdefault(row["watcher_path"], {})[row["watch_pattern"]] = row[
                    "created_at"
                ]
        self._trie = WatchTrie()
        for watcher, texts in self._texts.items():
            self._trie.add(parse_declaration(watcher, list(texts)))
        self._follow_queries()
        self._version += 1


def _has_queries(declaration: WatchDeclaration | None) -> bool:
    return declaration is not None and any(
        pattern.query is not None for pattern in declaration.patterns
    )


def _reach_of(edges: dict[str, tuple[str, ...]]) -> WatchGraph:
    """A watcher declared while the edges were gathered has none yet."""
    for watcher in {watcher for after in edges.values() for watcher in after}:
        edges.setdefault(watcher, ())
    return WatchGraph(edges)


class _Glance:
    """The index at the moment of each lookup, since the loop may change it meanwhile."""

    def __init__(self, index: VaultIndex) -> None:
        self._index = index

    def folders(self, folder: str) -> tuple[str, ...]:
        return tuple(self._index.folders(folder))

    def files(self, folder: str) -> tuple[str, ...]:
        return tuple(name for name in self._index.files(folder) if not is_conflict_copy(name))


_PIECE = 100
_AT_ONCE = 1_000
_LARGEST = 4 << 20


def store_texts(
    root: VaultRoot,
    objects: ObjectStore,
    texts: Iterable[tuple[VaultPath, str | None, bytes | None]],
) -> None:
    """One that is no longer there under its digest is left out. Blocks on the disk."""
    objects.see(_missing(root, objects, texts))


def _missing(
    root: VaultRoot,
    objects: ObjectStore,
    texts: Iterable[tuple[VaultPath, str | None, bytes | None]],
) -> Iterator[tuple[str, bytes]]:
    for path, digest, data in texts:
        if digest is None or digest in objects:
            continue
        try:
            text = root.read(path).data if data is None else data
        # gone or unreadable again: the scanner comes by, and the text counts as unknown until then
        except ParachuteError:
            continue
        if len(text) <= _LARGEST and digest_of(text) == digest:
            yield digest, text


@dataclass(slots=True, kw_only=True)
class WatchedTexts:
    """What watched notes say, stored before it changes; raises StorageFailedError or OSError."""

    root: VaultRoot
    objects: ObjectStore
    index: VaultIndex
    watches: WatchRegistry
    declared: set[str] = field(default_factory=set, init=False)
    _waiting: list[VaultPath] = field(default_factory=list, init=False)
    _first_texts: dict[str, bytes] = field(default_factory=dict, init=False)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def remember(self, changes: Iterable[Change]) -> None:
        """First contact: hold in memory what was read, until `keep_watched`."""
        self.declared.clear()
        self._first_texts.update(
            {change.path: change.data for change in changes if change.data is not None}
        )

    async def keep_watched(self, paths: Iterable[VaultPath]) -> None:
        paths = list(paths)
        for start in range(0, len(paths), _PIECE):
            await self.keep(self._watched(paths[start : start + _PIECE]))
        self._first_texts = {}

    async def keep_declared(self) -> None:
        """Of very many texts, most wait, so that no other change waits for them."""
        for watcher in tuple(self.declared):
            watched = await asyncio.to_thread(self.watches.watched_by, watcher)
            await self.keep(watched[:_AT_ONCE])
            self._waiting += watched[_AT_ONCE:]
            self.declared.discard(watcher)

    async def keep_waiting(self) -> None:
        while self._waiting:
            await self.keep(self._waiting[:_PIECE])
            del self._waiting[:_PIECE]

    async def keep_before(self, changes: Iterable[Change]) -> None:
        """What first contact read of files that change before `keep_watched` gets to them."""
        paths = [change.source or change.path for change in changes]
        await self.keep(self._watched(path for path in paths if path in self._first_texts))

    async def keep(self, paths: Sequence[VaultPath]) -> None:
        for start in range(0, len(paths), _PIECE):
            texts = [
                (path, entry.digest, self._first_texts.get(path))
                for path in paths[start : start + _PIECE]
                if (entry := self.index.get(path))
            ]
            await asyncio.to_thread(store_texts, self.root, self.objects, texts)

    def _watched(self, paths: Iterable[VaultPath]) -> list[VaultPath]:
        return [path for path in paths if self.watches.watchers_of(path)]

    def listed(self, queries: Sequence[WatchQuery], changes: Iterable[Change]) -> list[list[bool]]:
        """For each change, which queries list the note as it left it. In a thread."""
        return [self._listed(change, queries) for change in changes]

    def _listed(self, change: Change, queries: Sequence[WatchQuery]) -> list[bool]:
        if change.new is None or change.new.digest is None:
            return [False] * len(queries)
        try:
            data = change.data if change.data is not None else self.root.read(change.path).data
        except ParachuteError:  # gone again: the scanner comes by
            return [False] * len(queries)
        return matching(
            [query.asked for query in queries], change.path, data, change.new.mtime_ns / 1e9
        )
