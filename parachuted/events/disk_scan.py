"""Disk scan: what one turn of the change detector reads, and whether hints still come."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.events.watcher import FileWatcher
from parachuted.home_files.private import replace_private
from parachuted.home_files.vault_state import CONTROL_FOLDER, ID_FILE
from parachuted.vault import (
    IGNORE_FILE,
    IgnoreRules,
    PathDifference,
    ScanFindings,
    Scanner,
    VaultPath,
    VaultRoot,
)
from parachuted.vault.swap import born_ns

MOUNTS = Path("/proc/self/mountinfo")
_TYPES = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|drvfs|fakeowner|gfs2|glusterfs|lustre|ncpfs|nfs4?|ocfs2|prl_fs|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
    r"|fuse\.(?:davfs2?|gcsfuse|glusterfs|grpcfuse|osxfs|rclone|s3fs|smbnetfs|sshfs|vmhgfs-fuse)"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_mount(folder: Path) -> str | None:
    """The type of the network file system of the folder, or of one in it; None: none is known."""
    try:
        table = MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    return network_type(os.fspath(folder), table)


def network_type(folder: str, table: str) -> str | None:
    """From /proc/self/mountinfo (proc(5)); of two mounts on one folder the later one counts."""
    below, holding = f"{folder.rstrip('/')}/", ("", "")
    mounts = dict(filter(None, map(_mount, table.splitlines())))
    for place, kind in mounts.items():
        if below.startswith(f"{place.rstrip('/')}/"):
            holding = max(holding, (place, kind), key=lambda found: len(found[0]))
        elif place.startswith(below) and _TYPES.fullmatch(kind):
            return kind
    return holding[1] if _TYPES.fullmatch(holding[1]) else None


def _mount(line: str) -> tuple[str, str] | None:
    before, mark, after = line.partition(" - ")
    fields = before.split(" ")
    if not mark or len(fields) < 5:  # noqa: PLR2004  the mount point is the fifth
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]), after.split(" ")[0]


CANARY = f"{CONTROL_FOLDER}/{ID_FILE}"
_OPEN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Canary:
    """`is_silent`: the last touch was not reported. Times are the event loop's, in seconds."""

    def __init__(
        self, root: VaultRoot, watcher: FileWatcher, *, every_s: float, patience_s: float
    ) -> None:
        self._root, self._watcher = root, watcher
        self._every_s, self._patience_s = every_s, patience_s
        self._folder: tuple[int, int] | None = None
        self._next = 0.0
        self._touched: float | None = None
        self.is_silent = False

    def is_due(self, now: float) -> bool:
        """Also notes whether the last touch went unreported."""
        if self._touched is not None and now - self._touched > self._patience_s:
            self.is_silent, self._touched = True, None
        return self._touched is None and now >= self._next

    def touch(self, now: float) -> None:
        """If that fails, no report is expected. Blocks on the disk."""
        self._next = now + self._every_s
        try:
            self._touched = now
            self._touch()
        except OSError:
            self._touched = None

    def hears(self, path: str) -> bool:
        """Whether the path is the canary's, which counts as its report."""
        if path != CANARY:
            return False
        self._touched, self.is_silent = None, False
        return True

    def _touch(self) -> None:
        with self._root.opened_folder(CONTROL_FOLDER) as folder:
            at = os.fstat(folder)
            # only then: a watch that was lost is to be found out
            if self._folder != (at.st_dev, at.st_ino):
                self._watcher.enter(CONTROL_FOLDER)
                self._folder = (at.st_dev, at.st_ino)
            descriptor = os.open(ID_FILE, _OPEN, dir_fd=folder)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise OSError(None, "not a regular file")
                os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
            finally:
                os.close(descriptor)


_WATCHES_USED_UP = {errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_IGNORE_BYTES = 1 << 20

FileIdentity = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class ScanRequest:
    """`closed`: known files to read at once; `finished`, `unfinished`: debounced long enough.

    `final`: what is missing is gone, without a second scan; `accept_missing`: even most of the
    vault; `first`: the walk at the start.
    """

    closed: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    everything: bool = False
    final: bool = False
    first: bool = False
    accept_missing: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.closed or self.finished or self.unfinished or self.folders or self.everything
        )

    def paths(self) -> set[str]:
        return self.closed | self.finished | self.unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """`ignored`: the missing ones that are now ignored; `vault`: which folder it was."""

    scan: ScanFindings
    ignored: frozenset[str]
    vault: FileIdentity


