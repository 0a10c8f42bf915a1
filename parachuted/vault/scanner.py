"""Scanner: compares the disk with the index and reports what differs; it changes neither."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from parachuted.errors import PathRefusedError
from parachuted.vault.bounded_yaml import NoteProblem
from parachuted.vault.frontmatter import BOM, declared_watch
from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.index import IndexEntry, VaultIndex
from parachuted.vault.paths import MOST_FOLDERS, VaultPath, name_refusal, printable, refusal
from parachuted.vault.root import VaultRoot, let_go

NOTE_SUFFIXES = (".md", ".markdown")
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 18
_KEPT_BYTES = 8 << 20
_MATTER = (b"---", BOM)
_TICK_NS = 20_000_000


class PathDifference(NamedTuple):
    """A tuple, since a first scan makes one for every file. `data`: unless there was too much."""

    path: VaultPath
    old: IndexEntry | None
    new: IndexEntry | None
    data: bytes | None = None
    watch: tuple[str, ...] = ()
    problems: tuple[NoteProblem, ...] = ()


@dataclass(slots=True, kw_only=True)
class ScanFindings:
    """`unsettled` paths are still being written: look again."""

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
    """`settle_ns`: how long the file must have been left alone; 0: its writer has finished."""
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
        _is_still_there(scan, path, error)
        return
    if read is None:
        scan.unsettled.add(path)
        return
    entry, first, data = read
    if first.startswith(_MATTER):
        watch, problems = declared_watch(first)
        scan.seen.append(PathDifference(path, old, entry, data, watch, problems))
    else:
        scan.seen.append(PathDifference(path, old, entry, data))
    if data is not None:
        scan.kept_bytes += len(data)


def _is_still_there(scan: ScanFindings, path: str, error: OSError) -> bool:
    if error.errno in GONE:
        return False
    scan.problems[printable(path)] = os.strerror(error.errno or errno.EIO)
    return True


def _read(
    path: VaultPath, folder: int, status: os.stat_result, *, keep: int, finished: bool
) -> tuple[IndexEntry, bytes, bytes | None] | None:
    """The entry, the beginning, and all if it fits into `keep` bytes; None: it is being written.

    `status` is from before, so that what is written meanwhile is a difference at the next look.
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


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultWalk:
    """Folders are opened by descriptor, each from its parent, so no swapped link leads outside.

    `is_strict`: the rules of `ignore` are new, so files that are known are held against them too.
    """

    root: VaultRoot
    index: VaultIndex
    ignore: IgnoreRules
    scan: ScanFindings
    enter: Callable[[str], None]
    settle_ns: int
    is_strict: bool

    def below(self, folder: str) -> None:
        """OSError when the vault itself cannot be read."""
        try:
            with self.root.opened_folder(folder) as descriptor:
                self._folder(folder, descriptor, folder.count("/"))
        except OSError as error:
            if not folder or error.errno == errno.ESTALE:
                raise
            self._folder_failed(folder, error)

    def _folder(self, folder: str, descriptor: int, depth: int) -> None:
        index = self.index
        self.enter(folder)
        known = index.entries(folder)
        if folder not in index:
            self.scan.new_folders.append(folder)
        prefix = f"{folder}/" if folder else ""
        children, here = self._files(folder, prefix, known, descriptor)
        if len(here) < len(known):
            self.scan.seen += [
                PathDifference(path=VaultPath(prefix + name), old=known[name], new=None)
                for name in known.keys() - here
            ]
        for name in set(index.folders(folder)).difference(children):
            self._folder_is_gone(prefix + name)
        for name in children:
            self._child(prefix + name, name, descriptor, depth + 1)

    def _files(
        self, folder: str, prefix: str, known: Mapping[str, IndexEntry], descriptor: int
    ) -> tuple[list[str], set[str]]:
        """The names of its folders, and of the known files that are still there."""
        children, here = [], set()
        is_strict, ignore = self.is_strict, self.ignore
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if not self.ignore.folder(folder, name):
                            children.append(name)
                        continue
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    if _is_still_there(self.scan, prefix + name, error) and name in known:
                        here.add(name)
                    continue
                old = known.get(name)
                if (
                    old is not None
                    and old.has_status(status)
                    and not (is_strict and ignore.file(folder, name))
                ) or (
                    self._file(folder, prefix, name, descriptor, status, old) and old is not None
                ):
                    here.add(name)
        return children, here

    def _file(
        self,
        folder: str,
        prefix: str,
        name: str,
        descriptor: int,
        status: os.stat_result,
        old: IndexEntry | None,
    ) -> bool:
        """False when no file of ours has that name."""
        if self.ignore.file(folder, name):
            return False
        path = prefix + name
        problem = self._problem(path, name, status.st_mode)
        if problem is not None:
            self.scan.problems[printable(path)] = problem
        elif stat.S_ISREG(status.st_mode):
            compare(self.scan, VaultPath(path), descriptor, status, old, settle_ns=self.settle_ns)
            return True
        return False

    def _problem(self, path: str, name: str, mode: int) -> str | None:
        reason = name_refusal(name)
        if reason is not None:
            return f"cannot be watched: {reason}"
        if stat.S_ISLNK(mode):
            return self._link_problem(path)
        return None if stat.S_ISREG(mode) else "not a regular file; it is passed over"

    def _child(self, path: str, name: str, descriptor: int, depth: int) -> None:
        if depth > MOST_FOLDERS or name_refusal(name) is not None:
            self.scan.problems[printable(path)] = (
                "too deep, or no name for a folder of notes; nothing in it is watched"
            )
            return
        try:
            child = os.open(name, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            self._folder_failed(path, error)
            return
        try:
            self._folder(path, child, depth)
        except OSError as error:
            self._folder_failed(path, error)
        finally:
            let_go(child)

    def _folder_failed(self, folder: str, error: OSError) -> None:
        if error.errno in GONE:
            self._folder_is_gone(folder)
        else:
            self.scan.problems[printable(folder)] = (
                f"the folder cannot be read: {os.strerror(error.errno or errno.EIO)}"
            )

    def _folder_is_gone(self, folder: str) -> None:
        for place in self.index.below(folder):
            self.scan.gone_folders.append(place)
            known = self.index.entries(place)
            self.scan.seen += [
                PathDifference(path=VaultPath(f"{place}/{name}"), old=entry, new=None)
                for name, entry in known.items()
            ]

    def _link_problem(self, path: str) -> str | None:
        """None when it leads to something in the vault, which is seen there."""
        try:
            target = self.root.resolve(VaultPath(path))
        except PathRefusedError:
            return "a link that leaves the vault; it is passed over"
        return (
            None
            if (self.root.folder / target).exists()
            else "a link that leads nowhere; it is passed over"
        )


class Scanner:
    """`settle_s`: how long a file must have been left alone to be read unasked."""

    def __init__(
        self, root: VaultRoot, index: VaultIndex, ignore: IgnoreRules, *, settle_s: float = 0.15
    ) -> None:
        self._root = root
        self._index = index
        self._settle_ns = int(settle_s * 1e9)
        self.ignore = ignore

    @property
    def ignore(self) -> IgnoreRules:
        """Known files are held against new rules by the next walk over everything."""
        return self._root.ignore

    @ignore.setter
    def ignore(self, ignore: IgnoreRules) -> None:
        self._root.ignore = ignore
        self._has_new_rules = True

    def walk(
        self,
        folder: str = "",
        *,
        enter: Callable[[str], None] = lambda _folder: None,
        finished: bool = False,
    ) -> ScanFindings:
        """Compare a folder and all below; `finished`: also what was written just now.

        `enter` is called for each folder before it is listed (to watch it first). Nothing below a
        folder that cannot be listed is taken as gone. OSError when the vault itself cannot be.
        """
        scan = ScanFindings()
        VaultWalk(
            root=self._root,
            index=self._index,
            ignore=self.ignore,
            scan=scan,
            enter=enter,
            settle_ns=0 if finished else self._settle_ns,
            is_strict=self._has_new_rules,
        ).below(folder)
        self._has_new_rules = self._has_new_rules and bool(folder)
        return scan

    def look(self, paths: Iterable[str], *, finished: bool) -> ScanFindings:
        """Compare single paths; `finished`: they are known to be closed. OSError as with `walk`."""
        scan = ScanFindings()
        folders: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(name)
        for folder, names in folders.items():
            if (not folder or refusal(folder) is None) and not self.ignored_folder(folder):
                wanted = [
                    name
                    for name in names
                    if name and name_refusal(name) is None and not self.ignore.file(folder, name)
                ]
                self._look(VaultPath(folder), wanted, scan, finished=finished)
        return scan

    def ignored(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return self.ignore.file(folder, name) or self.ignored_folder(folder)

    def ignored_folder(self, path: str) -> bool:
        while path:
            path, _, name = path.rpartition("/")
            if self.ignore.folder(path, name):
                return True
        return False

    def _look(
        self, folder: VaultPath, names: list[str], scan: ScanFindings, *, finished: bool
    ) -> None:
        try:
            with self._root.opened_folder(folder) as descriptor:
                for name in names:
                    self._look_at(folder, name, descriptor, scan, finished=finished)
        except OSError as error:
            if error.errno == errno.ESTALE:
                raise
            if error.errno not in GONE:
                scan.problems[printable(folder)] = f"the folder cannot be read: {error.strerror}"
                return
            for name in names:
                self._is_gone(folder, name, scan)

    def _look_at(
        self, folder: VaultPath, name: str, descriptor: int, scan: ScanFindings, *, finished: bool
    ) -> None:
        path = f"{folder}/{name}" if folder else name
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError as error:
            if not _is_still_there(scan, path, error):
                self._is_gone(folder, name, scan)
            return
        if stat.S_ISREG(status.st_mode):
            compare(
                scan,
                VaultPath(path),
                descriptor,
                status,
                self._index.get(path),
                settle_ns=0 if finished else self._settle_ns,
            )
        else:
            self._is_gone(folder, name, scan)

    def _is_gone(self, folder: str, name: str, scan: ScanFindings) -> None:
        old = self._index.entries(folder).get(name)
        if old is not None:
            scan.seen.append(
                PathDifference(
                    path=VaultPath(f"{folder}/{name}" if folder else name), old=old, new=None
                )
            )
