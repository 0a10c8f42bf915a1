"""Swap: replaces a file's bytes in one step.

The new file and the old one trade names, then what came out is compared with what should have
been there. A write is made when its temporary name is gone; `recovery` undoes what failed before.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from parachuted.vault.paths import NAME_BYTES
from parachuted.vault.root import digest_of_open, let_go, opened, read_all, write_all

if sys.platform == "darwin":
    _CALL, _EXCHANGE, _NO_REPLACE = "renameatx_np", 2, 4
else:
    _CALL, _EXCHANGE, _NO_REPLACE = "renameat2", 2, 1

_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EMLINK, errno.EINVAL}


def _system_call(name: str, *arguments: type) -> Callable[..., int] | None:
    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is not None:
        call.argtypes, call.restype = arguments, ctypes.c_int
    return call


_renameat2 = _system_call(
    *(_CALL, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
)


def _rename(source: tuple[int, str], target: tuple[int, str], flags: int) -> None:
    if _renameat2 is None:
        raise NotImplementedError(_CALL)
    if _renameat2(source[0], os.fsencode(source[1]), target[0], os.fsencode(target[1]), flags) == 0:
        return
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        raise NotImplementedError(_CALL)
    raise OSError(code, os.strerror(code), target[1])


def exchange(folder: int, one: str, other: str) -> None:
    """Raises OSError, or NotImplementedError where the file system cannot."""
    _rename((folder, one), (folder, other), _EXCHANGE)


def move_to_free_name(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Pairs of a folder's descriptor and a name; FileExistsError if the target exists."""
    try:
        _rename(source, target, _NO_REPLACE)
    except NotImplementedError:
        _link_or_look(source, target)


def _link_or_look(source: tuple[int, str], target: tuple[int, str]) -> None:
    """By a second name; where there are no links by looking first, which leaves a gap."""
    try:
        os.link(
            source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0], follow_symlinks=False
        )
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if is_there(*target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target[1]) from error
        os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
        return
    try:
        os.unlink(source[1], dir_fd=source[0])
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(target[1], dir_fd=target[0])
        raise


_SUFFIX_BYTES = 32
_MOST = 1000


def copy_names(name: str, now: datetime) -> Iterator[str]:
    """`plan (Conflicted copy parachute 20261121231502).md`, then with numbers; cut to fit."""
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name, not a path
    if len(os.fsencode(suffix)) > _SUFFIX_BYTES:
        stem, suffix = name, ""
    for number in range(1, _MOST):
        mark = (
            f" (Conflicted copy parachute {now:%Y%m%d%H%M%S}{f' {number}' if number > 1 else ''})"
        )
        yield _cut(stem, NAME_BYTES - len(mark) - len(os.fsencode(suffix))) + mark + suffix


def put_aside(folder: int, temporary: str, name: str, now: datetime) -> str:
    """Give what stands under the temporary name that of a free copy; returns it. OSError."""
    for copy in copy_names(name, now):
        with contextlib.suppress(FileExistsError):
            move_to_free_name((folder, temporary), (folder, copy))
            return copy
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def _cut(stem: str, room: int) -> str:
    while len(os.fsencode(stem)) > room:
        stem = stem[:-1]
    return stem


_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_SECOND = 1_000_000_000


class _Status(ctypes.Structure):
    """`struct statx` up to the time of birth, and room for the rest of its 256 bytes."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("before", ctypes.c_byte * 76),
        ("seconds", ctypes.c_int64),
        ("nanoseconds", ctypes.c_uint32),
        ("after", ctypes.c_byte * 164),
    )


_statx = _system_call(
    *("statx", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
)


def born_ns(folder: int, name: str) -> int | None:
    """When the file was made, in ns since 1970; None: not known. Links are not followed."""
    if _statx is None:
        return _born_by_status(folder, name)
    status = _Status()
    if (
        _statx(folder, os.fsencode(name), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, ctypes.byref(status))
        or not status.mask & _STATX_BTIME
    ):
        return None
    return int(status.seconds) * _SECOND + int(status.nanoseconds)


def _born_by_status(folder: int, name: str) -> int | None:
    try:
        born = getattr(os.stat(name, dir_fd=folder, follow_symlinks=False), "st_birthtime", None)
    except OSError:
        return None
    return None if born is None else int(born * _SECOND)


TEMPORARY_PREFIX = ".parachute-"
TEMPORARY_SUFFIX = ".tmp"
_CHUNK = 1 << 20
_NO_REGULAR_FILE = {errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ENOTDIR}
_NO_SUCH_ATTRIBUTE = {errno.ENOTSUP, errno.ENODATA, errno.EPERM, errno.EACCES}


class MovedBaseError(Exception):
    """The file is not what it was when it was read; nothing was written."""


def temporary_name() -> str:
    return f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"


def digest_at(folder: int, name: str) -> str | None:
    """None when it is not a regular file. OSError when it cannot be read."""
    try:
        with opened(folder, name) as descriptor:
            return digest_of_open(descriptor)
    except OSError as error:
        if error.errno in _NO_REGULAR_FILE:
            return None
        raise


def is_there(folder: int, name: str) -> bool:
    """OSError."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_temporary(folder: int, name: str, data: bytes, original: int | None = None) -> None:
    """Write and sync a new file, with mode, owner and attributes of the file it will replace."""
    with _temporary(folder, name, original) as descriptor:
        write_all(descriptor, data)


