"""Listing: the files below a folder that a device may have, with their digests."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

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
        found = self._known.get(path)
        return (
            found[1]
            if found is not None and found[0] == (entry.mtime_ns, entry.size, entry.inode)
            else None
        )

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
    ".wav",
    ".mp3",
    ".m4a",
    ".ogg",
    ".opus",
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".webp",
    ".pdf",
)
_FOLDERS_A_TURN = 64
_ELSEWHERE = re.compile(r"[\\\ud800-\udfff]|^[A-Za-z]:")


class VisibleFiles(Protocol):
    """Which files exist for a caller. Equal ones see the same."""

    def sees(self, path: str) -> bool: ...

    def enters(self, folder: str) -> bool: ...


class ListingRow(NamedTuple):
    """`hash` is a digest, or changes with the file; `modified` in Unix seconds."""

    path: str
    hash: str
    size: int
    modified: float
    changed_ns: int


@dataclass(slots=True, kw_only=True)
class FolderListing:
    """The rows of one folder at one version of it; `encoded`: as they are sent."""

    version: int
    rows: Sequence[ListingRow]
    newest_ns: int
    encoded: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingQuery:
    """`pattern` is fnmatch's, for names; `whose` tells apart callers who see other files.

    `quick`: digests of files that are not notes are not needed.
    """

    root: str
    pattern: str
    include_binary: bool
    quick: bool
    whose: Hashable


@dataclass(slots=True)
class ListingView:
    """`known` gives the digest of a file that is not a note, if it was ever read."""

    index: VaultIndex
    asked: ListingQuery
    access: VisibleFiles
    known: Callable[[str, IndexEntry], str | None]
    encoded: bytes | None = None
    _parts: dict[str, FolderListing] = field(default_factory=dict)
    _version: int = -1

    async def refresh(self, read: Mapping[str, str] | None = None) -> list[str]:
        """Returns files whose digests are missing; `read` is what was found by reading them.

        Files that could not be read are then listed by what else changes with them.
        """
        version, missing, fresh = self.index.version, list[str](), dict[str, FolderListing]()
        if version == self._version:
            return missing
        made = 0
        for folder in sorted(self.index.below(self.asked.root)):
            part = self._parts.get(folder)
            if part is None or part.version != self.index.version_of(folder):
                if not self.access.enters(folder):
                    continue
                part = self._part(folder, missing, read)
                made += 1
                if made % _FOLDERS_A_TURN == 0:
                    await asyncio.sleep(0)
            fresh[folder] = part
        is_whole = all(part.version >= 0 for part in fresh.values())
        self._parts, self._version, self.encoded = fresh, version if is_whole else -1, None
        return missing

    def parts(self, *, since_ns: int = 0) -> list[FolderListing]:
        return [part for part in self._parts.values() if part.rows and part.newest_ns >= since_ns]

    def _part(
        self, folder: str, missing: list[str], read: Mapping[str, str] | None
    ) -> FolderListing:
        version, is_sure = self.index.version_of(folder), True
        prefix = f"{folder}/" if folder else ""
        cut = len(self.asked.root) + 1 if self.asked.root else 0
        wanted, sees, rows = _wanted(self.asked), self.access.sees, list[ListingRow]()
        before = self._parts.get(folder)
        known = {row.path: row for row in before.rows} if before is not None else {}
        for name, entry in sorted(self.index.entries(folder).items()):
            path = prefix + name
            if not wanted(name) or _ELSEWHERE.search(path[cut:]) or not sees(path):
                continue
            digest = entry.digest or (None if self.asked.quick else self.known(path, entry))
            if digest is None and not self.asked.quick:
                is_sure = False
                if read is None:
                    missing.append(path)
                else:
                    digest = read.get(path)
            rows.append(_row(path[cut:], entry, digest, known.get(path[cut:])))
        newest = max((row.changed_ns for row in rows), default=0)
        return FolderListing(version=version if is_sure else -1, rows=rows, newest_ns=newest)


def _row(path: str, entry: IndexEntry, digest: str | None, before: ListingRow | None) -> ListingRow:
    """One that was read in the moment of its change changed when it was first listed so."""
    mark, modified = (
        digest or f"{entry.mtime_ns:x}-{entry.size:x}-{entry.inode:x}",
        entry.mtime_ns / 1e9,
    )
    changed_ns = entry.ctime_ns
    if not changed_ns:
        is_same = before is not None and before[:4] == (path, mark, entry.size, modified)
        changed_ns = before.changed_ns if before is not None and is_same else time.time_ns()
    return ListingRow(path, mark, entry.size, modified, max(entry.mtime_ns, changed_ns))


def _wanted(asked: ListingQuery) -> Callable[[str], bool]:
    """What fnmatch makes of a pattern never steps back over a star."""
    is_meant = re.compile(fnmatch.translate(asked.pattern)).match
    if not asked.include_binary:
        return lambda name: is_meant(name) is not None
    return lambda name: is_meant(name) is not None or name.lower().endswith(BINARY_SUFFIXES)
