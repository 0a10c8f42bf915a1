"""Incoming: a content of any size on its way into the objects, written and hashed piece by piece
and never wholly in memory.

What is not kept in the end is removed; what a kill leaves, the next start sweeps away with all that
is unfinished.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from types import TracebackType
from typing import Self

from parachuted.errors import StorageFailedError
from parachuted.vault.objects import ObjectStore
from parachuted.vault.root import let_go, read_all

_SMALL = 4 << 20
_CHUNK = 1 << 20


class IncomingFile:
    """Use it with `with`; methods block on the disk and raise StorageFailedError.

    `size` is in bytes, `digest` SHA-256, both so far.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._hash = hashlib.sha256()
        self.size = 0
        try:
            self._path, self._descriptor = objects.begin()
        except OSError as error:
            raise _failed(error) from error

    @property
    def digest(self) -> str:
        """The SHA-256 of what came so far, in hex."""
        return self._hash.hexdigest()

    def write(self, piece: bytes) -> None:
        """The next piece."""
        view = memoryview(piece)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise _failed(error) from error
        self._hash.update(piece)
        self.size += len(piece)

    def beginning(self, limit: int) -> bytes:
        """At most so many of its first bytes."""
        try:
            with self._path.open("rb") as file:
                return file.read(limit)
        except OSError as error:
            raise _failed(error) from error

    def keep(self) -> bool:
        """It is whole: keep it, durably, under its digest. False: that content was kept before."""
        try:
            os.fsync(self._descriptor)
            return self._objects.adopt(self._path, self.digest)
        except OSError as error:
            raise _failed(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        let_go(self._descriptor)
        with contextlib.suppress(
            OSError
        ):  # it has another name by now, or is swept at the next start
            self._path.unlink()


def keep_open(objects: ObjectStore, descriptor: int) -> str:
    """Keep all that an open file holds; returns its digest.

    OSError when it cannot be read, StorageFailedError when it cannot be kept.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)
    if os.fstat(descriptor).st_size <= _SMALL:
        return objects.put(read_all(descriptor))
    with IncomingFile(objects) as incoming:
        while piece := os.read(descriptor, _CHUNK):
            incoming.write(piece)
        incoming.keep()
        return incoming.digest


def _failed(error: OSError) -> StorageFailedError:
    return StorageFailedError(
        f"a content could not be kept: {error.strerror or os.strerror(errno.EIO)}",
        errno=error.errno,
    )
