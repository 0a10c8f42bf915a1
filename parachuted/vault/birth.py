"""Birth: when a file was made.

File systems give the number of a deleted file to the next new one; only this tells the two apart.

Linux: statx(2), which Python has not; macOS: part of every status. Elsewhere, and on file systems
that do not keep it: unknown.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

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


def _system_call() -> Callable[..., int] | None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if call is not None:
        call.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_void_p,
        )
        call.restype = ctypes.c_int
    return call


_statx = _system_call()


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