def copy_temporary(folder: int, name: str, source: int, original: int | None = None) -> None:
    """The same with all that an open file holds, in pieces."""
    os.lseek(source, 0, os.SEEK_SET)
    with _temporary(folder, name, original) as descriptor:
        while piece := os.read(source, _CHUNK):
            write_all(descriptor, piece)


@contextlib.contextmanager
def _temporary(folder: int, name: str, original: int | None) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o666 if original is None else 0o600
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    try:
        yield descriptor
        if original is not None:
            _copy_attributes(original, descriptor)
        os.fsync(descriptor)
    finally:
        let_go(descriptor)  # all is on the disk, or has failed already


def replace(folder: int, name: str, temporary: str, original: int, *, old: str) -> None:
    """Raises MovedBaseError unless `name` is the open file `original`, of digest `old`; OSError."""
    _expect(folder, name, original, old)
    try:
        exchange(folder, temporary, name)
    except NotImplementedError:
        # a save between the check and the rename is lost; such a file system has no better
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        return
    _expect(folder, temporary, original, old)
    _remove_durably(folder, temporary)


def create(folder: int, name: str, temporary: str) -> None:
    """Raises MovedBaseError when something is there."""
    try:
        move_to_free_name((folder, temporary), (folder, name))
    except FileExistsError as error:
        raise MovedBaseError from error
    try:
        os.fsync(folder)
    except OSError:
        move_to_free_name((folder, name), (folder, temporary))
        raise


def remove(folder: int, name: str, temporary: str, original: int, *, old: str) -> None:
    """By way of the temporary name; raises MovedBaseError when it is not of digest `old`."""
    _expect(folder, name, original, old)
    move_to_free_name((folder, name), (folder, temporary))
    _expect(folder, temporary, original, old)
    _remove_durably(folder, temporary)


def rename_durably(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Raises MovedBaseError when the target's name is taken."""
    try:
        move_to_free_name(source, target)
    except FileExistsError as error:
        raise MovedBaseError from error
    try:
        os.fsync(target[0])
        os.fsync(source[0])
    except OSError:
        move_to_free_name(target, source)
        raise


def holds(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return read_all(descriptor)


def _expect(folder: int, name: str, original: int, old: str) -> None:
    if not _is_at(folder, name, original) or digest_of_open(original) != old:
        raise MovedBaseError


def _is_at(folder: int, name: str, descriptor: int) -> bool:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(status, os.fstat(descriptor))


def _remove_durably(folder: int, temporary: str) -> None:
    os.fsync(folder)
    os.unlink(temporary, dir_fd=folder)
    # the write stands; a power cut may bring the temporary name back, no more
    with contextlib.suppress(OSError):
        os.fsync(folder)


def _copy_attributes(original: int, descriptor: int) -> None:
    like = os.fstat(original)
    _copy_owner(descriptor, like)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    for attribute in _attributes(original):
        try:
            os.setxattr(descriptor, attribute, os.getxattr(original, attribute))
        except OSError as error:
            if error.errno not in _NO_SUCH_ATTRIBUTE:
                raise


def _copy_owner(descriptor: int, like: os.stat_result) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) == (like.st_uid, like.st_gid):
        return
    try:
        os.fchown(descriptor, like.st_uid, like.st_gid)
    except PermissionError:  # not root: the group at least, where we are in it
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, -1, like.st_gid)


def _attributes(descriptor: int) -> list[str]:
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(descriptor)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return []  # a file system without extended attributes
