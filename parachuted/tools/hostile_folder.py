"""Reads and repairs a private folder that an agent's programs change at will, without being led
outside.

Every folder on the way is opened by descriptor from its parent and links are not followed, so the
kernel refuses a swap between check and use. No open blocks on a pipe. What is too large, too deep
or cannot be listed is reported, and nothing is concluded from it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from parachuted.access.paths import is_hidden
from parachuted.vault import IgnoreRules, printable
from parachuted.vault.paths import name_refusal

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY = {errno.ENOTDIR, errno.ELOOP}
_TICK_NS = 20_000_000
_CHUNK = 1 << 20
_DEEPEST = 60
_LOOKS = 3


class FileStamp(NamedTuple):
    """What of a file's status changes whenever its content does.

    An agent can set every time but `ctime_ns`.
    """

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """The mark of a file of that status; one that was changed in this very tick of the clock
        equals none that is taken later.
        """
        ctime = status.st_ctime_ns if time.time_ns() - status.st_ctime_ns > _TICK_NS else 0
        return cls(status.st_mtime_ns, ctime, status.st_size, status.st_ino)


class ReadRefusedError(Exception):
    """What stands there is no file that can be taken; the message says why."""


class StillChangingError(ReadRefusedError):
    """It is being written just now; who looks again later finds it whole."""


@dataclass(slots=True, kw_only=True)
class FolderContents:
    """What is in the folder.

    `odd` are things that are no regular files, or have no name for a note, with what they are.

    `closed` are folders of which not all was seen, the empty path for the whole: nothing below them
    is known to be gone. `left` are things beginning with a dot, which are passed over.
    """

    files: dict[str, FileStamp] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    seen: int = 0

    def is_known(self, path: str) -> bool:
        return not any(not folder or path.startswith(f"{folder}/") for folder in self.closed)


class HostileFolder:
    """One folder, held open from the beginning.

    Methods block on the disk; OSError as the system gives it.
    """

    def __init__(self, folder: Path, *, uid: int | None = None, is_others: bool = False) -> None:
        """`uid`: whose the files in it are to be; None: as they come.

        `is_others`: it is not our own to mend, so what is shut in it stays shut, and nothing on the
        way to it may be a link by now.
        """
        self._uid = uid
        self._ignore = IgnoreRules()
        self._enter = _enter if is_others else _open_folder
        self._root = _open_straight(folder) if is_others else os.open(folder, _FOLDER)

    def close(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def walk(self, most: int) -> FolderContents:
        """All that is in it, unless that is more than `most` names."""
        walked = FolderContents()
        self._walk(walked, "", self._root, most, 0)
        return walked

    def read(self, path: str, most: int) -> tuple[bytes, FileStamp]:
        """A regular file's content, read until two looks agree, and its mark.

        Raises ReadRefusedError, FileNotFoundError.
        """
        for _ in range(_LOOKS):
            with self._opened(path) as descriptor:
                before = os.fstat(descriptor)
                _refuse_odd(before, most)
                data = _read(descriptor, most + 1)
                after = os.fstat(descriptor)
            if len(data) > most:
                raise ReadRefusedError(_too_large(most))
            if (before.st_mtime_ns, before.st_ctime_ns, before.st_size) == (
                after.st_mtime_ns,
                after.st_ctime_ns,
                after.st_size,
            ):
                return data, FileStamp.of(after)
        raise StillChangingError(
            "it is still being written, and is looked at again after the next call"
        )

    def put(self, path: str, data: bytes) -> FileStamp:
        folder, _, name = path.rpartition("/")
        temporary = f".{secrets.token_hex(8)}.tmp"
        with self._folder(folder, make=True) as into:
            descriptor = os.open(temporary, _NEW, 0o600, dir_fd=into)
            try:
                self._own(descriptor)
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                try:
                    os.rename(temporary, name, src_dir_fd=into, dst_dir_fd=into)
                except (IsADirectoryError, NotADirectoryError, FileExistsError):
                    _clear(into, name)
                    os.rename(temporary, name, src_dir_fd=into, dst_dir_fd=into)
                return FileStamp.of(os.fstat(descriptor))
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=into)
                raise
            finally:
                os.close(descriptor)

    def remove(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._folder(folder) as within,
        ):
            _clear(within, name)

    def empty(self) -> None:
        for name in os.listdir(self._root):  # noqa: PTH208  a descriptor
            _clear(self._root, name)

    def _walk(
        self, walked: FolderContents, prefix: str, descriptor: int, most: int, depth: int
    ) -> None:
        folders: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                walked.seen += 1
                if walked.seen > most:
                    walked.closed[""] = (
                        f"there are more than {most:,} files, so not all were looked at"
                    )
                    return
                self._entry(walked, prefix, entry, folders)
        for name in folders:
            path = f"{prefix}{name}"
            if depth >= _DEEPEST:
                walked.closed[path] = f"it is more than {_DEEPEST} folders deep"
                continue
            try:
                child = self._enter(name, descriptor)
            except OSError as error:
                if error.errno not in {errno.ENOENT, *_IN_THE_WAY}:
                    walked.closed[path] = f"the folder cannot be opened: {error.strerror}"
                elif error.errno != errno.ENOENT:
                    walked.closed[path] = "it was changed while it was looked at"
                continue
            try:
                self._walk(walked, f"{path}/", child, most, depth + 1)
            except OSError as error:
                walked.closed[path] = f"the folder cannot be listed: {error.strerror}"
            finally:
                os.close(child)

    def _entry(
        self, walked: FolderContents, prefix: str, entry: os.DirEntry[str], folders: list[str]
    ) -> None:
        name, path = entry.name, f"{prefix}{entry.name}"
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return  # it went while we looked
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_hidden(name):
            walked.left.append(path)
            return
        reason = name_refusal(name)
        if reason is not None:
            walked.odd[path] = f"no name for a note: {reason}"
        elif is_folder:
            folders.append(name)
        elif not stat.S_ISREG(status.st_mode):
            walked.odd[path] = _kind(status.st_mode)
        elif not self._ignore.file(prefix.rstrip("/"), name):
            walked.files[path] = FileStamp(
                status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
            )

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        folder, _, name = path.rpartition("/")
        try:
            with self._folder(folder) as within:
                descriptor = os.open(name, _FILE, dir_fd=within)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
                raise ReadRefusedError("a link, or something else that is not a file") from error
            if error.errno == errno.EACCES:
                raise ReadRefusedError("it cannot be read") from error
            raise
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        descriptor = os.dup(self._root)
        try:
            for name in path.split("/") if path else []:
                child = self._made(name, descriptor) if make else self._enter(name, descriptor)
                os.close(descriptor)
                descriptor = child
            yield descriptor
        finally:
            os.close(descriptor)

    def _made(self, name: str, within: int) -> int:
        """Open that folder; what stands in its place goes."""
        for _ in range(_LOOKS):
            try:
                return _open_folder(name, within)
            except OSError as error:
                if error.errno in _IN_THE_WAY:
                    _clear(within, name)
                elif error.errno != errno.ENOENT:
                    raise
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=within)
                with contextlib.suppress(OSError):  # it was swapped already: the next turn says
                    child = _open_folder(name, within)
                    self._own(child)
                    return child
        return _open_folder(name, within)

    def _own(self, descriptor: int) -> None:
        if self._uid is not None and os.fstat(descriptor).st_uid != self._uid:
            os.fchown(descriptor, self._uid, self._uid)


def _clear(within: int, name: str) -> None:
    """Remove a name and all below it, in bounded depth: each folder's folders are first brought up
    beside it.
    """
    waiting = [name]
    while waiting:
        one = waiting.pop()
        try:
            os.unlink(one, dir_fd=within)
        except FileNotFoundError:
            continue
        except (IsADirectoryError, PermissionError):
            folder = _open_folder(one, within)
        else:
            continue
        try:
            for child in os.listdir(folder):  # noqa: PTH208  a descriptor
                try:
                    os.unlink(child, dir_fd=folder)
                except (IsADirectoryError, PermissionError):
                    moved = f".{secrets.token_hex(8)}.gone"
                    os.rename(child, moved, src_dir_fd=folder, dst_dir_fd=within)
                    waiting.append(moved)
        finally:
            os.close(folder)
        os.rmdir(one, dir_fd=within)


def _open_straight(folder: Path) -> int:
    """A folder of which each part of the path is a folder, at the moment at which it is entered."""
    descriptor = os.open(folder.anchor, _FOLDER)
    for name in folder.parts[1:]:
        try:
            child = _enter(name, descriptor)
        finally:
            os.close(descriptor)
        descriptor = child
    return descriptor


def _enter(name: str, within: int) -> int:
    return os.open(name, _FOLDER, dir_fd=within)


def _open_folder(name: str, within: int) -> int:
    """A folder that its owner, an agent with our own uid, has shut is opened first."""
    try:
        return _enter(name, within)
    except PermissionError:
        if sys.platform != "linux":
            raise
        held = os.open(
            name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within
        )
        try:
            os.chmod(f"/proc/self/fd/{held}", 0o700)  # noqa: PTH101  what is held, whatever has its name now
        finally:
            os.close(held)
        return os.open(name, _FOLDER, dir_fd=within)


def _refuse_odd(status: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ReadRefusedError(_kind(status.st_mode))
    if status.st_nlink > 1:
        raise ReadRefusedError("a file with several names (hard links)")
    if status.st_size > most:
        raise ReadRefusedError(_too_large(most))


def _read(descriptor: int, most: int) -> bytes:
    parts, size = [], 0
    while size < most and (part := os.read(descriptor, min(_CHUNK, most - size))):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _too_large(most: int) -> str:
    return f"larger than {most >> 20} MB"


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


def shown(path: str) -> str:
    """A path that an agent chose, as messages may show it: bounded, and without what a terminal
    would obey.
    """
    text = printable(path)
    return text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004  characters
