"""The files of a module, their digest, and the private copies that are shown, approved and run: a
folder of the vault may change while it is read, so nothing is decided by it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from parachuted.errors import UnfitError
from parachuted.texts.visible import visible
from parachuted.vault import fold_name

_LIMITS = 10_000, 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTree:
    """A folder, the paths of its files, their size in bytes, and their digest `sha256:...`."""

    folder: Path
    files: tuple[str, ...]
    size: int
    digest: str


def read_tree(
    folder: Path, *, ignored: Collection[str] = (), limits: tuple[int, int] = _LIMITS
) -> ModuleTree:
    """Read every file, links not followed. Of a file's mode it counts whether it may be run, which
    is all that survives a clone. Raises UnfitError for what is not a plain file, cannot be read, or
    exceeds `limits`: how many files and folders, and how many bytes.
    """
    files = sorted(_files(folder, ignored, limits), key=lambda file: file[0].encode())
    lines, size = ["parachute-tree-1\n"], 0
    for path, mode in files:
        with _opened(folder, path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size += file.tell()
            # no path holds a line break, so no two lists spell the same
            lines.append(f"{mode:o} {file.tell()} {digest} {path}\n")
    whole = hashlib.sha256("".join(lines).encode()).hexdigest()
    paths = tuple(path for path, _mode in files)
    return ModuleTree(folder=folder, files=paths, size=size, digest=f"sha256:{whole}")


def copy_tree(
    source: Path, target: Path, *, ignored: Collection[str] = (), is_read_only: bool = False
) -> None:
    """Copy what `read_tree` reads. Raises UnfitError for the source, OSError for the copy."""
    for path, mode in _files(source, ignored, _LIMITS):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with _opened(source, path) as file, place.open("xb") as out:
            shutil.copyfileobj(file, out)
        place.chmod(mode & 0o555 if is_read_only else mode)


def _files(
    folder: Path, ignored: Collection[str], limits: tuple[int, int]
) -> Iterator[tuple[str, int]]:
    if real_folder(folder) != folder:
        raise UnfitError(f"{folder} cannot be read: it is a link, or behind one")
    most, most_bytes = limits
    count = size = 0
    for at, folders, plain in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if name not in ignored]
        names = [*folders, *(name for name in plain if name not in ignored)]
        if len(set(map(fold_name, names))) < len(names):
            raise UnfitError(f"{at}: two names are one file to some systems; rename one of them")
        for name in names:
            path = Path(at, name).relative_to(folder).as_posix()
            status = _checked(folder, path)
            count, size = count + 1, size + status.st_size
            if count > most or size > most_bytes:
                raise UnfitError(
                    f"{folder.name} holds more than {most:,} files and folders, or more than "
                    f"{most_bytes / 1e6:g} MB"
                )
            if not stat.S_ISDIR(status.st_mode):
                yield path, 0o755 if status.st_mode & 0o111 else 0o644


def real_folder(folder: Path) -> Path:
    """Where it is without links; they may be changed meanwhile. Raises UnfitError."""
    try:
        return Path(os.path.realpath(folder, strict=True))
    except FileNotFoundError as error:
        raise UnfitError(f"there is no folder {folder}") from error
    except OSError as error:
        raise UnfitError(f"{folder} cannot be read: {error.strerror}") from error


def _refuse(error: OSError) -> None:
    raise UnfitError(f"{error.filename} cannot be read: {error.strerror}") from error


def _checked(folder: Path, path: str) -> os.stat_result:
    if visible(path) != path:
        raise UnfitError(f"{path!a} has a name with invisible characters, or not in UTF-8")
    try:
        status = (folder / path).lstat()
    except OSError as error:
        raise UnfitError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise UnfitError(f"{path} is a link, or no plain file; put the file itself there")
    return status


@contextlib.contextmanager
def _opened(folder: Path, path: str) -> Iterator[BufferedReader]:
    """A file that was plain just now: no link, and no pipe to wait for."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(folder / path, flags), "rb") as file:
            yield file
    except OSError as error:
        raise UnfitError(f"{path} cannot be read: {error.strerror}") from error


def folder_mark(folder: Path, ignored: Collection[str] = ()) -> int:
    """What changes whenever the folder does; 0: there is none. Approval never relies on it."""
    found: list[tuple[str | int, ...]] = []
    with contextlib.suppress(OSError):  # it is being changed: the next look sees another mark
        found.append(("", folder.lstat().st_ino))
        for path, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if name not in ignored]
            for name in (*folders, *(name for name in files if name not in ignored)):
                at = os.lstat(f"{path}/{name}")
                # a folder's times tell of its names alone, of which some are ignored
                is_folder = stat.S_ISDIR(at.st_mode)
                more = () if is_folder else (at.st_size, at.st_mtime_ns, at.st_ctime_ns)
                found.append((f"{path}/{name}", at.st_mode, at.st_ino, *more))
    return hash(tuple(sorted(found))) if found else 0


class ApprovedCopies:
    """`<home>/modules/<name>/<first 12 of the digest>/`."""

    def __init__(self, home: Path) -> None:
        self._root = home.resolve() / "modules"

    def folder(self, name: str) -> Path:
        return self._root / name

    def place(self, name: str, digest: str) -> Path:
        return self.folder(name) / digest.removeprefix("sha256:")[:12]

    def read(self, name: str, digest: str) -> ModuleTree:
        """Raises UnfitError when it is not what was approved."""
        tree = read_tree(self.place(name, digest))
        if tree.digest != digest:
            raise UnfitError(f"the approved copy of {name} is damaged; approve the module again")
        return tree

    @contextlib.contextmanager
    def copied(
        self, name: str, folder: Path, ignored: Collection[str] = ()
    ) -> Iterator[ModuleTree]:
        """An unfinished copy of the folder, which is gone afterwards unless it was kept."""
        unfinished = self.folder(name) / f".new-{secrets.token_hex(8)}"
        for part in (self._root, self.folder(name), unfinished):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            copy_tree(folder, unfinished, ignored=ignored, is_read_only=True)
            yield read_tree(unfinished)
        finally:
            remove_tree(unfinished)
            with contextlib.suppress(OSError):  # something else is kept there
                self.folder(name).rmdir()

    def keep(self, name: str, copy: ModuleTree) -> None:
        """Give a copy its place, durably; one that is there already, sound, stays."""
        with contextlib.suppress(UnfitError):
            self.read(name, copy.digest)
            return
        place, unfinished = self.place(name, copy.digest), copy.folder
        remove_tree(place)
        for path, _folders, files in os.walk(unfinished, topdown=False):
            for file in (*files, ""):
                _sync(Path(path, file))
            if Path(path) != unfinished:  # a folder that cannot be written cannot be renamed
                Path(path).chmod(0o555)
        unfinished.rename(place)
        place.chmod(0o555)
        _sync(place.parent)

    def prune(self, name: str, keep: Collection[str]) -> None:
        """Remove all of a module but those names; what cannot be removed stays."""
        with contextlib.suppress(FileNotFoundError):
            for folder in self.folder(name).iterdir():
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
    """A folder of the home's, read-only or not; a link is removed, not followed."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
            return
        for path, _folders, _files in os.walk(folder):
            Path(path).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
