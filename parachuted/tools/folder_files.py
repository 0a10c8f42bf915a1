"""The files of a folder, read and written without following a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.access.paths import is_hidden
from parachuted.errors import ParachuteError
from parachuted.vault import IgnoreRules, printable
from parachuted.vault.paths import name_refusal

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 60
_SHOWN = 200
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class ReadRefusedError(ParachuteError):
    """What stands there is no file that can be taken; the message says why."""


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """What is not among the files.

    `odd` are things that are no regular files, cannot be read, or have no name for a note, with
    what they are; `closed` folders of which not all was seen, the empty path for the whole: nothing
    below them is known to be gone; `hidden` how many names that begin with a dot were passed over.
    """

    odd: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    hidden: int = 0

    def is_known(self, path: str) -> bool:
        """Whether a file of that path that was not found is gone: not where something odd stands
        in its place or that of its folder.
        """
        is_seen = not any(not folder or path.startswith(f"{folder}/") for folder in self.closed)
        return is_seen and not any(f"{path}/".startswith(f"{odd}/") for odd in self.odd)


def files_in(
    folder: Path, left_out: LeftOut, *, most: int, largest: int, opens: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Each file below the folder, with its content. A link on the way is not followed, also one
    that is swapped in.

    Of more than `most` names the rest is left out. `opens`: folders that their owner has shut are
    opened.
    """
    ignore, seen = IgnoreRules(), 0
    if opens:
        folder.chmod(stat.S_IRWXU)

    def closed(error: OSError) -> None:
        path = os.path.relpath(os.fsdecode(error.filename or ""), folder)
        left_out.closed["" if path == "." else path] = f"it cannot be listed: {error.strerror}"

    for at, folders, files, descriptor in os.fwalk(folder, onerror=closed):
        within = os.path.relpath(at, folder)
        prefix = "" if within == "." else f"{within}/"
        for name in sorted((*folders, *files)):
            seen += 1
            if seen > most:
                left_out.closed[""] = (
                    f"there are more than {most:,} files, so not all were looked at"
                )
                return
            path, is_entered = f"{prefix}{name}", False
            with suppress(FileNotFoundError):  # it went meanwhile
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                is_taken = _is_taken(path, status, left_out)
                if is_taken and stat.S_ISDIR(status.st_mode):
                    is_entered = True
                    if opens and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                        os.chmod(name, stat.S_IRWXU, dir_fd=descriptor)
                elif is_taken and not ignore.file(prefix.rstrip("/"), name):
                    yield from _content(path, name, descriptor, largest, left_out)
            if name in folders and not is_entered:
                folders.remove(name)


def _content(
    path: str, name: str, folder: int, largest: int, left_out: LeftOut
) -> Iterator[tuple[str, bytes]]:
    try:
        data = read_file(name, largest, dir_fd=folder)
    except FileNotFoundError:
        return
    except (ReadRefusedError, OSError) as error:
        left_out.odd[path] = why_unread(error)
    else:
        yield path, data


def _is_taken(path: str, status: os.stat_result, left_out: LeftOut) -> bool:
    """Whether it is a file, or a folder to enter; else it is noted as left out."""
    name = path.rpartition("/")[2]
    if is_hidden(name):
        left_out.hidden += 1
    elif (refusal := name_refusal(name)) is not None:
        left_out.odd[path] = f"no name for a note: {refusal}"
    elif stat.S_ISREG(status.st_mode):
        return True
    elif not stat.S_ISDIR(status.st_mode):
        left_out.odd[path] = f"it is {_kind(status.st_mode)}"
    elif path.count("/") < _DEEPEST:
        return True
    else:
        left_out.closed[path] = f"it is more than {_DEEPEST} folders deep"
    return False


def read_file(path: str | Path, most: int, *, dir_fd: int | None = None) -> bytes:
    """A regular file's content. Raises ReadRefusedError and OSError."""
    with os.fdopen(os.open(path, _FILE, dir_fd=dir_fd), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ReadRefusedError(_kind(status.st_mode))
        if status.st_nlink > 1:
            raise ReadRefusedError("a file with several names (hard links)")
        data = b"" if status.st_size > most else file.read(most + 1)
        if status.st_size > most or len(data) > most:
            raise ReadRefusedError(f"larger than {most >> 20} MB")
        return data


def why_unread(error: ReadRefusedError | OSError) -> str:
    if isinstance(error, ReadRefusedError):
        return error.message
    return f"it cannot be read: {error.strerror}"


def put_file(folder: Path, path: str, data: bytes, uid: int | None) -> None:
    """Make a new file in a folder that no other program works in yet; `uid`: whose it is to be."""
    place = folder
    for name in path.split("/")[:-1]:
        place = place / name
        if not place.is_dir():
            place.mkdir(0o700)
            _give(place, uid)
    with os.fdopen(os.open(folder / path, _NEW, 0o600), "wb") as file:
        file.write(data)
    _give(folder / path, uid)


def shown(path: str) -> str:
    """A path that an agent chose, as messages may show it: bounded, and without what a terminal
    would obey.
    """
    text = printable(path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _give(path: Path, uid: int | None) -> None:
    if uid is not None and path.lstat().st_uid != uid:
        os.chown(path, uid, uid, follow_symlinks=False)


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "a device")
