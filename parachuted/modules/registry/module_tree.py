"""Reads every file of a module's folder once, with one digest over names, modes and bytes.

The folder's owner may change it meanwhile, so nothing is looked up twice: each name is opened once,
without following links, from its folder's descriptor, and a copy is made of the very bytes that
were digested.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from parachuted.errors import ParachuteError
from parachuted.vault import fold_name
from parachuted.visible import is_ignorable

SIGNATURE = "SIGNATURE"
_CHUNK = 1 << 20
_MOST_NAMES, _MOST_BYTES, _DEEPEST, _LONGEST = 10_000, 200_000_000, 24, 1_000
_MOST_MARKED = 20_000
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TreeRefusedError(ParachuteError):
    """The folder holds what cannot be part of a module."""


class TreeMissingError(TreeRefusedError):
    """The folder does not exist."""


class FileSink(Protocol):
    """Who wants the bytes as they are read."""

    def file(self, path: str, mode: int, /) -> AbstractContextManager[Callable[[bytes], object]]:
        """Take one file: what is returned is called with each piece of it."""


class KeepingSink:
    """A sink that keeps the bytes of those files that it is asked for."""

    def __init__(self, wanted: Callable[[str], bool], *, largest: int = _MOST_BYTES) -> None:
        self._wanted, self._largest = wanted, largest
        self.kept: dict[str, bytes] = {}

    @contextlib.contextmanager
    def file(self, path: str, _mode: int) -> Iterator[Callable[[bytes], object]]:
        if not self._wanted(path):
            yield len
            return
        found = bytearray()
        yield lambda piece: found.extend(piece[: self._largest + 1 - len(found)])
        if len(found) <= self._largest:
            self.kept[path] = bytes(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """How much a folder may hold."""

    names: int = _MOST_NAMES
    size: int = _MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """One file.

    `mode` is 0o755 or 0o644: whether it may be run is all that matters of it, and all that survives
    a clone or a sync.
    """

    path: str
    mode: int
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTree:
    """The files, sorted by path, and their digest `sha256:...`."""

    files: tuple[TreeFile, ...]
    digest: str

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def read_tree(
    folder: Path,
    *,
    root: Path | None = None,
    sink: FileSink | None = None,
    ignored: Collection[str] = (),
    limits: TreeLimits | None = None,
) -> ModuleTree:
    """Read every file of the folder.

    Raises TreeRefusedError for what is not a plain file, cannot be read, or is too much.

    `root` is a folder above it that is trusted to be where it is; from there on, no link is
    followed. `ignored` are names, at any depth, that are neither hashed nor given to the sink. A
    file SIGNATURE at the top is not part of what it signs.
    """
    root = folder.parent if root is None else root
    reading = _Reading(sink=sink, ignored=frozenset(ignored), limits=limits or TreeLimits())
    try:
        with _opened(root, folder) as descriptor:
            reading.enter(descriptor, "", 0)
    except OSError as error:
        raise TreeRefusedError(
            f"{folder.name} cannot be read: "
            f"{error.strerror}{f' ({error.filename})' if error.filename else ''}"
        ) from error
    files = tuple(sorted(reading.files, key=lambda file: file.path.encode()))
    return ModuleTree(files=files, digest=tree_digest(files))


def read_one(folder: Path, name: str, *, root: Path | None = None, limit: int) -> bytes | None:
    """One file at the top of the folder, on the same terms; None: there is none.

    Raises TreeRefusedError.
    """
    root = folder.parent if root is None else root
    try:
        with _opened(root, folder) as descriptor, _file(descriptor, name, name) as file:
            return b"".join(_pieces(file, limit, f"{name} is larger than {limit:,} bytes"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TreeRefusedError(f"{name} cannot be read: {error.strerror}") from error


def tree_digest(files: Collection[TreeFile]) -> str:
    """The digest of files that are sorted already.

    No path holds a line break, so no two lists spell the same.
    """
    lines = [f"{file.mode:o} {file.size} {file.digest} {file.path}\n" for file in files]
    text = "".join(["parachute-tree-1\n", *lines])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@contextlib.contextmanager
def _opened(root: Path, folder: Path) -> Iterator[int]:
    """The descriptor of the folder, below the root, of whose names none may be a link.

    Raises TreeMissingError and TreeRefusedError.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folder.relative_to(root).parts:
            try:
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            except FileNotFoundError as error:
                raise TreeMissingError(f"there is no folder {folder}") from error
            except OSError as error:
                raise TreeRefusedError(
                    f"{folder} cannot be read: {name} is a link or no folder ({error.strerror})"
                ) from error
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _file(folder: int, name: str, path: str) -> Iterator[int]:
    """The descriptor of a plain file, of one name, that was not a link when it was opened."""
    descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    try:
        at = os.fstat(descriptor)
        if not stat.S_ISREG(at.st_mode):
            raise TreeRefusedError(f"{path} is not a plain file")
        if at.st_nlink > 1:
            raise TreeRefusedError(
                f"{path} is a hard link: the same file has another name elsewhere"
            )
        if at.st_mode & _SPECIAL:
            raise TreeRefusedError(
                f"{path} has a mode that lends rights (setuid, setgid or sticky)"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _pieces(descriptor: int, limit: int, refusal: str) -> Iterator[bytes]:
    size = 0
    while piece := os.read(descriptor, _CHUNK):
        size += len(piece)
        if size > limit:
            raise TreeRefusedError(refusal)
        yield piece


@contextlib.contextmanager
def _nowhere(_path: str, _mode: int) -> Iterator[Callable[[bytes], object]]:
    yield len


@dataclass(kw_only=True)
class _Reading:
    """One walk. Depth is bounded, so recursion is safe."""

    sink: FileSink | None
    ignored: frozenset[str]
    limits: TreeLimits
    files: list[TreeFile] = field(default_factory=list)
    names: int = 0
    size: int = 0

    def enter(self, descriptor: int, below: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise TreeRefusedError(f"{below} is nested more than {_DEEPEST} folders deep")
        twins: dict[str, str] = {}
        for name in self._listed(descriptor):
            path = f"{below}{name}"
            _check_name(name, path)
            twin = twins.setdefault(fold_name(name), name)
            if twin != name:
                raise TreeRefusedError(
                    f"{path} and {below}{twin} are one file to some systems; rename one of them"
                )
            if path == SIGNATURE:
                continue
            self._take(descriptor, name, path, depth)

    def _listed(self, descriptor: int) -> list[str]:
        found: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.name in self.ignored:
                    continue
                self.names += 1
                if self.names > self.limits.names:
                    raise TreeRefusedError(
                        f"it holds more than {self.limits.names:,} files and folders"
                    )
                found.append(entry.name)
        return sorted(found)

    def _take(self, folder: int, name: str, path: str, depth: int) -> None:
        """Open it as what it seems to be: if that was exchanged meanwhile, the opening fails."""
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind):
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            try:
                self.enter(inner, f"{path}/", depth + 1)
            finally:
                os.close(inner)
        elif stat.S_ISREG(kind):
            with _file(folder, name, path) as file:
                self.files.append(self._read(file, path))
        else:
            raise TreeRefusedError(
                f"{path} is a link; put the file itself there"
                if stat.S_ISLNK(kind)
                else f"{path} is not a plain file"
            )

    def _read(self, descriptor: int, path: str) -> TreeFile:
        mode = 0o755 if os.fstat(descriptor).st_mode & 0o111 else 0o644
        digest, size = hashlib.sha256(), 0
        with (self.sink.file if self.sink else _nowhere)(path, mode) as take:
            for piece in _pieces(
                descriptor,
                self.limits.size - self.size,
                f"it holds more than {self.limits.size / 1e6:g} MB",
            ):
                digest.update(piece)
                size += len(piece)
                take(piece)
        self.size += size
        return TreeFile(path=path, mode=mode, digest=digest.hexdigest(), size=size)


def _check_name(name: str, path: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise TreeRefusedError(f"{path!a} has a name that is not UTF-8") from error
    if not (name.isascii() and name.isprintable()) and any(
        unicodedata.category(letter) in _HIDDEN or is_ignorable(letter) for letter in name
    ):
        raise TreeRefusedError(f"{path!a} has a name with invisible characters")
    if len(path) > _LONGEST:
        raise TreeRefusedError(f"{path[:80]}… is too long a path")


def folder_mark(folder: Path, ignored: Collection[str] = ()) -> int:
    """What changes whenever the folder does, links not followed; 0: there is none.

    One stat a file. It proves nothing: approval never relies on it.
    """
    try:
        at = folder.lstat()
    except OSError:
        return 0
    found: list[tuple[str | int, ...]] = [_mark("", at)]
    waiting = [str(folder)]
    while waiting and len(found) < _MOST_MARKED:
        inner = waiting.pop()
        try:
            with os.scandir(inner) as entries:
                for entry in entries:
                    if entry.name in ignored:
                        continue
                    found.append(_mark(entry.path, entry.stat(follow_symlinks=False)))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            found.append((inner, error.errno or -1))
    return hash(tuple(sorted(found))) or 1


def _mark(path: str, at: os.stat_result) -> tuple[str | int, ...]:
    """A folder's times and size tell of its names, which are looked at themselves, but for those
    that are ignored.
    """
    if stat.S_ISDIR(at.st_mode):
        return path, at.st_mode, at.st_ino
    return path, at.st_mode, at.st_size, at.st_ino, at.st_mtime_ns, at.st_ctime_ns
