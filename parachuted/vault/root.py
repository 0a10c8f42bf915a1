"""Root: opens files of the vault so that nothing outside it can be reached.

Every folder on the way is opened by descriptor, not through links, so a link swapped in between
check and use is refused by the kernel. Links that end inside the vault are resolved first.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from parachuted.errors import (
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.home_files.private import real_path
from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.paths import VaultPath, printable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder on the way need not be readable, as /home is not on some machines (macOS: O_SEARCH).
_ON_THE_WAY = _FOLDER | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20
_STABLE_READS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    data: bytes
    digest: str
    status: os.stat_result


class _PlaceTakenError(NotADirectoryError):
    """What stands where a folder was to be made is a file or a link."""


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, _CHUNK):
        parts.append(part)
    return b"".join(parts)


def digest_of_open(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    digest = hashlib.sha256()
    while part := os.read(descriptor, _CHUNK):
        digest.update(part)
    return digest.hexdigest()


@contextlib.contextmanager
def named_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        shown = printable(path)
        if isinstance(error, _PlaceTakenError):
            raise PathRefusedError(
                f"{printable(error.filename)!r} is a file or a link where a folder is needed; "
                "rename it, and try again"
            ) from error
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            raise NotFoundError(f"{shown} is not in the vault") from error
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
            raise PathRefusedError(f"{shown} is not a regular file of the vault") from error
        raise StorageFailedError(
            f"{shown}: {error.strerror or os.strerror(errno.EIO)}", errno=error.errno
        ) from error


def let_go(descriptor: int) -> None:
    """Close a descriptor that nothing was written through; an error loses nothing."""
    try:  # noqa: SIM105  suppress costs more than the call, and a scan closes every file
        os.close(descriptor)
    except OSError:
        pass


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def opened(folder: int, name: str) -> Iterator[int]:
    """A regular file for reading. OSError; ENXIO when it is not a regular file."""
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        yield descriptor
    finally:
        let_go(descriptor)


class _Way(threading.local):
    is_straight = False


class VaultRoot:
    def __init__(self, folder: Path) -> None:
        """`folder` may itself be a link; it is resolved once, here."""
        self.folder = real_path(folder)
        self.ignore = IgnoreRules()
        self._way = _Way()
        self._own: tuple[int, int] | None = None
        self._is_own: Callable[[int], bool] | None = None

    def guard(self, is_own: Callable[[int], bool]) -> None:
        """From now on refuse to write in another folder put in the vault's place.

        It may be the mount point of a disk that is gone; `is_own` knows the same vault by its
        descriptor. OSError when the vault is not there.
        """
        with self.opened_folder("") as folder:
            self._own = _identity(folder)
        self._is_own = is_own

    @contextlib.contextmanager
    def straight(self) -> Iterator[None]:
        """Inside, in this thread, links on any path are refused: one may be swapped in."""
        before, self._way.is_straight = self._way.is_straight, True
        try:
            yield
        finally:
            self._way.is_straight = before

    @contextlib.contextmanager
    def opened_folder(
        self, path: str, *, create: bool = False, to_write: bool = False
    ) -> Iterator[int]:
        """The folder `path`, which `create` makes; links are not followed.

        OSError; ESTALE if the vault is missing, or is another one and is written to.
        """
        descriptor = self._open()
        try:
            if create or to_write:
                self._check(descriptor)
            names = path.split("/") if path else []
            for count, name in enumerate(names, start=1):
                flags = _FOLDER if count == len(names) else _ON_THE_WAY
                child = (
                    _open_or_make(name, descriptor)
                    if create
                    else os.open(name, flags, dir_fd=descriptor)
                )
                let_go(descriptor)
                descriptor = child
            yield descriptor
        finally:
            let_go(descriptor)

    @contextlib.contextmanager
    def opened_file(self, path: VaultPath) -> Iterator[int]:
        """The regular file for reading; links are not followed. OSError."""
        with contextlib.ExitStack() as stack:
            with self.opened_folder(path.folder) as folder:
                descriptor = stack.enter_context(opened(folder, path.name))
            yield descriptor

    def resolve(self, path: VaultPath) -> VaultPath:
        """Follow links inside the vault. PathRefusedError when one leaves it, or keeps changing."""
        real = real_path(self.folder / path)
        if not real.is_relative_to(self.folder):
            raise PathRefusedError(f"{printable(path)} is a link that leaves the vault")
        vault_path = VaultPath.parse(str(real.relative_to(self.folder)))
        if self._way.is_straight and vault_path != path:
            raise PathRefusedError(
                f"{printable(path)} is a link now, so it is not what was asked for"
            )
        return vault_path

    def is_there(self, path: VaultPath) -> bool:
        with contextlib.suppress(OSError), self.opened_folder(path.folder) as folder:
            os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def size(self, path: VaultPath) -> int:
        with named_errors(path), self.opened_file(self.resolve(path)) as descriptor:
            return os.fstat(descriptor).st_size

    def read(self, path: VaultPath) -> FileContent:
        """Read until two looks agree. NotFoundError, PathRefusedError, StorageFailedError."""
        with named_errors(path):
            try:
                return self._read(path)
            except OSError as error:
                if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
                    raise
            return self._read(self.resolve(path))

    def read_each(
        self, paths: Iterable[VaultPath], largest: int
    ) -> Iterator[tuple[VaultPath, FileContent | ParachuteError]]:
        """Each file, or why it cannot be read; those of one folder, in a row, share its opening."""
        for folder, below in itertools.groupby(paths, key=lambda path: path.folder):
            with contextlib.ExitStack() as stack:
                opened = None
                for path in below:
                    try:
                        with named_errors(path):
                            if opened is None:
                                opened = stack.enter_context(self.opened_folder(folder))
                            found: FileContent | ParachuteError = _read_in(opened, path, largest)
                    except ParachuteError as error:
                        found = error
                    yield path, found

    def read_head(self, path: VaultPath, limit: int) -> tuple[bytes, int]:
        """At most `limit` bytes of the beginning, and the whole size. Raises as `read` does."""
        with named_errors(path), self.opened_file(path) as descriptor:
            return os.pread(descriptor, limit, 0), os.fstat(descriptor).st_size

    def _open(self) -> int:
        try:
            return os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR}:
                raise OSError(errno.ESTALE, "the vault is not there") from error
            raise

    def _check(self, folder: int) -> None:
        if self._is_own is None or (found := _identity(folder)) == self._own:
            return
        if not self._is_own(folder):
            raise OSError(errno.ESTALE, "another folder is in the vault's place")
        self._own = found

    def _read(self, path: VaultPath) -> FileContent:
        with self.opened_folder(path.folder) as folder:
            return _read_in(folder, path)


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def _read_in(folder: int, path: VaultPath, largest: int | None = None) -> FileContent:
    """OSError; EditRefusedError for what is larger than `largest`."""
    for _ in range(_STABLE_READS):
        with opened(folder, path.name) as descriptor:
            before = os.fstat(descriptor)
            if largest is not None and before.st_size > largest:
                raise EditRefusedError(f"{printable(path)} is larger than is read at once")
            data = read_all(descriptor)
            after = os.fstat(descriptor)
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            break
    return FileContent(data=data, digest=digest_of(data), status=after)


def _open_or_make(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            os.fsync(folder)
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError as error:
        raise _PlaceTakenError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name) from error
