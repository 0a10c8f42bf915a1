"""Rename: the two renames that POSIX lacks, exchange and no-replace, where the kernel has them.

Linux: renameat2(2); macOS: renameatx_np(2). File systems without them (FAT, some FUSE) answer
`NotImplementedError`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Callable

if sys.platform == "darwin":
    _CALL, _EXCHANGE, _NO_REPLACE = "renameatx_np", 2, 4
else:
    _CALL, _EXCHANGE, _NO_REPLACE = "renameat2", 2, 1

_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EMLINK, errno.EINVAL}


def _system_call() -> Callable[..., int] | None:
    call = getattr(ctypes.CDLL(None, use_errno=True), _CALL, None)
    if call is not None:
        call.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
        call.restype = ctypes.c_int
    return call


_renameat2 = _system_call()


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
