"""Changes: what happened to the files that a scan saw, recorded as work and then published."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Literal, NamedTuple

from parachuted.errors import StorageFailedError
from parachuted.vault import (
    BRINGS_BACK,
    Author,
    IndexEntry,
    IndexSnapshot,
    PathDifference,
    Requester,
    VaultIndex,
    VaultPath,
    Write,
    WriteJournal,
    new_id,
)

PERSON = Author(by="person")
ON_DISK = replace(PERSON, requester=Requester("person", "on disk"))
"""Who made a change that no record of our own writes explains."""


class Change(NamedTuple):
    """`source` is where a moved file was; `problems` say what of its `watch:` could not be read."""

    kind: Literal["created", "modified", "moved", "deleted"]
    path: VaultPath
    old: IndexEntry | None
    new: IndexEntry | None
    author: Author
    source: VaultPath | None = None
    data: bytes | None = None
    watch: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedChanges:
    """`came` pairs each with what it was before it moved; `same` entries only look newer."""

    came: list[tuple[PathDifference, PathDifference | None]]
    went: list[PathDifference]
    same: list[PathDifference]


def sort_seen(
    seen: Iterable[PathDifference],
    is_same: Callable[[PathDifference, PathDifference], bool] = lambda _came, _left: True,
) -> SortedChanges:
    """A move keeps its inode (`is_same` decides if the content differs), or its unique content."""
    came, went, same = [], [], []
    for item in seen:
        if item.new is None:
            went.append(item)
        elif item.old is not None and item.new.same_content(item.old):
            same.append(item)
        else:
            came.append(item)
    pairs = _pair([item for item in came if item.old is None], went, is_same)
    left = {item.path for item in pairs.values()}
    return SortedChanges(
        came=[(item, pairs.get(item.path)) for item in came],
        went=[item for item in went if item.path not in left],
        same=same,
    )


def _pair(
    created: list[PathDifference],
    gone: list[PathDifference],
    is_same: Callable[[PathDifference, PathDifference], bool],
) -> dict[str, PathDifference]:
    """Each new path with what moved there: first by inode, then by content."""
    pairs: dict[str, PathDifference] = {}
    if not gone:
        return pairs
    for key in (attrgetter("inode"), _content):
        left = {item.path for item in pairs.values()}
        free = _unique((item for item in gone if item.path not in left), key, old=True)
        news = _unique((item for item in created if item.path not in pairs), key, old=False)
        found = ((item, free[mark]) for mark, item in news.items() if mark in free)
        pairs |= {
            item.path: old
            for item, old in found
            if (item.new and item.new.same_content(old.old)) or is_same(item, old)
        }
    return pairs


def _unique(
    items: Iterable[PathDifference], key: Callable[[IndexEntry], object], *, old: bool
) -> dict[object, PathDifference]:
    found: dict[object, PathDifference] = {}
    twice = set()
    for item in items:
        entry = item.old if old else item.new
        mark = key(entry) if entry is not None else None
        if mark is None:
            continue
        if mark in found:
            twice.add(mark)
        found[mark] = item
    return {mark: item for mark, item in found.items() if mark not in twice}


def _content(entry: IndexEntry) -> object:
    return entry.digest if entry.size else None


log = logging.getLogger(__name__)

_CHUNK = 256
_KEPT_AT_ONCE = 16 * _CHUNK

Explained = tuple[Change, list[Write]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeListeners:
    """`record` makes changes work before the index forgets them; `tell` publishes them.

    The function that `record` returns is called afterwards, to publish what follows.
    """

    record: Callable[[Sequence[Change]], Awaitable[Callable[[], None]]]
    tell: Callable[[Sequence[Change]], None]


class ChangeCommitter:
    """Keeps the index, its copy on disk and the records of our writes in step with changes."""

    def __init__(
        self,
        index: VaultIndex,
        snapshot: IndexSnapshot,
        history: WriteJournal,
        load_listeners: Callable[[], Awaitable[ChangeListeners]],
        clock: Callable[[], datetime],
    ) -> None:
        """`load_listeners` is awaited once, when the first change is committed."""
        self.index = index
        self._snapshot, self._history, self._clock = snapshot, history, clock
        self._load_listeners = load_listeners
        self._listeners: ChangeListeners | None = None
        self._emptied: set[str] = set()
        self._unsaved: list[Write] = []

    def knows(self, path: str) -> bool:
        return self.index.get(path) is not None

    async def commit(
        self, changes: SortedChanges, thread: Executor, *, remember: bool
    ) -> list[Change]:
        """In pieces, so that the event loop stays free; `remember`: on disk too.

        Raises StorageFailedError or OSError; what was not published by then is found again.
        """
        loop = asyncio.get_running_loop()
        explained = (
            await loop.run_in_executor(thread, self._explain, changes)
            if changes.came or changes.went
            else []
        )
        gathered: list[Explained] = []
        try:
            for start in range(0, len(explained), _CHUNK):
                piece = explained[start : start + _CHUNK]
                await self._commit([change for change, _writes in piece])
                gathered += piece
                if len(gathered) >= _KEPT_AT_ONCE:
                    await loop.run_in_executor(thread, self._keep, gathered, remember)
                    gathered = []
                await asyncio.sleep(0)
        finally:
            if gathered:
                await loop.run_in_executor(thread, self._keep, gathered, remember)
        for seen in changes.same:
            self.index.set(seen.path, seen.new)
        if remember and changes.same:
            await loop.run_in_executor(
                thread, self._remember, [(seen.path, seen.new) for seen in changes.same], []
            )
        return [change for change, _writes in explained]

    def follow_folders(self, new: Iterable[str], gone: Iterable[str], entered: set[str]) -> None:
        """Forget removed folders once their files are forgotten, unless they are back by then."""
        for folder in new:
            self.index.add_folder(folder)
        self._emptied = (self._emptied - entered).union(gone)
        for folder in sorted(self._emptied, reverse=True):
            if not self.index.entries(folder) and not self.index.folders(folder):
                self.index.drop_folder(folder)
                self._emptied.discard(folder)

    def save(self) -> None:
        """OSError."""
        self._snapshot.save(self.index)
        try:
            self._history.notice(self._unsaved)
        except StorageFailedError as error:
            log.warning("our own writes are not marked as noticed yet", extra={"error": str(error)})
        else:
            self._unsaved = []

    def close(self) -> None:
        self._snapshot.close()

    async def _commit(self, changes: Sequence[Change]) -> None:
        if self._listeners is None:
            self._listeners = await self._load_listeners()
        async with self.index.following:
            publish_results = await self._listeners.record(changes)
            for change in changes:
                if change.source is not None:
                    self.index.set(change.source, None)
                self.index.set(change.path, change.new)
        self._listeners.tell(changes)
        publish_results()

    def _explain(self, changes: SortedChanges) -> list[Explained]:
        """In a thread. What our writer did not do, a person did; one scan has one cause."""
        person = replace(ON_DISK, causes=(new_id("c", self._clock()),))
        explained = []
        for seen, left in [*changes.came, *((seen, None) for seen in changes.went)]:
            ours = self._history.unnoticed(seen.path, seen.new.digest if seen.new else None)
            left_by_us = self._history.unnoticed(left.path, None) if left is not None else None
            change = _change(
                seen, left, person if ours is None else self._author(ours, seen, person)
            )
            explained.append((change, [write for write in (ours, left_by_us) if write is not None]))
        return explained

    def _author(self, ours: Write, seen: PathDifference, person: Author) -> Author:
        """Also a person, when it was merged with a save that was not detected."""
        if self._history.is_ours_since(ours, seen.old.digest if seen.old is not None else None):
            return ours.author
        if ours.author.run is None or ours.author.by in BRINGS_BACK:
            return replace(person, key=ours.author.key)
        return replace(ours.author, causes=(*ours.author.causes, *person.causes))

    def _keep(self, gathered: Sequence[Explained], remember: bool) -> None:  # noqa: FBT001  for an executor
        """In a thread: the history, and the index's copy on disk."""
        writes = [write for _change, writes in gathered for write in writes]
        by_people = _by_people(gathered, since_start=remember)
        if by_people:
            self._saw(by_people)
        if remember:
            self._remember(_lines(gathered), writes)
        else:
            # while the copy on disk is of before them, the next start has to come across them too
            self._unsaved += writes

    def _saw(self, seen: Sequence[tuple[str, str, str | None, str | None]]) -> None:
        """For explanations only; a disk that refuses loses just that."""
        try:
            self._history.saw(self._clock(), seen)
        except StorageFailedError as error:
            log.warning(
                "a person's changes are missing in the history", extra={"error": str(error)}
            )

    def _remember(
        self, lines: Sequence[tuple[str, IndexEntry | None]], writes: Sequence[Write]
    ) -> None:
        if lines:
            self._snapshot.append(lines, self.index)
        if writes:
            self._history.notice(writes)


