"""The files of a module, their digest, and the private copies of them that run.

A folder of the vault may change while it is read, so nothing is decided by it: it is copied into
the home first, and what is shown, approved and run is the copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from parachuted.errors import ParachuteError
from parachuted.vault import fold_name
from parachuted.visible import visible

SIGNATURE = "SIGNATURE"
_LONGEST_SIGNATURE = 200
_DEEPEST, _LONGEST = 24, 1_000
_MOST_MARKED, _CHUNK = 20_000, 1 << 20
_UNFINISHED = ".new-"
_SHORT = 12


class TreeRefusedError(ParachuteError):
    """The folder holds what cannot be part of a module."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """How much a folder may hold."""

    names: int = 10_000
    size: int = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """One file. `mode` is 0o755 or 0o644: whether it may be run is all that survives a clone."""

    path: str
    mode: int
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTree:
    """The files, sorted by path, and their digest `sha256:...`.

    `kept`: the bytes of those that were asked for. `signature`: the text of the file SIGNATURE,
    which is not part of what it signs.
    """

    files: tuple[TreeFile, ...]
    digest: str
    signature: str | None = None
    kept: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def read_tree(
    folder: Path,
    *,
    ignored: Collection[str] = (),
    limits: TreeLimits | None = None,
    keep: Callable[[str], bool] = lambda _path: False,
) -> ModuleTree:
    """Read every file of the folder, links not followed; names that are `ignored` count nowhere.

    Raises TreeRefusedError for what is not a plain file, cannot be read, or is too much.
    """
    files, kept, signature = list[TreeFile](), dict[str, bytes](), None
    for path, mode in _files(folder, ignored, limits or TreeLimits()):
        with _opened(folder, path) as file:
            if path == SIGNATURE:
                signature = file.read(_LONGEST_SIGNATURE).decode("ascii", "replace").strip()
                continue
            digest, size, pieces = hashlib.sha256(), 0, list[bytes]()
            while piece := file.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
                pieces += [piece] if keep(path) else []
            files.append(TreeFile(path=path, mode=mode, digest=digest.hexdigest(), size=size))
            if keep(path):
                kept[path] = b"".join(pieces)
    files.sort(key=lambda file: file.path.encode())
    # no path holds a line break, so no two lists spell the same
    lines = [f"{file.mode:o} {file.size} {file.digest} {file.path}\n" for file in files]
    text = "".join(["parachute-tree-1\n", *lines])
    whole = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return ModuleTree(files=tuple(files), digest=whole, signature=signature, kept=kept)


def copy_tree(
    source: Path, target: Path, *, ignored: Collection[str] = (), is_read_only: bool = False
) -> None:
    """Copy what `read_tree` reads. Raises TreeRefusedError for the source, OSError for the copy."""
    for path, mode in _files(source, ignored, TreeLimits()):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with _opened(source, path) as file, place.open("xb") as out:
            shutil.copyfileobj(file, out)
        place.chmod(mode & 0o555 if is_read_only else mode)


def _files(folder: Path, ignored: Collection[str], limits: TreeLimits) -> Iterator[tuple[str, int]]:
    """The path and the mode of each file. Raises TreeRefusedError."""
    if not folder.exists():
        raise TreeRefusedError(f"there is no folder {folder}")
    if folder.resolve() != folder:
        raise TreeRefusedError(f"{folder} cannot be read: it is a link, or behind one")
    waiting, names, size = [""], 0, 0
    while waiting:
        below, folded = waiting.pop(), set[str]()
        for name, at in _listed(folder, below, ignored):
            path, names = f"{below}{name}", names + 1
            _check_name(path)
            if fold_name(name) in folded:
                raise TreeRefusedError(
                    f"{path} and another name are one file to some systems; rename one of them"
                )
            folded.add(fold_name(name))
            if stat.S_ISDIR(at.st_mode):
                waiting.append(f"{path}/")
                continue
            _check_plain(path, at)
            size += at.st_size
            if names > limits.names or size > limits.size:
                raise TreeRefusedError(
                    f"{folder.name} holds more than {limits.names:,} files and folders, or more "
                    f"than {limits.size / 1e6:g} MB"
                )
            yield path, 0o755 if at.st_mode & 0o111 else 0o644


def _listed(folder: Path, below: str, ignored: Collection[str]) -> list[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder / below) as entries:
            return [
                (entry.name, entry.stat(follow_symlinks=False))
                for entry in entries
                if entry.name not in ignored
            ]
    except OSError as error:
        raise TreeRefusedError(
            f"{below or folder.name} cannot be read: {error.strerror}"
        ) from error


def _check_name(path: str) -> None:
    if visible(path) != path:
        raise TreeRefusedError(f"{path!a} has a name with invisible characters, or not in UTF-8")
    if len(path) > _LONGEST or path.count("/") > _DEEPEST:
        raise TreeRefusedError(f"{path[:80]}… is too long a path, or more than 24 folders deep")


def _check_plain(path: str, at: os.stat_result) -> None:
    if stat.S_ISLNK(at.st_mode):
        raise TreeRefusedError(f"{path} is a link; put the file itself there")
    if not stat.S_ISREG(at.st_mode):
        raise TreeRefusedError(f"{path} is not a plain file")
    if at.st_nlink > 1:
        raise TreeRefusedError(f"{path} is a hard link: the same file has another name elsewhere")


@contextlib.contextmanager
def _opened(folder: Path, path: str) -> Iterator[BufferedReader]:
    """A file that was plain just now: no link, and no pipe to wait for."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(folder / path, flags), "rb") as file:
            yield file
    except OSError as error:
        raise TreeRefusedError(f"{path} cannot be read: {error.strerror}") from error


