"""Objects: contents stored under their digest, so any text read or replaced can be restored."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from parachuted.errors import StorageFailedError
from parachuted.state import Database, DatabaseStatus
from parachuted.vault.root import digest_of, digest_of_open, let_go, read_all, write_all

_STOOD = (
    "INSERT INTO places (path, digest, at) VALUES (?, ?, ?) ON CONFLICT (path, digest) DO "
    "UPDATE SET at = excluded.at"
)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (path BLOB, digest TEXT, at INTEGER NOT NULL, PRIMARY KEY (path, digest)) WITHOUT ROWID;
"""  # noqa: E501


class TextStore:
    """Contents by digest. Any fault of the file reads as a text that is not kept."""

    def __init__(self, path: Path) -> None:
        """Raises StorageFailedError when the disk refuses a new file too."""
        self._database = Database(
            path,
            label=path.name,
            loss="changes made while the daemon is off are shown without a difference",
            migrations={1: _SCHEMA},
            is_derived=True,
        )
        with self._database.writer():
            pass

    def status(self) -> DatabaseStatus:
        return self._database.status()

    def put(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Raises OSError."""
        rows = list(texts)  # before the lock: making them may ask what is kept
        try:
            try:
                self._put(rows)
            except StorageFailedError:
                if not self._database.is_damaged:
                    raise
                self._database.set_aside("damaged")
                self._put(rows)
        except StorageFailedError as error:
            raise OSError(f"texts could not be kept: {error}") from error

    def _put(self, rows: Sequence[tuple[str, bytes]]) -> None:
        with self._database.write() as connection:
            connection.executemany("INSERT OR IGNORE INTO texts (digest, data) VALUES (?, ?)", rows)

    def put_places(self, places: Iterable[tuple[bytes, str]], at: int) -> None:
        """Contents of these digests were at these paths, in seconds since 1970. Raises OSError."""
        try:
            with self._database.write() as connection:
                connection.executemany(_STOOD, [(*place, at) for place in places])
        except StorageFailedError as error:
            raise OSError(f"the places of texts could not be kept: {error}") from error

    def has_place(self, path: bytes, digest: str) -> bool:
        return bool(
            self._rows("SELECT 1 FROM places WHERE path = ? AND digest = ?", (path, digest))
        )

    def forget_places(self, before: int) -> None:
        """A fault keeps more than wanted."""
        with contextlib.suppress(StorageFailedError), self._database.write() as connection:
            connection.execute("DELETE FROM places WHERE at < ?", (before,))

    def get(self, digest: str) -> bytes | None:
        rows = self._rows("SELECT data FROM texts WHERE digest = ?", (digest,))
        return bytes(rows[0][0]) if rows else None

    def __contains__(self, digest: str) -> bool:
        return bool(self._rows("SELECT 1 FROM texts WHERE digest = ?", (digest,)))

    def _rows(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with contextlib.suppress(StorageFailedError):
            return self._database.rows(sql, values)
        return []

    def keep_only(self, digests: Iterable[str]) -> None:
        """A fault keeps more than wanted."""
        with contextlib.suppress(StorageFailedError), self._database.write() as connection:
            kept = {digest for (digest,) in connection.execute("SELECT digest FROM texts")}
            unwanted = [(digest,) for digest in kept.difference(digests)]
            connection.executemany("DELETE FROM texts WHERE digest = ?", unwanted)

    def close(self) -> None:
        self._database.close()


_DIGEST = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = "unfinished"
_PREFIX = 2
_PLACES = 20_000
_PLACES_ARE_KEPT_S = 90 * 24 * 60 * 60


class StoredObject(NamedTuple):
    """Size in bytes, and when it was last kept or wanted, in seconds since 1970."""

    digest: str
    size: int
    used: float


class ObjectStore:
    """What was written or replaced is durable, a file each; what was only seen is not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dropping = threading.Lock()
        self._placing = threading.Lock()
        self._places: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._needed: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._seen = TextStore(folder / "seen.db")

    def put(self, data: bytes) -> str:
        """Keep `data` for good; returns its digest. Raises StorageFailedError."""
        digest = digest_of(data)
        with _named_failures():
            is_kept = self._has(self._place(digest), data)
        if not is_kept:
            with IncomingFile(self) as incoming:
                incoming.write(data)
                incoming.keep()
        return digest

    def begin(self) -> tuple[Path, int]:
        """A new file for a content that comes in pieces, and its descriptor. OSError."""
        self._make(self._folder / _UNFINISHED)
        path = self._folder / _UNFINISHED / secrets.token_hex(8)
        return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def adopt(self, path: Path, digest: str) -> bool:
        """Keep that whole, synced file; False when its content was kept before. OSError."""
        target = self._place(digest)
        # opening it also marks it as wanted now
        with contextlib.suppress(OSError), self.opened(digest) as kept:
            if digest_of_open(kept) == digest:
                return False
        self._make(target.parent)
        path.rename(target)
        try:
            _sync_folder(target.parent)
        except OSError:
            with contextlib.suppress(OSError):
                target.unlink()
            raise
        return True

    @contextlib.contextmanager
    def opened(self, digest: str) -> Iterator[int]:
        """A descriptor of what is kept for good, which counts as wanted now. OSError."""
        with self._dropping:
            descriptor = os.open(self._place(digest), os.O_RDONLY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):
                os.utime(descriptor)
        try:
            yield descriptor
        finally:
            let_go(descriptor)

    @contextlib.contextmanager
    def needed(self, digest: str) -> Iterator[None]:
        """Inside, no other `drop` removes that content."""
        with self._dropping:
            self._needed[digest] += 1
        try:
            yield
        finally:
            with self._dropping:
                self._needed[digest] -= 1
                if not self._needed[digest]:
                    del self._needed[digest]

    def drop(self, digest: str) -> None:
        """Unless others need it: it is in the vault, and is kept again when it is replaced."""
        with self._dropping, contextlib.suppress(OSError):
            if self._needed[digest] <= 1:
                self._place(digest).unlink()

    def kept(self) -> Iterator[StoredObject]:
        """All that is kept for good, unordered. OSError."""
        with os.scandir(self._folder) as folders:
            names = [
                folder.name
                for folder in folders
                if len(folder.name) == _PREFIX and folder.is_dir(follow_symlinks=False)
            ]
        for name in names:
            with os.scandir(self._folder / name) as files:
                for file in files:
                    with contextlib.suppress(FileNotFoundError):
                        status = file.stat(follow_symlinks=False)
                        if _DIGEST.fullmatch(name + file.name):
                            yield StoredObject(name + file.name, status.st_size, status.st_mtime)

    def drop_if_unused(self, digest: str, since: float) -> bool:
        """Drop it, unless it was kept or wanted since; whether it is gone. OSError."""
        place = self._place(digest)
        with self._dropping:
            try:
                if place.stat().st_mtime > since:
                    return False
                place.unlink()
            except FileNotFoundError:
                return False
        return True

    def seen_status(self) -> DatabaseStatus:
        return self._seen.status()

    def seen_size(self) -> int:
        return sum(file.stat().st_size for file in self._folder.glob("seen.db*"))

    def sweep(self) -> None:
        """Remove what the program died while writing; nothing may be writing. OSError."""
        with contextlib.suppress(FileNotFoundError):
            for left in (self._folder / _UNFINISHED).iterdir():
                left.unlink()

    def see(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Keep contents that were only seen; a power cut may lose them. Raises OSError."""
        self._seen.put(texts)

    def stood(self, places: Iterable[tuple[str, str]]) -> None:
        """Texts of these digests stood at these paths: edits of the files may be based on them."""
        now = int(time.time())
        with self._placing:
            new = [pair for pair in dict.fromkeys(places) if pair not in self._places]
            self._places.update(dict.fromkeys(new))
            while len(self._places) > _PLACES:
                self._places.popitem(last=False)
        if new:
            with contextlib.suppress(OSError):
                self._seen.put_places([(os.fsencode(path), digest) for path, digest in new], now)

    def has_stood(self, path: str, digest: str) -> bool:
        return (path, digest) in self._places or self._seen.has_place(os.fsencode(path), digest)

    def forget_seen(self, wanted: Iterable[str]) -> None:
        """Drop what was only seen, except these digests, and places that are old."""
        self._seen.keep_only(wanted)
        self._seen.forget_places(int(time.time()) - _PLACES_ARE_KEPT_S)

    def get(self, digest: str) -> bytes | None:
        """None if it is missing or damaged."""
        try:
            data: bytes | None = self._place(digest).read_bytes()
        except OSError:
            data = self._seen.get(digest)
        return data if data is not None and digest_of(data) == digest else None

    def close(self) -> None:
        self._seen.close()

    def __contains__(self, digest: str) -> bool:
        return os.access(self._name_of(digest), os.F_OK) or digest in self._seen

    def _has(self, target: Path, data: bytes) -> bool:
        """If so it is not to be dropped in the moment in which it is wanted again."""
        with self._dropping:
            try:
                if target.read_bytes() != data:  # a crash may have left it otherwise
                    return False
            except FileNotFoundError:
                return False
            with contextlib.suppress(OSError):  # a disk that refuses that refuses to drop it too
                os.utime(target)
            return True

    def _make(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _sync_folder(self._folder)

    def _place(self, digest: str) -> Path:
        return Path(self._name_of(digest))

    def _name_of(self, digest: str) -> str:
        """As text: for every note of a scan, a Path costs time, and memory for its parts."""
        if _DIGEST.fullmatch(digest) is None:
            raise ValueError(f"{digest[:80]!r} is not a digest")
        return f"{self._folder}/{digest[:2]}/{digest[2:]}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        let_go(descriptor)


_SMALL = 4 << 20
_CHUNK = 1 << 20


class IncomingFile:
    """`size` is in bytes, `digest` SHA-256, both so far. Methods raise StorageFailedError."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._hash = hashlib.sha256()
        self.size = 0
        with _named_failures():
            self._path, self._descriptor = objects.begin()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, piece: bytes) -> None:
        with _named_failures():
            write_all(self._descriptor, piece)
        self._hash.update(piece)
        self.size += len(piece)

    def beginning(self, limit: int) -> bytes:
        with _named_failures(), self._path.open("rb") as file:
            return file.read(limit)

    def keep(self) -> bool:
        """Keep it, now whole, durably; False if that content was kept before."""
        with _named_failures():
            os.fsync(self._descriptor)
            return self._objects.adopt(self._path, self.digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        let_go(self._descriptor)
        with contextlib.suppress(OSError):  # it has another name, or is swept at the next start
            self._path.unlink()


def keep_open(objects: ObjectStore, descriptor: int) -> str:
    """Keep all that an open file holds. Raises OSError if unreadable, else StorageFailedError."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    if os.fstat(descriptor).st_size <= _SMALL:
        return objects.put(read_all(descriptor))
    with IncomingFile(objects) as incoming:
        while piece := os.read(descriptor, _CHUNK):
            incoming.write(piece)
        incoming.keep()
        return incoming.digest


@contextlib.contextmanager
def _named_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailedError(
            f"a text could not be kept: {error.strerror or os.strerror(errno.EIO)}",
            errno=error.errno,
        ) from error
