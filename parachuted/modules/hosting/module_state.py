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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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

log = logging.getLogger(__name__)

MODULE_DATA, MODULE_STATE = "module-data", "modules"
"""The folders of all modules' data folders and states, in the vault's state folder."""

MODULE_SCHEDULES = "module-schedules"
"""The folder of the schedules that modules set, a file for each module."""

LARGEST_DATA, MOST_FILES = 2 << 30, 20_000
LARGEST_VALUE, LARGEST_IN_ALL, MOST_KEYS = 1_000_000, 10_000_000, 10_000
_LONGEST_KEY, _MOST_READ = 200, 50
_LOOK_S = 5.0
_BLOCK = 512  # what st_blocks counts
_PART = 0.01


def make_data_folder(parent: Path, name: str) -> Path:
    """The data folder of that module, private to the daemon's user.

    Raises StorageFailedError, also where something else lies there, such as a link.
    """
    folder = parent / name
    with _storage_errors("the module's data folder could not be made"):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if not S_ISDIR(folder.lstat().st_mode):
            raise StorageFailedError(f"{folder} is not a folder; remove it")
    return folder


def has_module_data(state: Path, name: str) -> bool:
    """Whether a module of that name keeps anything in the vault's state folder."""
    return any(
        any(place.iterdir())
        if place.is_dir() and not place.is_symlink()
        else place.is_symlink() or place.exists()
        for place in _places(state, name)
    )


def delete_module_data(state: Path, name: str) -> bool:
    """Delete all that; whether there was any. Links are deleted and not followed.

    Raises StorageFailedError.
    """
    had = has_module_data(state, name)
    for place in _places(state, name):
        with _storage_errors(f"{place} could not be deleted"):
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
    return had


def _places(state: Path, name: str) -> list[Path]:
    if not NAME.fullmatch(name):
        return []
    return [
        state / MODULE_DATA / name,
        state / MODULE_STATE / name,
        state / MODULE_SCHEDULES / f"{name}.json",
    ]


@contextmanager
def _storage_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailedError(f"{what}: {error.strerror}", errno=error.errno) from error


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
        self._known: dict[str, _Stored] | None = None

    async def get(self, key: str, default: object = None) -> object:
        authority = self._acting()
        async with self._turn:
            stored = await run_uninterrupted(_load, self._folder / _name(key))
        if stored is None or stored.key != key:
            return default
        _mark(authority, stored)
        return stored.value

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
            known = await run_uninterrupted(self._all)
            for stored in known.values():
                _mark(authority, stored)
            return sorted(known)

    def _acting(self) -> Authority:
        authority = self._authority()
        authority.check()
        return authority

    def _all(self) -> dict[str, _Stored]:
        """What there is, by key, without its values."""
        if self._known is None:
            files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
            found = [(file, stored) for file in files if (stored := _load(file)) is not None]
            self._known = {
                stored.key: replace(stored, value=None)
                for file, stored in found
                if _name(stored.key) == file.name
            }
        return self._known

    def _put(self, key: str, data: bytes, read: Mapping[str, Origin]) -> None:
        known = self._all()
        if key not in known and len(known) >= MOST_KEYS:
            raise EditRefusedError(
                f"a module keeps at most {MOST_KEYS:,} keys in its state; delete some"
            )
        others = sum(stored.size for name, stored in known.items() if name != key)
        if others + len(data) > LARGEST_IN_ALL:
            raise EditRefusedError(
                f"a module keeps at most {LARGEST_IN_ALL // 1_000_000} MB in its state; what "
                "matters belongs in the vault"
            )
        with _storage_errors("the module's state could not be kept"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._folder / _name(key), data)
        known[key] = _Stored(key=key, size=len(data), read=read)

    def _delete(self, key: str) -> None:
        known = self._all()
        with _storage_errors("the module's state could not be changed"):
            (self._folder / _name(key)).unlink(missing_ok=True)
        known.pop(key, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """One value, and the origins of the untrusted texts that were read before it was stored."""

    key: str
    size: int
    read: Mapping[str, Origin]
    value: object = None


def _load(file: Path) -> _Stored | None:
    try:
        data = file.read_bytes()
        document = json.loads(data)
        read = {
            str(source): cast("Origin", origin)
            for source, origin in document.get("read", {}).items()
            if origin in UNTRUSTED
        }
        return _Stored(key=str(document["key"]), size=len(data), read=read, value=document["value"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        log.warning(
            "a file of a module's state cannot be read and counts as none",
            extra={"file": str(file), "error": str(error)},
        )
        return None


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _mark(authority: Authority, stored: _Stored) -> None:
    for source, origin in stored.read.items():
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
