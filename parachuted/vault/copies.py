"""Copies: puts a text that cannot keep its name beside it, under a name that people know from sync
programs.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from datetime import datetime

from parachuted.vault.paths import NAME_BYTES
from parachuted.vault.rename import move_to_free_name

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
