"""Walk: compares a folder and all below it with the index."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping

from parachuted.errors import PathRefusedError
from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.index import IndexEntry, VaultIndex
from parachuted.vault.paths import MOST_FOLDERS, VaultPath, name_refusal, printable
from parachuted.vault.root import VaultRoot, let_go
from parachuted.vault.scan_findings import GONE, PathDifference, ScanFindings, compare, is_as_known

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class VaultWalk:
    """One walk; folders are opened by descriptor, each from the one it is in, so that no swapped
    link leads outside.
    """

    def __init__(
        self,
        *,
        root: VaultRoot,
        index: VaultIndex,
        ignore: IgnoreRules,
        scan: ScanFindings,
        enter: Callable[[str], None],
        settle_ns: int,
        is_strict: bool,
    ) -> None:
        """What is found goes into `scan`.

        `is_strict`: the rules of `ignore` are new, so files that are known are held against them
        too.
        """
        self._root, self._index, self._ignore, self._scan, self._enter = (
            root,
            index,
            ignore,
            scan,
            enter,
        )
        self._settle_ns, self._is_strict = settle_ns, is_strict

    def below(self, folder: str) -> None:
        """Compare a folder of the vault. OSError when the vault itself cannot be read."""
        try:
            with self._root.opened_folder(folder) as descriptor:
                self._folder(folder, descriptor, folder.count("/"))
        except OSError as error:
            if not folder or error.errno == errno.ESTALE:
                raise
            self._folder_failed(folder, error)

    def _folder(self, folder: str, descriptor: int, depth: int) -> None:
        """Compare the open folder and all below it. OSError when it cannot be listed."""
        index = self._index
        self._enter(folder)
        known = index.entries(folder)
        if folder not in index:
            self._scan.new_folders.append(folder)
        prefix = f"{folder}/" if folder else ""
        children, here = self._files(folder, prefix, known, descriptor)
        if len(here) < len(known):
            self._scan.seen += [
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
        """Compare the files directly in a folder.

        Names of the folders in it, and of the known files that are still there.
        """
        children, here = [], set()
        is_strict, ignore = self._is_strict, self._ignore
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if not self._ignore.folder(folder, name):
                            children.append(name)
                        continue
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    if self._is_still_there(prefix + name, error) and name in known:
                        here.add(name)
                    continue
                old = known.get(name)
                if (
                    old is not None
                    and is_as_known(old, status)
                    and not (is_strict and ignore.file(folder, name))
                ) or (
                    self._file(folder, prefix, name, descriptor, status, old) and old is not None
                ):
                    here.add(name)
        return children, here

    def _is_still_there(self, path: str, error: OSError) -> bool:
        if error.errno in GONE:
            return False
        self._scan.problems[printable(path)] = os.strerror(error.errno or errno.EIO)
        return True

    def _file(
        self,
        folder: str,
        prefix: str,
        name: str,
        descriptor: int,
        status: os.stat_result,
        old: IndexEntry | None,
    ) -> bool:
        """Compare one file; False when there is no file of ours under that name."""
        if self._ignore.file(folder, name):
            return False
        path = prefix + name
        problem = self._problem(path, name, status.st_mode)
        if problem is not None:
            self._scan.problems[printable(path)] = problem
        elif stat.S_ISREG(status.st_mode):
            compare(self._scan, VaultPath(path), descriptor, status, old, settle_ns=self._settle_ns)
            return True
        return False

    def _problem(self, path: str, name: str, mode: int) -> str | None:
        """Why a person's file is passed over, where they should know."""
        reason = name_refusal(name)
        if reason is not None:
            return f"cannot be watched: {reason}"
        if stat.S_ISLNK(mode):
            return self._link_problem(path)
        return None if stat.S_ISREG(mode) else "not a regular file; it is passed over"

    def _child(self, path: str, name: str, descriptor: int, depth: int) -> None:
        if depth > MOST_FOLDERS or name_refusal(name) is not None:
            self._scan.problems[printable(path)] = (
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
        """A folder that cannot be listed is gone, or it is a problem."""
        if error.errno in GONE:
            self._folder_is_gone(folder)
        else:
            self._scan.problems[printable(folder)] = (
                f"the folder cannot be read: {os.strerror(error.errno or errno.EIO)}"
            )

    def _folder_is_gone(self, folder: str) -> None:
        for place in self._index.below(folder):
            self._scan.gone_folders.append(place)
            known = self._index.entries(place)
            self._scan.seen += [
                PathDifference(path=VaultPath(f"{place}/{name}"), old=entry, new=None)
                for name, entry in known.items()
            ]

    def _link_problem(self, path: str) -> str | None:
        """What is wrong with a link; None when it leads to something in the vault, which is seen
        there.
        """
        try:
            target = self._root.resolve(VaultPath(path))
        except PathRefusedError:
            return "a link that leaves the vault; it is passed over"
        return (
            None
            if (self._root.folder / target).exists()
            else "a link that leads nowhere; it is passed over"
        )
