"""Scanner: compares the disk with the index and reports what differs.

It reads; it never changes the index or the vault.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable

from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.index import VaultIndex
from parachuted.vault.paths import VaultPath, name_refusal, printable, refusal
from parachuted.vault.root import VaultRoot
from parachuted.vault.scan_findings import GONE, PathDifference, ScanFindings, compare
from parachuted.vault.walk import VaultWalk


class Scanner:
    """Looks at single paths or walks folders.

    `settle_s`: how long a file must have been left alone to be read unasked, in seconds.
    """

    def __init__(
        self, root: VaultRoot, index: VaultIndex, ignore: IgnoreRules, *, settle_s: float = 0.15
    ) -> None:
        self._root = root
        self._index = index
        self._settle_ns = int(settle_s * 1e9)
        self.ignore = ignore

    @property
    def ignore(self) -> IgnoreRules:
        """What is not looked at.

        Files that are known already are held against new rules by the next walk over everything.
        """
        return self._ignore

    @ignore.setter
    def ignore(self, ignore: IgnoreRules) -> None:
        self._ignore = ignore
        self._has_new_rules = True

    def walk(
        self,
        folder: str = "",
        *,
        enter: Callable[[str], None] = lambda _folder: None,
        finished: bool = False,
    ) -> ScanFindings:
        """Compare a folder and all below it.

        `enter` is called for each folder before it is listed (to watch it first).

        `finished`: take also what was written just now as it is.

        A folder that cannot be listed is a problem, and nothing below it is taken as gone. OSError
        when the vault itself cannot be.
        """
        scan = ScanFindings()
        VaultWalk(
            root=self._root,
            index=self._index,
            ignore=self._ignore,
            scan=scan,
            enter=enter,
            settle_ns=0 if finished else self._settle_ns,
            is_strict=self._has_new_rules,
        ).below(folder)
        self._has_new_rules = self._has_new_rules and bool(folder)
        return scan

    def look(self, paths: Iterable[str], *, finished: bool) -> ScanFindings:
        """Compare single paths; `finished`: their writers are known to have closed them.

        Names of folders are walked by the caller.

        OSError when the vault itself cannot be read.
        """
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
        """Whether a file of that path is ignored, by its own name or a folder's on the way."""
        folder, _, name = path.rpartition("/")
        return self.ignore.file(folder, name) or self.ignored_folder(folder)

    def ignored_folder(self, path: str) -> bool:
        """Whether that folder, or one it is in, is ignored."""
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
            if error.errno not in GONE:
                scan.problems[printable(path)] = os.strerror(error.errno or errno.EIO)
                return
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
