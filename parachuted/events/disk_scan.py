"""Disk scan: scans the disk for one turn of the change detector.

It blocks, and runs in one thread; others only hand it turns.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from parachuted.events.canary import Canary
from parachuted.events.network_mounts import network_mount
from parachuted.events.watcher import FileWatcher
from parachuted.vault import (
    IGNORE_FILE,
    IgnoreRules,
    PathDifference,
    ScanFindings,
    Scanner,
    VaultPath,
    VaultRoot,
)
from parachuted.vault.rename import born_ns

_WATCHES_USED_UP = {errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_IGNORE_BYTES = 1 << 20

FileIdentity = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class ScanRequest:
    """One turn's work.

    `closed`: known files to read at once; `finished` and `unfinished`: debounced for long enough;
    `final`: what is missing is gone, without a second scan; `first`: the walk at the start;
    `accept_missing`: the same even where it is most of the vault.
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
    """What a turn found; `ignored`: the missing ones that are now ignored; `vault`: which folder it
    was.
    """

    scan: ScanFindings
    ignored: frozenset[str]
    vault: FileIdentity


class DiskScan:
    """Runs the scanner, and has each folder watched before it is walked."""

    def __init__(self, root: VaultRoot, scanner: Scanner, watcher: FileWatcher) -> None:
        self._root, self._scanner, self._watcher = root, scanner, watcher
        self.is_unwatched = False
        self.network: str | None = None
        self.entered: set[str] = set()

    def look(
        self, turn: ScanRequest, vault: FileIdentity | None, missing: Sequence[str]
    ) -> ScanResult:
        """Look at everything that the turn names; and, when a file is new, for the `missing` ones,
        one of which it may be.

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
        """The canary of this vault's watcher."""
        return Canary(self._root, self._watcher, every_s=every_s, patience_s=patience_s)

    def is_same(self, came: PathDifference, left: PathDifference) -> bool:
        """Whether a new file is the removed one and not another with its inode: it was created
        before that one was last changed.
        """
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
        """Load the vault's ignore rules again; returns what is wrong with them."""
        self._scanner.ignore = load_ignore(self._root)
        return self._scanner.ignore.problem

    @property
    def ignore_problem(self) -> str | None:
        """What is wrong with the ignore rules."""
        return self._scanner.ignore.problem

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
        return [*scans, *(self._scanner.walk(folder, enter=self._enter) for folder in folders)]

    def _walk_over_everything(self, turn: ScanRequest) -> list[ScanFindings]:
        """Files that the walk takes for half-written, though their writers finished, are scanned
        again after it.
        """
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


def load_ignore(root: VaultRoot) -> IgnoreRules:
    """The vault's ignore rules; none when there is no such file."""
    try:
        with root.opened_file(VaultPath(IGNORE_FILE)) as descriptor:
            return IgnoreRules(os.read(descriptor, _IGNORE_BYTES).decode("utf-8", "replace"))
    except OSError:
        return IgnoreRules()


def _joined(scans: list[ScanFindings]) -> ScanFindings:
    """Merges scans; a path seen twice counts as it was seen last, and one that is being written is
    not missing.
    """
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
