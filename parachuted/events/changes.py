"""Changes: from what a scan found to what happened, pairing a removed file with an added one.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from parachuted.vault import Author, IndexEntry, PathDifference, VaultPath

PERSON = Author(by="person")


class Change(NamedTuple):
    """One thing that happened to one path.

    `source` is where a moved file was; `author` carries the causes; `origin` is what the text's
    frontmatter says of where it came from, `problems` what of its `watch:` could not be read.
    """

    kind: Literal["created", "modified", "moved", "deleted"]
    path: VaultPath
    old: IndexEntry | None
    new: IndexEntry | None
    author: Author
    source: VaultPath | None = None
    data: bytes | None = None
    watch: tuple[str, ...] = ()
    origin: object = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedChanges:
    """Pairs of (what came, what it was before it moved or None), what went, and entries that only
    look newer.
    """

    came: list[tuple[PathDifference, PathDifference | None]]
    went: list[PathDifference]
    same: list[PathDifference]


def sort_seen(
    seen: Iterable[PathDifference],
    is_same: Callable[[PathDifference, PathDifference], bool] = lambda _came, _left: True,
) -> SortedChanges:
    """Classify new, changed, moved and missing files; a move keeps its inode, or its content where
    that is unique.

    `is_same` decides whether a new file with the inode, but not the content, of a removed one is
    that file.
    """
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
    for key in (_inode, _content):
        left = {item.path for item in pairs.values()}
        free = _unique((item for item in gone if item.path not in left), key, old=True)
        news = _unique((item for item in created if item.path not in pairs), key, old=False)
        found = ((item, free[mark]) for mark, item in news.items() if mark in free)
        pairs |= {
            item.path: old
            for item, old in found
            if _has_same_content(item, old) or is_same(item, old)
        }
    return pairs


def _has_same_content(came: PathDifference, left: PathDifference) -> bool:
    return came.new is not None and came.new.same_content(left.old)


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


def _inode(entry: IndexEntry) -> object:
    return entry.inode


def _content(entry: IndexEntry) -> object:
    return entry.digest if entry.size else None
