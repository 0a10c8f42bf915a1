"""Scan findings: what the scan of one file found, and how a note is read so that no change is
missed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from parachuted.vault.declared_origin import declared_origin
from parachuted.vault.frontmatter import BOM, NoteProblem, declared_watch
from parachuted.vault.index import IndexEntry
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.root import let_go

NOTE_SUFFIXES = (".md", ".markdown")
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 18
_KEPT_BYTES = 8 << 20
_MATTER = (b"---", BOM)
_TICK_NS = 20_000_000


class PathDifference(NamedTuple):
    """One path where the disk and the index differ.

    (A tuple, for a first scan makes one for every file.)

    `data` is what was read, unless there was too much of it; `watch` what its frontmatter declares,
    `problems` what is wrong with that; `origin` what it says of where its text came from.
    """

    path: VaultPath
    old: IndexEntry | None
    new: IndexEntry | None
    data: bytes | None = None
    watch: tuple[str, ...] = ()
    problems: tuple[NoteProblem, ...] = ()
    origin: object = None


@dataclass(slots=True, kw_only=True)
class ScanFindings:
    """What one look at the disk found. `unsettled` paths are still being written: look again."""

    seen: list[PathDifference] = field(default_factory=list)
    unsettled: set[str] = field(default_factory=set)
    new_folders: list[str] = field(default_factory=list)
    gone_folders: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    kept_bytes: int = 0


def compare(
    scan: ScanFindings,
    path: VaultPath,
    folder: int,
    status: os.stat_result,
    old: IndexEntry | None,
    *,
    settle_ns: int,
) -> None:
    """Read a regular file whose status differs from what is known of it, and add what it is now to
    `scan`.

    `settle_ns`: how long it must have been left alone, in nanoseconds; 0: its writer is known to
    have finished.
    """
    if old is not None and old.has_status(status):
        return
    if abs(time.time_ns() - status.st_mtime_ns) < settle_ns:
        scan.unsettled.add(path)
        return
    if not path.endswith(NOTE_SUFFIXES):
        scan.seen.append(PathDifference(path, old, IndexEntry.of(status, None)))
        return
    try:
        read = _read(
            path, folder, status, keep=_KEPT_BYTES - scan.kept_bytes, finished=not settle_ns
        )
    except OSError as error:
        if error.errno not in GONE:
            scan.problems[printable(path)] = os.strerror(error.errno or errno.EIO)
        return
    if read is None:
        scan.unsettled.add(path)
        return
    entry, first, data = read
    if first.startswith(_MATTER):
        watch, problems = declared_watch(first)
        scan.seen.append(
            PathDifference(path, old, entry, data, watch, problems, declared_origin(first))
        )
    else:
        scan.seen.append(PathDifference(path, old, entry, data))
    if data is not None:
        scan.kept_bytes += len(data)


def _read(
    path: VaultPath, folder: int, status: os.stat_result, *, keep: int, finished: bool
) -> tuple[IndexEntry, bytes, bytes | None] | None:
    """Read a note: its entry, its beginning, and all of it when it fits into `keep` bytes.

    None when it is being written.

    `status` is from before the reading, so that whatever is written meanwhile is a difference at
    the next look.
    """
    descriptor = os.open(path.name, _FILE, dir_fd=folder)
    try:
        first = data = os.read(descriptor, min(status.st_size, _CHUNK) + 1)
        digest, size = sha256(first), len(first)
        if size < status.st_size:
            parts = [first]
            while size < status.st_size and (part := os.read(descriptor, _CHUNK)):
                digest.update(part)
                size += len(part)
                if size <= keep:
                    parts.append(part)
            data = b"".join(parts)
        now = os.fstat(descriptor)
    finally:
        let_go(descriptor)
    if not stat.S_ISREG(now.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    if now.st_mtime_ns != status.st_mtime_ns and not finished:
        return None
    ctime_ns = status.st_ctime_ns
    if time.time_ns() - ctime_ns < _TICK_NS:
        ctime_ns = (
            0  # a second write in the same tick of the clock would not show: to be looked at again
        )
    entry = IndexEntry(
        status.st_mtime_ns, ctime_ns, status.st_size, status.st_ino, digest.hexdigest()
    )
    return entry, first, data if size <= keep else None
