"""Whether a module's folder may have changed, by one stat a file. Cheap, and not proof:
approval never relies on it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

_MOST = 20_000


def folder_mark(folder: Path, ignored: Collection[str] = ()) -> int:
    """What changes whenever the folder does, links not followed. 0: there is none."""
    try:
        at = folder.lstat()
    except OSError:
        return 0
    found: list[tuple[str | int, ...]] = [_mark("", at)]
    waiting = [str(folder)]
    while waiting and len(found) < _MOST:
        inner = waiting.pop()
        try:
            with os.scandir(inner) as entries:
                for entry in entries:
                    if entry.name in ignored:
                        continue
                    found.append(_mark(entry.path, entry.stat(follow_symlinks=False)))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            found.append((inner, error.errno or -1))
    return hash(tuple(sorted(found))) or 1


def _mark(path: str, at: os.stat_result) -> tuple[str | int, ...]:
    """A folder's times and size tell of its names, which are looked at themselves, but for those
    that are ignored.
    """
    if stat.S_ISDIR(at.st_mode):
        return path, at.st_mode, at.st_ino
    return path, at.st_mode, at.st_size, at.st_ino, at.st_mtime_ns, at.st_ctime_ns
