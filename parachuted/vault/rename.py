"""Rename: the two renames that POSIX lacks, exchange and no-replace, and when a file was made,
where the kernel has them.

Linux: renameat2(2), statx(2); macOS: renameatx_np(2). File systems without them (FAT, some FUSE)
answer `NotImplementedError`; where the time of birth is not kept, it is unknown. File systems give
the number of a deleted file to the next new one; only that time tells the two apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from parachuted.vault.paths import NAME_BYTES

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
    """Swap two names in one folder at once.

    Raises OSError, or NotImplementedError where the file system cannot.
    """
    _rename((folder, one), (folder, other), _EXCHANGE)


def move_to_free_name(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Rename (folder descriptor, name) to another that must not exist; FileExistsError if it
    does.
    """
    try:
        _rename(source, target, _NO_REPLACE)
    except NotImplementedError:
        _link_or_look(source, target)


def _link_or_look(source: tuple[int, str], target: tuple[int, str]) -> None:
    """The same by a second name; where a file has one name only, by looking first, which leaves a
    moment between.
    """
    try:
        os.link(
            source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0], follow_symlinks=False
        )
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if _is_taken(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target[1]) from error
        os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
        return
    try:
        os.unlink(source[1], dir_fd=source[0])
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(target[1], dir_fd=target[0])
        raise


def _is_taken(place: tuple[int, str]) -> bool:
    try:
        os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


_SUFFIX_BYTES = 32
_MOST = 1000


def copy_names(name: str, now: datetime) -> Iterator[str]:
    """`plan.md` as `plan (Conflicted copy parachute 20261121231502).md`, then with numbers; long
    names are cut to fit.
    """
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name, not a path
    if len(os.fsencode(suffix)) > _SUFFIX_BYTES:
        stem, suffix = name, ""
    for number in range(1, _MOST):
        mark = (
            f" (Conflicted copy parachute {now:%Y%m%d%H%M%S}{f' {number}' if number > 1 else ''})"
        )
        yield _cut(stem, NAME_BYTES - len(mark) - len(os.fsencode(suffix))) + mark + suffix


def put_aside(folder: int, temporary: str, name: str, now: datetime) -> str:
    """Give what stands under the temporary name a free name for a copy of `name`; returns it.

    Raises OSError.
    """
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
    """The beginning of `struct statx`, up to the time of birth, and room for the rest of its 256
    bytes.
    """

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
    """When the file `name` in an open folder was made, in nanoseconds since 1970; None where that
    is not known. Links are not followed.
    """
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
