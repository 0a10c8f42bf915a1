"""Listing: the files below a folder that a device may have, with their digests."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from parachuted.errors import PathRefusedError
from parachuted.vault import IndexEntry, VaultIndex, VaultPath, VaultRoot, digest_of_open

_MOST = 50_000
_TICK_NS = 20_000_000
_State: TypeAlias = tuple[int, int, int]


class FileDigests:
    """Each with the state of its file; `learn` and `digest` are for threads."""

    def __init__(self, root: VaultRoot, most: int = _MOST) -> None:
        self._root, self._most = root, most
        self._known: OrderedDict[str, tuple[_State, str]] = OrderedDict()

    def known(self, path: str, entry: IndexEntry) -> str | None:
        """What the index knows of a note, or what was read of another file in that state."""
        if entry.digest is not None:
            return entry.digest
        state, digest = self._known.get(path, (None, None))
        return digest if state == (entry.mtime_ns, entry.size, entry.inode) else None

    def learn(self, paths: Iterable[str]) -> dict[str, str]:
        """The digests of those that can be read. Blocks on the disk."""
        found = {}
        for path in paths:
            with (
                contextlib.suppress(OSError, PathRefusedError),
                self._root.opened_file(VaultPath.parse(path)) as descriptor,
            ):
                found[path] = self.digest(VaultPath(path), descriptor)
        return found

    def digest(self, path: VaultPath, descriptor: int) -> str:
        """Kept unless the file changed while it was read, or a moment before. OSError. Blocks."""
        state = _state(os.fstat(descriptor))
        found = self._known.get(path)
        if found is not None and found[0] == state:
            return found[1]
        digest = digest_of_open(descriptor)
        status = os.fstat(descriptor)
        if _state(status) == state and not _is_fresh(status):
            self._keep(path, state, digest)
        return digest

    def _keep(self, path: str, state: _State, digest: str) -> None:
        self._known[path] = (state, digest)
        self._known.move_to_end(path)
        while len(self._known) > self._most:
            self._known.popitem(last=False)


def _state(status: os.stat_result) -> _State:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_fresh(status: os.stat_result) -> bool:
    """Whether a second write in the same tick of the clock could still come and not show."""
    return abs(time.time_ns() - status.st_ctime_ns) < _TICK_NS


BINARY_SUFFIXES = (
    *(".wav", ".mp3", ".m4a", ".ogg", ".opus"),
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"),
)
_ELSEWHERE = re.compile(r"[\\\ud800-\udfff]|^[A-Za-z]:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingQuery:
    """`pattern` is fnmatch's, for names; `date` stands in the path."""

    root: str
    pattern: str
    include_binary: bool
    date: str = ""
    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class ListedFile:
    """`place` is its path in the vault, `path` the one below the root."""

    place: str
    path: str
    entry: IndexEntry

    @property
    def state(self) -> str:
        """A text that changes with the file."""
        return f"{self.entry.mtime_ns:x}-{self.entry.size:x}-{self.entry.inode:x}"


async def list_files(
    index: VaultIndex, query: ListingQuery, sees: Callable[[str], bool]
) -> list[ListedFile]:
    """The files that `sees` allows, by path. Other work goes on between folders."""
    files, is_wanted = list[ListedFile](), _wanted(query)
    cut = len(query.root) + 1 if query.root else 0
    for folder in sorted(index.below(query.root)):
        prefix = f"{folder}/" if folder else ""
        for name, entry in sorted(index.entries(folder).items()):
            place = prefix + name
            path = place[cut:]
            if (
                is_wanted(name)
                and query.date in path
                and (not query.since_ns or _changed_ns(entry) >= query.since_ns)
                and not _ELSEWHERE.search(path)
                and sees(place)
            ):
                files.append(ListedFile(place, path, entry))
        await asyncio.sleep(0)
    return files


def _changed_ns(entry: IndexEntry) -> int:
    """A file that was read in the moment of its change counts as changed until the next scan."""
    return max(entry.mtime_ns, entry.ctime_ns or time.time_ns())


def _wanted(query: ListingQuery) -> Callable[[str], bool]:
    """What fnmatch makes of a pattern never steps back over a star."""
    is_meant = re.compile(fnmatch.translate(query.pattern)).match
    if not query.include_binary:
        return lambda name: is_meant(name) is not None
    return lambda name: is_meant(name) is not None or name.lower().endswith(BINARY_SUFFIXES)