def folder_mark(folder: Path, ignored: Collection[str] = ()) -> int:
    """What changes whenever the folder does, links not followed; 0: there is none.

    One stat a file. It proves nothing: approval never relies on it.
    """
    found: list[tuple[str | int, ...]] = []
    try:
        at = folder.lstat()
        found.append(("", at.st_mode, at.st_ino))
        for path, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if name not in ignored]
            names = [*folders, *(name for name in files if name not in ignored)]
            found += [(f"{path}/{name}", *_mark(os.lstat(f"{path}/{name}"))) for name in names]
            if len(found) > _MOST_MARKED:
                break
    except OSError:  # it is being changed: the next look sees another mark
        return hash(tuple(found)) if found else 0
    return hash(tuple(sorted(found))) or 1


def _mark(at: os.stat_result) -> tuple[int, ...]:
    """A folder's times and size tell of its names alone, of which some are ignored."""
    if stat.S_ISDIR(at.st_mode):
        return at.st_mode, at.st_ino
    return at.st_mode, at.st_size, at.st_ino, at.st_mtime_ns, at.st_ctime_ns


class ApprovedCopies:
    """The copies of one home: `<home>/modules/<name>/<first 12 of the digest>/`."""

    def __init__(self, home: Path) -> None:
        self._root = home.resolve() / "modules"

    def folder(self, name: str) -> Path:
        return self._root / name

    def place(self, name: str, digest: str) -> Path:
        return self.folder(name) / digest.removeprefix("sha256:")[:_SHORT]

    def read(
        self, name: str, digest: str, keep: Callable[[str], bool] = lambda _path: False
    ) -> ModuleTree:
        """Read the copy again. Raises TreeRefusedError when it is not what was approved."""
        tree = read_tree(self.place(name, digest), keep=keep)
        if tree.digest != digest:
            raise TreeRefusedError(
                f"the approved copy of {name} is damaged; approve the module again"
            )
        return tree

    @contextlib.contextmanager
    def copied(self, name: str, folder: Path, ignored: Collection[str] = ()) -> Iterator[Path]:
        """An unfinished copy of the folder, which is gone afterwards unless it was kept."""
        unfinished = self.folder(name) / f"{_UNFINISHED}{secrets.token_hex(8)}"
        for part in (self._root, self.folder(name), unfinished):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            copy_tree(folder, unfinished, ignored=ignored, is_read_only=True)
            yield unfinished
        finally:
            remove_tree(unfinished)
            with contextlib.suppress(OSError):  # something else is kept there
                self.folder(name).rmdir()

    def keep(self, name: str, unfinished: Path, digest: str) -> None:
        """Give a copy its place, durably; one that is there already, sound, stays."""
        with contextlib.suppress(TreeRefusedError):
            self.read(name, digest)
            return
        place = self.place(name, digest)
        remove_tree(place)
        for path, _folders, files in os.walk(unfinished, topdown=False):
            for inner in (*(Path(path, file) for file in files), Path(path)):
                _sync(inner)
            if Path(path) != unfinished:
                Path(path).chmod(0o555)
        unfinished.rename(place)
        place.chmod(0o555)
        _sync(place.parent)
        self.read(name, digest)

    def prune(self, name: str, keep: Collection[str]) -> None:
        """Remove all of a module but those names; what cannot be removed stays."""
        with contextlib.suppress(FileNotFoundError):
            for folder in sorted(self.folder(name).iterdir()):
                if folder.name not in keep:
                    remove_tree(folder)
            if not keep:
                self.folder(name).rmdir()


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
        for path, _folders, _files in os.walk(folder):
            Path(path).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