class DiskScan:
    """Runs the scanner, and has each folder watched before it is walked."""

    def __init__(
        self,
        root: VaultRoot,
        scanner: Scanner,
        watcher: FileWatcher,
        ignore_copy: Path | None = None,
    ) -> None:
        """`ignore_copy` is where the ignore rules are kept for a time when they are unreadable."""
        self._root, self._scanner, self._watcher = root, scanner, watcher
        self._ignore_copy = ignore_copy
        self.is_unwatched = False
        self.network: str | None = None
        self.entered: set[str] = set()

    def look(
        self, turn: ScanRequest, vault: FileIdentity | None, missing: Sequence[str]
    ) -> ScanResult:
        """When a file is new, also look for the `missing` ones, one of which it may be.

        `vault` is the folder that the index stands for. OSError when the vault is not there, or is
        another one and not all is looked at.
        """
        identity = self.identity()
        if identity is None or (identity != vault and not turn.everything):
            raise OSError(errno.ESTALE, "the vault is not there, or another folder is in its place")
        scans = self._scans(turn)
        if missing and any(seen.old is None for scan in scans for seen in scan.seen):
            gone = [
                seen
                for seen in self._scanner.look(missing, finished=False).seen
                if seen.new is None
            ]
            scans.insert(0, ScanFindings(seen=gone))
        if self.identity() != identity:
            raise OSError(errno.ESTALE, "the vault was moved while it was looked at")
        scan = _joined(scans)
        ignored = (
            seen.path for seen in scan.seen if seen.new is None and self._scanner.ignored(seen.path)
        )
        return ScanResult(
            scan=scan, ignored=frozenset(ignored if turn.everything else ()), vault=identity
        )

    def canary(self, *, every_s: float, patience_s: float) -> Canary:
        return Canary(self._root, self._watcher, every_s=every_s, patience_s=patience_s)

    def is_same(self, came: PathDifference, left: PathDifference) -> bool:
        """Not another file with its inode: it was born before that one was last changed."""
        try:
            with self._root.opened_folder(came.path.folder) as folder:
                born = born_ns(folder, came.path.name)
        except OSError:
            return False
        return born is None or left.old is None or born <= max(left.old.mtime_ns, left.old.ctime_ns)

    def identity(self) -> FileIdentity | None:
        """Which folder the vault is now; None: it does not exist."""
        try:
            status = self._root.folder.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def reload_ignore(self) -> str | None:
        """Returns what is wrong with the rules."""
        self._scanner.ignore = load_ignore(self._root, self.ignore, self._ignore_copy)
        return self.ignore.problem

    @property
    def ignore(self) -> IgnoreRules:
        return self._scanner.ignore

    def _scans(self, turn: ScanRequest) -> list[ScanFindings]:
        self.entered = set()
        if turn.everything:
            return self._walk_over_everything(turn)
        scans = [
            self._scanner.look(turn.closed | turn.finished, finished=True),
            self._scanner.look(turn.unfinished, finished=False),
        ]
        folders = sorted(
            folder for folder in turn.folders if not self._scanner.ignored_folder(folder)
        )
        return scans + [
            self._scanner.walk(folder, enter=self._enter, finished=turn.final) for folder in folders
        ]

    def _walk_over_everything(self, turn: ScanRequest) -> list[ScanFindings]:
        """Files that seem half-written, though their writers finished, are scanned again."""
        self.is_unwatched, self.network = False, network_mount(self._root.folder)
        scan = self._scanner.walk(enter=self._enter, finished=turn.first)
        finished = scan.unsettled & (turn.closed | turn.finished)
        scan.unsettled -= finished
        return [scan, self._scanner.look(finished, finished=True)]

    def _enter(self, folder: str) -> None:
        self.entered.add(folder)
        try:
            self._watcher.enter(folder)
        except OSError as error:
            if error.errno not in _WATCHES_USED_UP:
                raise
            self.is_unwatched = True


def load_ignore(
    root: VaultRoot, earlier: IgnoreRules | None = None, copy: Path | None = None
) -> IgnoreRules:
    """While they cannot be read, the earlier ones hold, so that nothing ignored comes to light."""
    try:
        with root.opened_file(VaultPath(IGNORE_FILE)) as descriptor:
            data = os.read(descriptor, _IGNORE_BYTES + 1)
    except FileNotFoundError:
        if copy is not None:
            copy.unlink(missing_ok=True)
        return IgnoreRules()
    except OSError as error:
        if earlier is None and copy is not None and copy.exists():
            earlier = _ignore_rules(copy.read_bytes())
        rules = earlier or IgnoreRules()
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
        rules.problem, rules.is_stale = f"{IGNORE_FILE} is not applied as it is now: {reason}", True
        return rules
    rules = _ignore_rules(data)
    if copy is not None and not (copy.exists() and copy.read_bytes() == data):
        try:
            replace_private(copy, data)
        except OSError as error:
            rules.problem = rules.problem or f"{IGNORE_FILE} was not copied: {error.strerror}"
    return rules


def _ignore_rules(data: bytes) -> IgnoreRules:
    whole = data if len(data) <= _IGNORE_BYTES else data[: data.rfind(b"\n") + 1]
    rules = IgnoreRules(whole.decode("utf-8", "surrogateescape"))
    if len(whole) < len(data):
        rules.problem = f"{IGNORE_FILE} is not applied after its first megabyte"
    return rules


def _joined(scans: list[ScanFindings]) -> ScanFindings:
    """A path seen twice counts as seen last; one that is being written is not missing."""
    joined = ScanFindings()
    seen: dict[str, PathDifference] = {}
    for scan in scans:
        seen.update({item.path: item for item in scan.seen})
        joined.unsettled |= scan.unsettled
        joined.new_folders += scan.new_folders
        joined.gone_folders += scan.gone_folders
        joined.problems.update(scan.problems)
    joined.seen = [
        item for item in seen.values() if item.new is not None or item.path not in joined.unsettled
    ]
    return joined
