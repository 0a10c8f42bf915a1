"""Changes: from what a scan saw to what happened, pairing a file that went with one that came. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from parachuted.vault import Author, Entry, Seen, VaultPath

PERSON = Author(by="person")


class Change(NamedTuple):
    """One thing that happened to one path. `source` is where a moved file was; `author` carries the causes; `origin` is what the text's
    frontmatter says of where it came from, `problems` what of its `watch:` could not be read.
    """

    kind: Literal["created", "modified", "moved", "deleted"]
    path: VaultPath
    old: Entry | None
    new: Entry | None
    author: Author
    source: VaultPath | None = None
    data: bytes | None = None
    watch: tuple[str, ...] = ()
    origin: object = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """What a scan amounts to: pairs of (what came, what it was before it moved or None), what went, and entries that only look newer."""

    came: list[tuple[Seen, Seen | None]]
    went: list[Seen]
    same: list[Seen]


def sort_seen(seen: Iterable[Seen], is_same: Callable[[Seen, Seen], bool] = lambda _came, _left: True) -> Sorted:
    """Tell new, changed, moved and missing files apart; a move keeps its inode, or its content where there is only one such.

    `is_same` is asked whether one that came with the inode, but not the content, of one that went is that file indeed.
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
    return Sorted(
        came=[(item, pairs.get(item.path)) for item in came],
        went=[item for item in went if item.path not in left],
        same=same,
    )


def _pair(created: list[Seen], gone: list[Seen], is_same: Callable[[Seen, Seen], bool]) -> dict[str, Seen]:
    """Each new path with what moved there: first by inode, then, among the rest, by content."""
    pairs: dict[str, Seen] = {}
    if not gone:
        return pairs
    for key in (_inode, _content):
        left = {item.path for item in pairs.values()}
        free = _unique((item for item in gone if item.path not in left), key, old=True)
        news = _unique((item for item in created if item.path not in pairs), key, old=False)
        found = ((item, free[mark]) for mark, item in news.items() if mark in free)
        pairs |= {item.path: old for item, old in found if _has_same_content(item, old) or is_same(item, old)}
    return pairs


def _has_same_content(came: Seen, left: Seen) -> bool:
    return came.new is not None and came.new.same_content(left.old)


def _unique(items: Iterable[Seen], key: Callable[[Entry], object], *, old: bool) -> dict[object, Seen]:
    found: dict[object, Seen] = {}
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


def _inode(entry: Entry) -> object:
    return entry.inode


def _content(entry: Entry) -> object:
    return entry.digest if entry.size else None
