"""What a module keeps until `parachute modules remove NAME --data`: small values, and a folder of
files. A value stored by work that read untrusted text is marked, and taints the work that reads it.
An unreadable file counts as missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from parachuted.access.caller import Caller, current
from parachuted.errors import EditRefusedError, StorageFailedError, storage_errors
from parachuted.home_files.private import replace_private
from parachuted.modules.checks import NAME
from parachuted.processes.beat import next_beat
from parachuted.processes.uninterrupted import run_uninterrupted

log = logging.getLogger(__name__)

MODULE_DATA, MODULE_STATE = "module-data", "modules"
"""The folders of all modules' data folders and states, in the vault's state folder."""

LARGEST_DATA, MOST_FILES = 2 << 30, 20_000
LARGEST_VALUE, LARGEST_IN_ALL, MOST_KEYS = 1_000_000, 10_000_000, 10_000
_LONGEST_KEY = 200
_LOOK_S = 5.0
_BLOCK = 512  # what st_blocks counts
_PART = 0.01


def make_data_folder(parent: Path, name: str) -> Path:
    """Private to the daemon's user. Raises StorageFailedError, also where a link lies there."""
    folder = parent / name
    with storage_errors("the module's data folder could not be made"):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if not S_ISDIR(folder.lstat().st_mode):
            raise StorageFailedError(f"{folder} is not a folder; remove it")
    return folder


def has_module_data(state: Path, name: str) -> bool:
    return any(place.is_dir() and any(place.iterdir()) for place in _places(state, name))


def delete_module_data(state: Path, name: str) -> bool:
    """Whether there was any. Links are not followed. Raises StorageFailedError."""
    had = has_module_data(state, name)
    for place in _places(state, name):
        with storage_errors(f"{place} could not be deleted"), suppress(FileNotFoundError):
            shutil.rmtree(place)
    return had


def _places(state: Path, name: str) -> list[Path]:
    return [state / MODULE_DATA / name, state / MODULE_STATE / name] if NAME.fullmatch(name) else []


def folder_size(folder: Path) -> tuple[int, int]:
    """The bytes on the disk, and how many files and folders, no further than the limits."""
    taken = count = 0
    waiting = [folder]
    while waiting and count <= MOST_FILES and taken <= LARGEST_DATA:
        with suppress(OSError), os.scandir(waiting.pop()) as found:
            for entry in found:
                with suppress(OSError):  # what vanishes takes nothing, and hides no other
                    at = entry.stat(follow_symlinks=False)
                    count, taken = count + 1, taken + at.st_blocks * _BLOCK
                    if S_ISDIR(at.st_mode):
                        waiting.append(Path(entry.path))
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


class StateAccess:
    """A module's own small memory, outside the vault: JSON values of at most 1 MB.

    It can be lost; what matters belongs in the vault. What `put` returned from is on the disk.
    """

    def __init__(self, folder: Path, caller: Callable[[], Caller] = current) -> None:
        self._folder, self._caller, self._turn = folder, caller, asyncio.Lock()

    async def get(self, key: str, default: object = None) -> object:
        """What was put there, or the default."""
        return next((stored["value"] for stored in await self._load(_file_name(key))), default)

    async def put(self, key: str, value: object) -> None:
        """Keep a JSON value. EditRefusedError: it is none, or beyond the limits."""
        document = {"key": key, "value": value}
        if self._caller().checked().taint:
            document["tainted"] = True
        try:
            data = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise EditRefusedError(f"the state keeps JSON values alone: {error}") from error
        if not 0 < len(key) <= _LONGEST_KEY or len(data) > LARGEST_VALUE:
            raise EditRefusedError(
                f"a key of the state has 1 to {_LONGEST_KEY} characters, and its value at most "
                f"{LARGEST_VALUE // 1_000_000} MB of JSON"
            )
        async with self._turn:  # the sizes of the others are counted
            await run_uninterrupted(self._put, _file_name(key), data)

    async def delete(self, key: str) -> None:
        """Forget it, if it is there."""
        self._caller().check()
        async with self._turn:
            await run_uninterrupted(self._delete, _file_name(key))

    async def keys(self) -> list[str]:
        """All keys, sorted."""
        return sorted(str(stored["key"]) for stored in await self._load("*.json"))

    async def _load(self, pattern: str) -> list[dict[str, Any]]:
        """What such files hold; a stranger's taints the caller."""
        caller = self._caller().checked()
        found = await asyncio.to_thread(
            lambda: [stored for file in self._folder.glob(pattern) if (stored := _stored(file))]
        )
        if any(stored["tainted"] for stored in found):
            caller.taint.read("what a module kept of it")
        return found

    def _put(self, name: str, data: bytes) -> None:
        with storage_errors("the module's state could not be kept"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.scandir(self._folder) as entries:
                others = [entry.stat().st_size for entry in entries if entry.name != name]
            if len(others) >= MOST_KEYS or sum(others) + len(data) > LARGEST_IN_ALL:
                raise EditRefusedError(
                    f"a module keeps at most {MOST_KEYS:,} keys and {LARGEST_IN_ALL // 1_000_000} "
                    "MB in its state; what matters belongs in the vault"
                )
            replace_private(self._folder / name, data)

    def _delete(self, name: str) -> None:
        with storage_errors("the module's state could not be changed"):
            (self._folder / name).unlink(missing_ok=True)


def _stored(file: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(file.read_bytes())
        is_tainted = bool(document.get("tainted") or document.get("read"))
        return {"key": document["key"], "value": document["value"], "tainted": is_tainted}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, AttributeError, RecursionError) as error:
        log.warning(
            "a file of a module's state cannot be read and counts as none",
            extra={"file": str(file), "error": str(error)},
        )
        return None


def _file_name(key: str) -> str:
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
