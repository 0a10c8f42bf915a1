"""Outside folders: read-only copies of granted folders beside the vault.

No dot-files are copied (keys and settings are there), nor links, nor folders of the system and of
secrets.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.access.own_folders import OwnFolders
from parachuted.access.paths import is_hidden
from parachuted.agents.sandbox.archive import ArchiveWriter, LeftOut, ReadRefusedError
from parachuted.home_files.private import is_in, real_path
from parachuted.vault import IgnoreRules, begins_with_dot, printable

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 60
_MOST_FILES = 5_000
_MOST_BYTES = 64 << 20
_LARGEST = 8 << 20
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
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
        for name, data in _files_in(real, left_out):
            if files >= _MOST_FILES or size >= _MOST_BYTES:
                limits = f"{_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB"
                left_out.why[""] = f"more than {limits}; the rest is left out"
                break
            into.add(f"{number}/{name}", data)
            files, size = files + 1, size + len(data)
        for below, why in left_out.why.items():
            copies.left_out.append((printable(os.path.normpath(f"{real}/{below}")), why))
        copies.copied.append((path, str(number)))
        if own is None or not own.hold_real(real):
            copies.strange.append(path)
    return copies


def _place(path: str, user_home: Path, never: tuple[Path, ...]) -> Path:
    """Where the path leads. Raises ReadRefusedError for what is not copied."""
    text = path.removesuffix("/**").rstrip("/") or "/"
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        raise ReadRefusedError("it is not there")
    place = user_home / text[1:].lstrip("/") if text.startswith("~") else Path(text)
    try:
        real = place.resolve(strict=True)
    except (OSError, RuntimeError):
        raise ReadRefusedError("it is not there") from None
    if any(begins_with_dot(part) for part in real.parts):
        raise ReadRefusedError("what begins with a dot is not shown to agents")
    shut = [real_path(path) for path in (*never, user_home)]
    if any(is_in(path, real) for path in shut) or any(is_in(real, path) for path in shut[:-1]):
        raise ReadRefusedError(
            "it holds what agents are not shown as a whole; name a folder within"
        )
    if real == Path("/") or any(is_in(real, Path(path)) for path in _MACHINES):
        raise ReadRefusedError("it belongs to the machine")
    return real


def _files_in(real: Path, left_out: LeftOut) -> Iterator[tuple[str, bytes]]:
    try:
        folder = os.open(real, _FOLDER)
    except NotADirectoryError:
        yield from _file(real.name, str(real), None, left_out)
    except OSError as error:
        left_out.why[""] = f"it cannot be listed: {error.strerror}"
    else:
        yield from _files_below(folder, "", left_out)


def _files_below(folder: int, below: str, left_out: LeftOut) -> Iterator[tuple[str, bytes]]:
    """Each is opened from the one that holds it: no link is followed, also one swapped in."""
    try:
        rules, folders = IgnoreRules(), []
        with os.scandir(folder) as listed:
            entries = [each for each in listed if not is_hidden(each.name)]
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif not rules.file(below.rstrip("/"), entry.name):
                yield from _file(f"{below}{entry.name}", entry.name, folder, left_out)
        if folders and below.count("/") >= _DEEPEST:
            why = f"what is more than {_DEEPEST} folders deep is left out"
            left_out.why[below.rstrip("/")] = why
            return
        for name in folders:
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError as error:
                left_out.why[f"{below}{name}"] = f"it cannot be listed: {error.strerror}"
            else:
                yield from _files_below(inner, f"{below}{name}/", left_out)
    finally:
        os.close(folder)


def _file(
    path: str, name: str, folder: int | None, left_out: LeftOut
) -> Iterator[tuple[str, bytes]]:
    try:
        yield path, _read(name, folder)
    except FileNotFoundError:
        return  # it went meanwhile
    except ReadRefusedError as error:
        left_out.why[path] = error.message
    except OSError as error:
        left_out.why[path] = f"it cannot be read: {error.strerror}"


def _read(name: str, folder: int | None) -> bytes:
    """Raises ReadRefusedError and OSError."""
    _check_kind(os.stat(name, dir_fd=folder, follow_symlinks=False))
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        _check_kind(status)
        if status.st_nlink > 1:
            raise ReadRefusedError("a file with several names (hard links)")
        data = b"" if status.st_size > _LARGEST else file.read(_LARGEST + 1)
        if status.st_size > _LARGEST or len(data) > _LARGEST:
            raise ReadRefusedError(f"larger than {_LARGEST >> 20} MB")
        return data


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ReadRefusedError(f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}")
