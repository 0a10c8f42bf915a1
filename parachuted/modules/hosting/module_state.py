"""What a module keeps: small values in the vault's state folder, and files in a folder of its
own.

It belongs to the module's approved name, stays when the module is removed, and is deleted by
`parachute modules remove NAME --data`.

A value stored by work that read untrusted text is marked, and taints the work that reads it.
Derived data: it may be deleted at any time, and an unreadable file counts as missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import cast

from parachuted.access.authority import Authority, current
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.errors import EditRefusedError, StorageFailedError
from parachuted.home_files.private import replace_private
from parachuted.modules.registry.manifest import NAME
from parachuted.processes.beat import next_beat
from parachuted.processes.uninterrupted import run_uninterrupted

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


log = logging.getLogger(__name__)

LARGEST_VALUE = 1_000_000
LARGEST_IN_ALL = 10_000_000
MOST_KEYS = 10_000
_LONGEST_KEY = 200
_MOST_READ = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredValue:
    """One value, and the origins of the untrusted texts that were read before it was stored."""

    key: str
    value: object
    read: Mapping[str, Origin]


class ModuleState:
    """`StateAccess` in a folder that is its own alone.

    What `put` returned from is on the disk, whole.
    """

    def __init__(self, folder: Path, authority: Callable[[], Authority] = current) -> None:
        """`folder` is made at the first `put`; `authority` finds on whose behalf the module works
        now.
        """
        self._folder, self._authority = folder, authority
        self._turn = asyncio.Lock()
        self._sizes: dict[str, int] | None = None
        self._read: dict[str, Mapping[str, Origin]] = {}

    async def get(self, key: str, default: object = None) -> object:
        authority = self._acting()
        async with self._turn:
            kept = await run_uninterrupted(self._load, self._folder / _name(key))
        if kept is None or kept.key != key:
            return default
        _mark(authority, kept.read)
        return kept.value

    async def put(self, key: str, value: object) -> None:
        """Keep a JSON value.

        Raises EditRefusedError for what is none, and for more than is kept.
        """
        read = dict(list(self._acting().taint.sources.items())[:_MOST_READ])
        data = _document(key, value, read)
        async with self._turn:
            await run_uninterrupted(self._put, key, data, read)

    async def delete(self, key: str) -> None:
        self._acting()
        async with self._turn:
            await run_uninterrupted(self._delete, key)

    async def keys(self) -> list[str]:
        authority = self._acting()
        async with self._turn:
            found = sorted(await run_uninterrupted(self._known))
            for read in self._read.values():
                _mark(authority, read)
        return found

    def _acting(self) -> Authority:
        authority = self._authority()
        authority.check()
        return authority

    def _known(self) -> dict[str, int]:
        if self._sizes is None:
            files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
            kept = [(self._load(file), file) for file in files]
            known = {
                one.key: (one, file)
                for one, file in kept
                if one is not None and _name(one.key) == file.name
            }
            self._sizes = {key: file.stat().st_size for key, (_, file) in known.items()}
            self._read = {key: one.read for key, (one, _) in known.items() if one.read}
        return self._sizes

    def _put(self, key: str, data: bytes, read: Mapping[str, Origin]) -> None:
        known = self._known()
        if key not in known and len(known) >= MOST_KEYS:
            raise EditRefusedError(
                f"a module keeps at most {MOST_KEYS:,} keys in its state; delete some"
            )
        if sum(known.values()) - known.get(key, 0) + len(data) > LARGEST_IN_ALL:
            raise EditRefusedError(
                f"a module keeps at most {LARGEST_IN_ALL // 1_000_000} MB in its state; what "
                "matters belongs in the vault"
            )
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._folder / _name(key), data)
        except OSError as error:
            raise StorageFailedError(
                f"the module's state could not be kept: {error.strerror}", errno=error.errno
            ) from error
        known[key] = len(data)
        self._read[key] = read

    def _delete(self, key: str) -> None:
        known = self._known()
        try:
            (self._folder / _name(key)).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailedError(
                f"the module's state could not be changed: {error.strerror}", errno=error.errno
            ) from error
        known.pop(key, None)
        self._read.pop(key, None)

    def _load(self, file: Path) -> _StoredValue | None:
        try:
            document = json.loads(file.read_bytes())
            read = {
                str(source): cast("Origin", origin)
                for source, origin in document.get("read", {}).items()
                if origin in UNTRUSTED
            }
            return _StoredValue(key=str(document["key"]), value=document["value"], read=read)
        except FileNotFoundError:
            return None
        except (
            OSError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            log.warning(
                "a file of a module's state cannot be read and counts as none",
                extra={"file": str(file), "error": str(error)},
            )
            return None


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _mark(authority: Authority, read: Mapping[str, Origin]) -> None:
    for source, origin in read.items():
        authority.taint.read(source, origin)


def _document(key: str, value: object, read: Mapping[str, Origin]) -> bytes:
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        raise EditRefusedError(f"a key of the state is a text of 1 to {_LONGEST_KEY} characters")
    try:
        document = {"key": key, "value": value} | ({"read": read} if read else {})
        data = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise EditRefusedError(f"the state keeps JSON values alone: {error}") from error
    if len(data) > LARGEST_VALUE:
        raise EditRefusedError(
            f"a value of the state takes at most {LARGEST_VALUE // 1_000_000} MB"
        )
    return data
