"""The data folder of a module: files of its own outside the vault, which may be deleted at any
time.

It belongs to the module's approved name, stays when the module is removed, and is deleted by
`parachute modules remove NAME --data`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from parachuted.errors import StorageFailedError
from parachuted.modules.registry.manifest import NAME
from parachuted.processes.beat import next_beat

MODULE_DATA, MODULE_STATE = "module-data", "modules"
"""The folders of all modules' data folders and states, in the vault's state folder."""

MODULE_SCHEDULES = "module-schedules"
"""The folder of the schedules that modules set, a file for each module."""

LARGEST_DATA, MOST_FILES = 2 << 30, 20_000
_LOOK_S = 5.0
_BLOCK = 512  # what st_blocks counts
_PART = 0.01


def make_data_folder(parent: Path, name: str) -> Path:
    """The data folder of that module, private to the daemon's user.

    Raises StorageFailedError, also where something else lies there, such as a link.
    """
    folder = parent / name
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if not S_ISDIR(folder.lstat().st_mode):
            raise StorageFailedError(f"{folder} is not a folder; remove it")
    except OSError as error:
        raise StorageFailedError(
            f"the module's data folder could not be made: {error.strerror}", errno=error.errno
        ) from error
    return folder


def has_module_data(state: Path, name: str) -> bool:
    """Whether a module of that name keeps anything in the vault's state folder."""
    return any(_holds_something(place) for place in _places(state, name))


def delete_module_data(state: Path, name: str) -> bool:
    """Delete all that; whether there was any. Links are deleted and not followed.

    Raises StorageFailedError.
    """
    had = has_module_data(state, name)
    for place in _places(state, name):
        try:
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailedError(
                f"{place} could not be deleted: {error.strerror}", errno=error.errno
            ) from error
    return had


def _places(state: Path, name: str) -> list[Path]:
    if not NAME.fullmatch(name):
        return []
    return [
        state / MODULE_DATA / name,
        state / MODULE_STATE / name,
        state / MODULE_SCHEDULES / f"{name}.json",
    ]


def _holds_something(place: Path) -> bool:
    if place.is_dir() and not place.is_symlink():
        return any(place.iterdir())
    return place.is_symlink() or place.exists()


def folder_size(folder: Path) -> tuple[int, int]:
    """The bytes that its files take on the disk, and how many files and folders there are.

    Counts no further than the limits. Links are not followed.
    """
    taken = count = 0
    waiting = [folder]
    while waiting and count <= MOST_FILES and taken <= LARGEST_DATA:
        with suppress(OSError), os.scandir(waiting.pop()) as found:  # what vanishes takes nothing
            for one in found:
                at = one.stat(follow_symlinks=False)
                count, taken = count + 1, taken + at.st_blocks * _BLOCK
                if S_ISDIR(at.st_mode):
                    waiting.append(Path(one.path))
    return taken, count


async def watch_size(folder: Path, end: Callable[[str], None]) -> None:
    """End the process when its data folder is larger than a module's may be."""
    while True:
        began = time.monotonic()
        taken, count = await asyncio.to_thread(folder_size, folder)
        if taken > LARGEST_DATA or count > MOST_FILES:
            end(
                f"its data folder has more than {LARGEST_DATA >> 30} GB or {MOST_FILES:,} files; "
                f"delete some in {folder}"
            )
            return
        await next_beat(max(_LOOK_S, (time.monotonic() - began) / _PART))
