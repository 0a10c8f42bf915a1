"""Index: what the vault held at the last scan, by folder, in memory, and a copy of it on disk.

Derived: delete the copy (a snapshot and a log of changes) and the next start reads the whole vault.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from parachuted.vault.paths import VaultPath

CONTEXT_NAMES = ("AGENTS.md", "CLAUDE.md")
_VERSION = 1
_LOG_LIMIT = 8 << 20
_STATUS = struct.Struct("<qqqQ")


class IndexEntry(bytes):
    """One file as last seen: times in ns, size in bytes, SHA-256 in hex (None: not a note).

    Packed, since there is one for every file: 160 bytes, where a tuple of five objects takes 384.
    """

    __slots__ = ()

    def __new__(
        cls, mtime_ns: int, ctime_ns: int, size: int, inode: int, digest: str | None
    ) -> Self:
        status = _STATUS.pack(mtime_ns, ctime_ns, size, inode)
        return super().__new__(cls, status if digest is None else status + digest.encode())

    @classmethod
    def of(cls, status: os.stat_result, digest: str | None) -> IndexEntry:
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, digest)

    @property
    def mtime_ns(self) -> int:
        return int(_STATUS.unpack_from(self)[0])

    @property
    def ctime_ns(self) -> int:
        return int(_STATUS.unpack_from(self)[1])

    @property
    def size(self) -> int:
        return int(_STATUS.unpack_from(self)[2])

    @property
    def inode(self) -> int:
        return int(_STATUS.unpack_from(self)[3])

    @property
    def digest(self) -> str | None:
        return self[_STATUS.size :].decode() or None

    def values(self) -> tuple[int, int, int, int, str | None]:
        mtime_ns, ctime_ns, size, inode = _STATUS.unpack_from(self)
        return mtime_ns, ctime_ns, size, inode, self.digest

    def has_status(self, status: os.stat_result) -> bool:
        return self.startswith(
            _STATUS.pack(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        )

    def same_content(self, other: IndexEntry | None) -> bool:
        if other is None:
            return False
        if self.digest is not None or other.digest is not None:
            return self.digest == other.digest
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


class VaultIndex:
    """One thread changes it; others may read single entries. `following` is held from before a
    change is recorded until it is here.
    """

    def __init__(self) -> None:
        self.following = asyncio.Lock()
        self._folders: dict[str, dict[str, IndexEntry]] = {"": {}}
        self._children: dict[str, set[str]] = {"": set()}
        self._context_folders: set[str] = set()

    def get(self, path: str) -> IndexEntry | None:
        folder, _, name = path.rpartition("/")
        return self._folders.get(folder, {}).get(name)

    def entries(self, folder: str) -> dict[str, IndexEntry]:
        """The files directly in that folder; do not change it."""
        return self._folders.get(folder, {})

    def files(self, folder: str) -> Iterable[str]:
        return self._folders.get(folder, {}).keys()

    def folders(self, folder: str) -> Iterable[str]:
        return self._children.get(folder, ())

    def __contains__(self, folder: str) -> bool:
        return folder in self._folders

    def __len__(self) -> int:
        return sum(map(len, self._folders.values()))

    def paths(self) -> Iterator[VaultPath]:
        for folder, files in self._folders.items():
            prefix = f"{folder}/" if folder else ""
            for name in files:
                yield VaultPath(prefix + name)

    def below(self, folder: str) -> list[str]:
        """That folder and every known folder below it."""
        found = [folder] if folder in self._folders else []
        for place in found:
            found += [
                f"{place}/{name}" if place else name for name in self._children.get(place, ())
            ]
        return found

    def all_folders(self) -> list[str]:
        return self.below("")

    def context_folders(self) -> list[str]:
        return sorted(self._context_folders)

    def context_file(self, folder: str) -> VaultPath | None:
        files = self._folders.get(folder, {})
        name = next((name for name in CONTEXT_NAMES if name in files), None)
        return None if name is None else VaultPath(f"{folder}/{name}" if folder else name)

    def is_context_file(self, path: str) -> bool:
        return (
            path.rpartition("/")[2] in CONTEXT_NAMES
            and self.context_file(path.rpartition("/")[0]) == path
        )

    def set(self, path: str, entry: IndexEntry | None) -> None:
        folder, _, name = path.rpartition("/")
        before = self._folders.get(folder, {}).get(name)
        if entry is not None:
            self.add_folder(folder)
            self._folders[folder][name] = entry
        elif folder in self._folders:
            self._folders[folder].pop(name, None)
        if name in CONTEXT_NAMES and (before and before.size) != (entry and entry.size):
            self._follow_contexts(folder)

    def add_folder(self, folder: str) -> None:
        while folder not in self._folders:
            self._folders[folder] = {}
            self._children.setdefault(folder, set())
            parent, _, name = folder.rpartition("/")
            self._children.setdefault(parent, set()).add(name)
            folder = parent

    def drop_folder(self, folder: str) -> None:
        for place in reversed(self.below(folder)):
            self._folders.pop(place, None)
            self._children.pop(place, None)
            if place in self._context_folders:
                self._follow_contexts(place)
        parent, _, name = folder.rpartition("/")
        self._children.get(parent, set()).discard(name)

    def fill_folder(self, folder: str, files: Mapping[str, IndexEntry]) -> None:
        self.add_folder(folder)
        self._folders[folder].update(files)
        if not files.keys().isdisjoint(CONTEXT_NAMES):
            self._follow_contexts(folder)

    def _follow_contexts(self, folder: str) -> None:
        if self._folders.get(folder, {}).keys().isdisjoint(CONTEXT_NAMES):
            self._context_folders.discard(folder)
        else:
            self._context_folders.add(folder)


class IndexSnapshot:
    """Never the only copy of anything, so it is written without waiting for the disk."""

    def __init__(self, folder: Path) -> None:
        self._base = folder / "snapshot.json"
        self._log = folder / "snapshot.log"
        self._descriptor: int | None = None
        self.problem: str | None = None

    def load(self) -> VaultIndex | None:
        """None when there is none, or it cannot be read (`problem` says why)."""
        if not self._base.exists():
            return None
        try:
            index = _index_of(self._base.read_bytes())
            self._replay(index)
        except (
            OSError,
            ValueError,
            TypeError,
            AttributeError,
            LookupError,
            RecursionError,
            struct.error,
        ) as error:
            self.problem = (
                f"the snapshot was unreadable ({error}) and was set aside; the vault is read again"
            )
            with contextlib.suppress(OSError):
                self._base.replace(self._base.with_suffix(".garbled"))
            return None
        return index

    def save(self, index: VaultIndex) -> None:
        payload = json.dumps(
            {
                folder: {name: entry.values() for name, entry in index.entries(folder).items()}
                for folder in index.all_folders()
            },
            separators=(",", ":"),
        ).encode()
        temporary = self._base.with_suffix(".tmp")
        try:
            temporary.write_bytes(b"%d %08x\n" % (_VERSION, zlib.crc32(payload)) + payload)
            temporary.replace(self._base)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self.close()
        self._log.unlink(missing_ok=True)

    def append(self, changes: Iterable[tuple[str, IndexEntry | None]], index: VaultIndex) -> None:
        """Log changes that were just made to the index."""
        if self._descriptor is None:
            self._descriptor = _opened_log(self._log)
        lines = "".join(
            f"{json.dumps((path, entry and entry.values()))}\n" for path, entry in changes
        ).encode()
        try:
            whole = os.write(self._descriptor, lines) == len(lines)
        except OSError:
            self.close()  # part of a line may be there: the next lines must not go on in it
            raise
        if not whole or os.fstat(self._descriptor).st_size > _LOG_LIMIT:
            self.save(index)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _replay(self, index: VaultIndex) -> None:
        if not self._log.exists():
            return
        for line in self._log.read_bytes().split(b"\n"):
            try:
                path, entry = json.loads(line)
            # written in part when the program died; what it was about shows as a difference in the
            # next walk
            except ValueError:
                continue
            index.set(path, IndexEntry(*entry) if entry else None)


def _index_of(data: bytes) -> VaultIndex:
    header, _, payload = data.partition(b"\n")
    version, checksum = header.split()
    if int(version) != _VERSION or int(checksum, 16) != zlib.crc32(payload):
        raise ValueError("another version, or damaged")
    index = VaultIndex()
    for folder, files in json.loads(payload).items():
        index.fill_folder(folder, {name: IndexEntry(*entry) for name, entry in files.items()})
    return index


def _opened_log(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
    return descriptor
