"""Root: opens files of the vault so that nothing outside it can be reached.

Every folder on the way is opened by descriptor without following links, so a link swapped in
between check and use is refused by the kernel. Links that end inside the vault are followed by
resolving them first.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parachuted.errors import NotFoundError, PathRefusedError, StorageFailedError
from parachuted.vault.paths import VaultPath, printable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20
_STABLE_READS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """What one file held at one moment: its bytes, their SHA-256 (hex) and the file's status."""

    data: bytes
    digest: str
    status: os.stat_result


def digest_of(data: bytes) -> str:
    """SHA-256 of `data` in hex: the name of a content everywhere."""
    return hashlib.sha256(data).hexdigest()


def read_all(descriptor: int) -> bytes:
    """Every byte from the descriptor's position to the end."""
    parts = []
    while part := os.read(descriptor, _CHUNK):
        parts.append(part)
    return b"".join(parts)


def digest_of_open(descriptor: int) -> str:
    """The digest of all that an open file holds, read in pieces."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    digest = hashlib.sha256()
    while part := os.read(descriptor, _CHUNK):
        digest.update(part)
    return digest.hexdigest()


@contextlib.contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Turn what the system refuses inside into an error that names the path: missing, refused, or
    the disk failed.
    """
    try:
        yield
    except OSError as error:
        shown = printable(path)
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            raise NotFoundError(f"{shown} is not in the vault") from error
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
            raise PathRefusedError(f"{shown} is not a regular file of the vault") from error
        raise StorageFailedError(
            f"{shown}: {error.strerror or os.strerror(errno.EIO)}", errno=error.errno
        ) from error


def let_go(descriptor: int) -> None:
    """Close a descriptor that nothing was written through: whatever the system says to that,
    nothing is lost.
    """
    try:  # noqa: SIM105  suppress costs more than the call, and a scan closes every file
        os.close(descriptor)
    except OSError:
        pass


def begin_sync(descriptor: int) -> None:
    """Have the system begin to write what an open file holds, where it can: many begun so are soon
    synced.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


class _Way(threading.local):
    """How paths are followed in one thread."""

    is_straight = False


class VaultRoot:
    """The vault's folder, and the only way to open what is in it."""

    def __init__(self, folder: Path) -> None:
        """`folder` may itself be a link; it is resolved once, here."""
        self.folder = folder.resolve()
        self._way = _Way()

    @contextlib.contextmanager
    def straight(self) -> Iterator[None]:
        """Inside, and in this thread, no link is followed on any path: PathRefusedError.

        For who has asked where a path leads and judged that place: a link that is swapped in since
        must not lead elsewhere.
        """
        before, self._way.is_straight = self._way.is_straight, True
        try:
            yield
        finally:
            self._way.is_straight = before

    @contextlib.contextmanager
    def opened_folder(self, path: str, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder `path` (empty: the vault).

        OSError as the system gives it; links are not followed.

        A vault that is not there is ESTALE, so that it is never taken for a note that is not there.
        """
        descriptor = self._open()
        try:
            for name in path.split("/") if path else []:
                child = (
                    _open_or_make(name, descriptor)
                    if create
                    else os.open(name, _FOLDER, dir_fd=descriptor)
                )
                let_go(descriptor)
                descriptor = child
            yield descriptor
        finally:
            let_go(descriptor)

    @contextlib.contextmanager
    def opened_file(self, path: VaultPath) -> Iterator[int]:
        """A descriptor of the regular file `path`, for reading.

        OSError as the system gives it; links are not followed.
        """
        with self.opened_folder(path.folder) as folder:
            descriptor = os.open(path.name, _FILE, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.ENXIO, "not a regular file")
            yield descriptor
        finally:
            let_go(descriptor)

    def resolve(self, path: VaultPath) -> VaultPath:
        """The path with links inside the vault followed; raises PathRefusedError when one leaves
        it, or changes all the while.
        """
        real = self._followed(path)
        prefix = f"{self.folder}/"
        if not real.startswith(prefix):
            raise PathRefusedError(f"{printable(path)} is a link that leaves the vault")
        found = VaultPath.parse(real.removeprefix(prefix))
        if self._way.is_straight and found != path:
            raise PathRefusedError(
                f"{printable(path)} is a link now, so it is not what was asked for"
            )
        return found

    def size(self, path: VaultPath) -> int:
        """How many bytes the regular file holds.

        Raises NotFoundError, PathRefusedError or StorageFailedError.
        """
        with named_errors(path), self.opened_file(self.resolve(path)) as descriptor:
            return os.fstat(descriptor).st_size

    def read(self, path: VaultPath) -> FileContent:
        """The file's content, read until two looks agree.

        Raises NotFoundError, PathRefusedError or StorageFailedError.
        """
        with named_errors(path):
            try:
                return self._read(path)
            except OSError as error:
                if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
                    raise
            return self._read(self.resolve(path))

    def read_head(self, path: VaultPath, limit: int) -> tuple[bytes, int]:
        """At most `limit` bytes of the file's beginning, and its whole size.

        Links are not followed. Raises as `read` does.
        """
        with named_errors(path), self.opened_file(path) as descriptor:
            return os.pread(descriptor, limit, 0), os.fstat(descriptor).st_size

    def _followed(self, path: VaultPath) -> str:
        for _ in range(_STABLE_READS):
            try:
                return os.path.realpath(self.folder / path)
            except OSError as error:
                if error.errno not in {
                    errno.EINVAL,
                    errno.ENOENT,
                }:  # what was a link a moment ago is a folder now, or gone
                    raise
        raise PathRefusedError(f"{printable(path)} lies behind a link that is being changed")

    def _open(self) -> int:
        try:
            return os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR}:
                raise OSError(errno.ESTALE, "the vault is not there") from error
            raise

    def _read(self, path: VaultPath) -> FileContent:
        for _ in range(_STABLE_READS):
            with self.opened_file(path) as descriptor:
                before = os.fstat(descriptor)
                data = read_all(descriptor)
                after = os.fstat(descriptor)
            if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
                break
        return FileContent(data=data, digest=digest_of(data), status=after)


def _open_or_make(name: str, folder: int) -> int:
    """Open the folder `name`, making it (durably) when it is missing."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            os.fsync(folder)
        return os.open(name, _FOLDER, dir_fd=folder)
