"""Folder listing: what is in one folder of the vault, as far as it exists for a caller."""

from __future__ import annotations

import contextlib
import os
import stat

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.routes import files_documents as told
from parachuted.errors import NotFoundError, PathRefusedError
from parachuted.times import moment
from parachuted.vault import VaultPath, named_errors, printable, refusal


def list_folder(folder: VaultPath, sight: AccessFilter) -> list[told.FolderEntryResponse]:
    """The entries, folders first.

    Links that leave the vault, or lead to nothing the caller may see, do not exist. Blocks on the
    disk.

    Raises NotFoundError where the folder does not exist for the caller.
    """
    real = _found(folder, sight)
    try:
        with (
            named_errors(folder),
            sight.root.opened_folder(real) as descriptor,
            os.scandir(descriptor) as found,
        ):
            names = sorted(entry.name for entry in found)
            entries = [
                _entry(folder, real, name, descriptor, sight)
                for name in names
                if refusal(f"x/{name}") is None
            ]
    except PathRefusedError as error:
        raise unknown(folder) from error
    return sorted(
        (entry for entry in entries if entry is not None),
        key=lambda entry: not entry["isDirectory"],
    )


def _found(folder: VaultPath, sight: AccessFilter) -> VaultPath:
    """Where the folder is, links followed."""
    if not folder:
        return folder
    if sight.enters(folder):
        with contextlib.suppress(PathRefusedError):
            real = sight.root.resolve(folder)
            if real == folder or sight.enters(real):
                return real
    raise unknown(folder)


def _entry(
    shown: VaultPath, folder: VaultPath, name: str, descriptor: int, sight: AccessFilter
) -> told.FolderEntryResponse | None:
    path = VaultPath(f"{folder}/{name}" if folder else name)
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return None
    target = None
    if stat.S_ISLNK(status.st_mode):
        found = _target(path, sight)
        if found is None:
            return None
        target, status = found
    if stat.S_ISDIR(status.st_mode):
        is_folder = True
    elif stat.S_ISREG(status.st_mode):
        is_folder = False
    else:
        return None
    if not (sight.enters(path) if is_folder else sight.sees(path)):
        return None
    place = printable(f"{shown}/{name}" if shown else name)
    entry: told.FolderEntryResponse = {
        "name": printable(name),
        "type": "symlink" if target is not None else "directory" if is_folder else "file",
        "path": place,
        "relativePath": place,
        "isDirectory": is_folder,
        "isSymlink": target is not None,
        "symlinkTarget": None if target is None else printable(target),
        "hasAgentsMd": False,
        "hasClaudeMd": False,
        "isGitRepo": False,
        "lastModified": moment(status.st_mtime),
        "size": None if is_folder else status.st_size,
    }
    if is_folder:
        _look_inside(entry, path if target is None else target, sight)
    return entry


def _target(path: VaultPath, sight: AccessFilter) -> tuple[VaultPath, os.stat_result] | None:
    """Where a link leads, if that is in the vault and for the caller to see."""
    try:
        target = sight.root.resolve(path)
        with sight.root.opened_folder(target.folder) as folder:
            status = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    except (OSError, PathRefusedError, NotFoundError):
        return None
    is_seen = sight.enters(target) if stat.S_ISDIR(status.st_mode) else sight.sees(target)
    return (target, status) if is_seen else None


def _look_inside(entry: told.FolderEntryResponse, folder: VaultPath, sight: AccessFilter) -> None:
    """Tell what a folder is by a few names in it."""
    with contextlib.suppress(OSError), sight.root.opened_folder(folder) as descriptor:
        entry["isGitRepo"] = _has(descriptor, ".git")
        entry["hasAgentsMd"] = sight.sees(f"{folder}/AGENTS.md") and _has(descriptor, "AGENTS.md")
        entry["hasClaudeMd"] = sight.sees(f"{folder}/CLAUDE.md") and _has(descriptor, "CLAUDE.md")


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
