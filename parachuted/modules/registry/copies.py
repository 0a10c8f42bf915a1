"""The files of a module, their digest, and the private copies that are shown, approved and run: a
folder of the vault may change while it is read, so nothing is decided by it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from parachuted.errors import UnfitError
from parachuted.texts.visible import visible

_LIMITS = 10_000, 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTree:
    """A folder, its files' modes by their paths, their size in bytes, and their digest
    `sha256:...`. Of a mode it counts whether the file may be run, which is all that survives a
    clone.
    """

    folder: Path
    files: Mapping[str, int]
    size: int
    digest: str


def read_tree(
    folder: Path, *, ignored: Collection[str] = (), limits: tuple[int, int] = _LIMITS
) -> ModuleTree:
    """Read every file. Raises UnfitError for what is not a plain file, cannot be read, or exceeds
    `limits`: how many files and folders, and how many bytes.
    """
    lines, files, size = ["parachute-tree-1\n"], dict[str, int](), 0
    try:
        if Path(os.path.realpath(folder, strict=True)) != folder:
            raise UnfitError(f"{folder} cannot be read: it is a link, or behind one")
        found = list(islice(_walk(folder, ignored), limits[0] + 1))
        if len(found) > limits[0] or sum(at.st_size for _path, at in found) > limits[1]:
            raise UnfitError(
                f"{folder.name} holds more than {limits[0]:,} files and folders, or more than "
                f"{limits[1] / 1e6:g} MB"
            )
        for path, at in found:
            # no path holds a line break, so no two lists spell the same
            if visible(path) != path:
                raise UnfitError(f"{path!a} has a name with invisible characters, or not in UTF-8")
            if stat.S_ISREG(at.st_mode):
                files[path] = 0o755 if at.st_mode & 0o111 else 0o644
            elif not stat.S_ISDIR(at.st_mode):
                raise UnfitError(f"{path} is a link, or no plain file; put the file itself there")
        for path in sorted(files, key=str.encode):
            with (folder / path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size += file.tell()
                lines.append(f"{files[path]:o} {file.tell()} {digest} {path}\n")
    except OSError as error:
        if not os.path.lexists(folder):
            raise UnfitError(f"there is no folder {folder}") from error
        raise UnfitError(f"{error.filename} cannot be read: {error.strerror}") from error
    whole = hashlib.sha256("".join(lines).encode()).hexdigest()
    return ModuleTree(folder=folder, files=files, size=size, digest=f"sha256:{whole}")


def copy_tree(source: Path, target: Path, *, ignored: Collection[str] = ()) -> None:
    """Copy what `read_tree` reads. Raises UnfitError for the source, OSError for the copy."""
    for path, mode in read_tree(source, ignored=ignored).files.items():
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, place)
        place.chmod(mode)


def _walk(folder: Path, ignored: Collection[str]) -> Iterator[tuple[str, os.stat_result]]:
    """All that is below it, links not followed. Raises OSError."""

    def refuse(error: OSError) -> None:
        raise error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if name not in ignored]
        for name in (*folders, *(name for name in files if name not in ignored)):
            place = Path(parent, name)
            yield place.relative_to(folder).as_posix(), place.lstat()


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
        parent = self.folder(name)
        parent.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(
                prefix=".new-", dir=parent, ignore_cleanup_errors=True
            ) as unfinished:
                copy_tree(folder, Path(unfinished), ignored=ignored)
                yield read_tree(Path(unfinished))
        finally:
            with contextlib.suppress(OSError):  # something else is kept there
                parent.rmdir()

    def keep(self, name: str, copy: ModuleTree) -> None:
        """Give a copy its place; one that is there already, sound, stays. No one may write it."""
        with contextlib.suppress(UnfitError):
            self.read(name, copy.digest)
            return
        place = self.place(name, copy.digest)
        remove_tree(place)
        copy.folder.rename(place)
        for path, at in [*_walk(place, ())]:
            (place / path).chmod(0o555 if stat.S_ISDIR(at.st_mode) else at.st_mode & 0o555)
        place.chmod(0o555)

    def prune(self, name: str, keep: Collection[str]) -> None:
        """Remove all of a module but those names; what cannot be removed stays."""
        with contextlib.suppress(FileNotFoundError):
            for folder in self.folder(name).iterdir():
                if folder.name not in keep:
                    remove_tree(folder)
            if not keep:
                self.folder(name).rmdir()


def remove_tree(folder: Path) -> None:
    """A folder of the home's, read-only or not; a link is removed, not followed."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    for path, _folders, _files in os.walk(folder):
        Path(path).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