def _change(seen: PathDifference, left: PathDifference | None, author: Author) -> Change:
    if seen.new is None:
        return Change(kind="deleted", path=seen.path, old=seen.old, new=None, author=author)
    return Change(
        kind="moved" if left is not None else "created" if seen.old is None else "modified",
        path=seen.path,
        old=left.old if left is not None else seen.old,
        new=seen.new,
        author=author,
        source=left.path if left is not None else None,
        data=seen.data,
        watch=seen.watch,
        problems=tuple(problem.message for problem in seen.problems),
    )


def _by_people(
    explained: Iterable[Explained], *, since_start: bool
) -> list[tuple[str, str, str | None, str | None]]:
    """What none of our writes explains. What a start finds for the first time is not new."""
    changes = [
        change
        for change, writes in explained
        if not writes and (since_start or change.kind != "created")
    ]
    return [
        (change.path, change.kind, change.source, change.new.digest if change.new else None)
        for change in changes
        if change.new is None or change.new.digest is not None or change.source is not None
    ]


def _lines(explained: Iterable[Explained]) -> list[tuple[str, IndexEntry | None]]:
    lines: list[tuple[str, IndexEntry | None]] = []
    for change, _writes in explained:
        if change.source is not None:
            lines.append((change.source, None))
        lines.append((change.path, change.new))
    return lines
