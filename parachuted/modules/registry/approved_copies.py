"""The approved bytes of modules, in the home, out of reach of modules and sync. They are what runs.

A copy is made from the very bytes that were digested, is kept only if the digest is the expected
one, and is read again, whole, before anything of it runs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from parachuted.modules.registry.module_tree import (
    FileSink,
    ModuleTree,
    TreeRefusedError,
    read_tree,
)

_FOLDER = "modules"
_UNFINISHED = ".new-"
_SHORT = 12


class ApprovedCopies:
    """The copies of one home: `<home>/modules/<name>/<first 12 of the digest>/`."""

    def __init__(self, home: Path) -> None:
        self.root = home / _FOLDER

    def folder(self, name: str) -> Path:
        """Where all that is kept of that module is."""
        return self.root / name

    def place(self, name: str, digest: str) -> Path:
        """Where the copy with that digest is, or would be."""
        return self.folder(name) / digest.removeprefix("sha256:")[:_SHORT]

    def read(self, name: str, digest: str, sink: FileSink | None = None) -> ModuleTree:
        """Read the copy again.

        Raises TreeRefusedError when it is not, to the last bit, what was approved.
        """
        tree = read_tree(self.place(name, digest), root=self.root, sink=sink)
        if tree.digest != digest:
            raise TreeRefusedError(
                f"the approved copy of {name} is damaged; approve the module again"
            )
        return tree

    @contextlib.contextmanager
    def taking(
        self, name: str, folder: Path, *, root: Path, ignored: Collection[str] = ()
    ) -> Iterator[UnplacedCopy]:
        """Read the folder into an unfinished copy, which is gone again afterwards unless it was
        kept.
        """
        self._make_folder(name)
        unfinished = self.folder(name) / f"{_UNFINISHED}{secrets.token_hex(8)}"
        unfinished.mkdir(mode=0o700)
        try:
            with opened_folder(unfinished) as descriptor:
                tree = read_tree(
                    folder,
                    root=root,
                    sink=WritingSink(descriptor, is_read_only=True),
                    ignored=ignored,
                )
            yield UnplacedCopy(self, name, unfinished, tree)
        finally:
            remove_tree(unfinished)

    def prune(self, name: str, keep: Collection[str]) -> None:
        """Remove all that is kept of a module but those names of copies and environments.

        What cannot be removed stays.
        """
        with contextlib.suppress(FileNotFoundError):
            for folder in sorted(self.folder(name).iterdir()):
                if folder.name not in keep:
                    remove_tree(folder)
            if not keep:
                self.folder(name).rmdir()

    def _make_folder(self, name: str) -> None:
        for folder in (self.root, self.folder(name)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise TreeRefusedError(f"{folder} is a link or no folder; nothing was approved")


class UnplacedCopy:
    """A copy that has no place yet."""

    def __init__(self, copies: ApprovedCopies, name: str, folder: Path, tree: ModuleTree) -> None:
        self._copies, self._name = copies, name
        self.folder, self.tree = folder, tree

    def keep(self) -> Path:
        """Give it its place; a copy that is there already, sound, stays."""
        place = self._copies.place(self._name, self.tree.digest)
        with contextlib.suppress(TreeRefusedError):
            self._copies.read(self._name, self.tree.digest)
            return place
        remove_tree(place)
        for path, _folders, files in os.walk(self.folder, topdown=False):
            for one in (*(Path(path, name) for name in files), Path(path)):
                _sync(one)
            if Path(path) != self.folder:
                Path(path).chmod(0o555)
        self.folder.rename(place)
        place.chmod(0o555)
        _sync(place.parent)
        self._copies.read(self._name, self.tree.digest)
        return place


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder of the home's, read-only or not; a link is removed, not followed."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
            return
        for path, folders, _files in os.walk(folder):
            Path(path).chmod(0o700)
            for name in folders:
                if not Path(path, name).is_symlink():
                    Path(path, name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


class WritingSink:
    """A sink that writes what it is given below a folder that is open.

    It follows no link that somebody puts there meanwhile.
    """

    def __init__(self, descriptor: int, *, is_read_only: bool = False) -> None:
        self._folder, self._mask = descriptor, 0o555 if is_read_only else 0o755

    @contextlib.contextmanager
    def file(self, path: str, mode: int) -> Iterator[Callable[[bytes], object]]:
        """Write one file."""
        *folders, name = path.split("/")
        with _entered(self._folder, folders) as folder:
            descriptor = os.open(
                name,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=folder,
            )
            with os.fdopen(descriptor, "wb") as file:
                yield file.write
                os.fchmod(file.fileno(), mode & self._mask)


@contextlib.contextmanager
def opened_folder(path: str | Path, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder that is no link, at its path or by its name within an open one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _entered(folder: int, names: Sequence[str]) -> Iterator[int]:
    """The folder at those names below the open one, made where it is not there."""
    if not names:
        yield folder
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(names[0], 0o755, dir_fd=folder)
    with opened_folder(names[0], folder) as inner, _entered(inner, names[1:]) as last:
        yield last
