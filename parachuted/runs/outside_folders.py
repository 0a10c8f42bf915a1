"""Outside folders: read-only copies of granted folders beside the vault.

No dot-files are copied (keys and settings are there), nor links, nor folders of the system and of
secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.access.own_folders import OwnFolders, outside_path, root_above
from parachuted.access.paths import is_hidden
from parachuted.agents.sandbox.archive import ArchiveWriter, LeftOut, ReadRefusedError
from parachuted.errors import NotFoundError, ParachuteError, PathRefusedError
from parachuted.home_files.private import is_in, real_path
from parachuted.vault import IgnoreRules, VaultPath, VaultRoot, begins_with_dot, printable

_MOST_FILES = 5_000
_DEEPEST = 60
_MOST_BYTES = 64 << 20
_LARGEST = 8 << 20
_MACHINES = ("/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc", "/root/.ssh")


@dataclass(slots=True, kw_only=True)
class OutsideCopies:
    """`copied`: what was asked for, with its copy's name; `strange`: those not the person's own."""

    copied: list[tuple[str, str]] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def copy_outside(
    asked: tuple[str, ...],
    into: ArchiveWriter,
    *,
    user_home: Path,
    never: tuple[Path, ...],
    own: OwnFolders | None = None,
) -> OutsideCopies:
    """Each to `<number>` in the archive; none of `never`, nor what holds one. OSError."""
    copies, files, size = OutsideCopies(), 0, 0
    for number, path in enumerate(asked, start=1):
        left_out = LeftOut()
        try:
            real = _place(path, user_home, never)
        except ReadRefusedError as error:
            copies.left_out.append((printable(path), error.message))
            continue
        for name, data in _files_in(root_above(real, user_home), real, left_out):
            if files >= _MOST_FILES or size >= _MOST_BYTES:
                limits = f"{_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB"
                left_out.why[""] = f"more than {limits}; the rest is left out"
                break
            into.add(f"{number}/{name}", data)
            files, size = files + 1, size + len(data)
        for below, why in left_out.why.items():
            copies.left_out.append((printable(str(real / below)), why))
        copies.copied.append((path, str(number)))
        if own is None or not own.hold(real):
            copies.strange.append(path)
    return copies


def _place(path: str, user_home: Path, never: tuple[Path, ...]) -> Path:
    """Where the path leads. Raises ReadRefusedError for what is not copied."""
    try:
        real = Path(outside_path(path.removesuffix("**"), user_home)).resolve(strict=True)
    except (PathRefusedError, OSError, RuntimeError):
        raise ReadRefusedError("it is not there") from None
    if any(map(begins_with_dot, real.parts)):
        raise ReadRefusedError("what begins with a dot is not shown to agents")
    shut = [real_path(path) for path in (*never, user_home)]
    if any(is_in(path, real) for path in shut) or any(is_in(real, path) for path in shut[:-1]):
        raise ReadRefusedError("it holds what agents are not shown; name a folder within")
    if real == Path("/") or any(is_in(real, Path(path)) for path in _MACHINES):
        raise ReadRefusedError("it belongs to the machine")
    return real


def _files_in(root: VaultRoot, real: Path, left_out: LeftOut) -> Iterator[tuple[str, bytes]]:
    start = VaultPath(real.relative_to(root.folder))
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(root.opened_folder(start))
        except NotADirectoryError:
            paths = iter([start])
        except OSError as error:
            left_out.why[""] = f"it cannot be listed: {error.strerror}"
            return
        else:
            paths = (VaultPath(f"{start}/{below}") for below in _paths_below(folder, left_out))
        for path, found in root.read_each(paths, _LARGEST):
            below = path.removeprefix(f"{start}/") if path != start else start.name
            if isinstance(found, NotFoundError):
                continue  # it went meanwhile
            if isinstance(found, ParachuteError):
                left_out.why[below] = found.message
            elif found.status.st_nlink > 1:
                left_out.why[below] = "a file with several names (hard links)"
            else:
                yield below, found.data


def _paths_below(folder: int, left_out: LeftOut) -> Iterator[str]:
    rules = IgnoreRules()

    def refused(error: OSError) -> None:
        left_out.why[str(error.filename)] = f"it cannot be listed: {error.strerror}"

    for at, folders, files, _opened in os.fwalk(".", dir_fd=folder, onerror=refused):
        below = at.removeprefix(".").removeprefix("/")
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        if folders and below.count("/") >= _DEEPEST:
            left_out.why[below] = f"what is more than {_DEEPEST} folders deep is left out"
            folders.clear()
        for name in sorted(files):
            if not is_hidden(name) and not rules.file(below, name):
                yield f"{below}/{name}" if below else name
