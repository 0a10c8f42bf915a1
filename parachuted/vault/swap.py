"""Swap: replaces a file's bytes in one step.

A name is replaced by exchange: the new file and the old one trade names in one step, then what came
out is compared with what should have been there. A write is made when its temporary name is gone;
what fails before that leaves the rest to `recovery`, which undoes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator

from parachuted.vault.rename import exchange, move_to_free_name
from parachuted.vault.root import begin_sync, digest_of_open, let_go, read_all

TEMPORARY_PREFIX = ".parachute-"
TEMPORARY_SUFFIX = ".tmp"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20
_NO_REGULAR_FILE = {errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ENOTDIR}
_NO_SUCH_ATTRIBUTE = {errno.ENOTSUP, errno.ENODATA, errno.EPERM, errno.EACCES}


class MovedBaseError(Exception):
    """The file is not what it was when it was read; nothing was written."""


def temporary_name() -> str:
    return f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"


@contextlib.contextmanager
def opened(folder: int, name: str) -> Iterator[int]:
    """A descriptor of the regular file of that name, for reading.

    OSError as the system gives it; ENXIO when it is no regular file.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        yield descriptor
    finally:
        let_go(descriptor)


def digest_at(folder: int, name: str) -> str | None:
    """The digest of what a name in a folder holds now; None when there is no regular file.

    OSError when it cannot be read.
    """
    try:
        with opened(folder, name) as descriptor:
            return digest_of_open(descriptor)
    except OSError as error:
        if error.errno in _NO_REGULAR_FILE:
            return None
        raise


def is_there(folder: int, name: str) -> bool:
    """Whether anything has that name. OSError."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_temporary(folder: int, name: str, data: bytes, original: int | None = None) -> None:
    """Write and sync a new file, with the mode, owner and extended attributes of the open file that
    it will replace.
    """
    with _temporary(folder, name, original) as descriptor:
        _write_all(descriptor, data)


def copy_temporary(folder: int, name: str, source: int, original: int | None = None) -> None:
    """The same with all that an open file holds, in pieces."""
    os.lseek(source, 0, os.SEEK_SET)
    with _temporary(folder, name, original) as descriptor:
        while piece := os.read(source, _CHUNK):
            _write_all(descriptor, piece)


def begin_temporary(folder: int, name: str, data: bytes, original: int) -> int:
    """The same, but for the sync, which is left to the caller, as is the closing: a descriptor."""
    descriptor = _new(folder, name, 0o600)
    try:
        _write_all(descriptor, data)
        _copy_attributes(original, descriptor)
    except BaseException:
        let_go(descriptor)
        raise
    begin_sync(descriptor)
    return descriptor


@contextlib.contextmanager
def _temporary(folder: int, name: str, original: int | None) -> Iterator[int]:
    descriptor = _new(folder, name, 0o666 if original is None else 0o600)
    try:
        yield descriptor
        if original is not None:
            _copy_attributes(original, descriptor)
        os.fsync(descriptor)
    finally:
        let_go(descriptor)  # all is on the disk, or has failed already


def _new(folder: int, name: str, mode: int) -> int:
    return os.open(
        name,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        mode,
        dir_fd=folder,
    )


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace(folder: int, name: str, temporary: str, original: int, *, old: str) -> None:
    """Put the temporary file in place of `name`, which must be the open file `original` and hold
    the digest `old`.

    Raises MovedBaseError when it is, or holds, something else; OSError when the disk refuses.
    """
    if trade(folder, name, temporary, original, old=old):
        _remove_durably(folder, temporary)
    else:
        os.fsync(folder)


def trade(folder: int, name: str, temporary: str, original: int, *, old: str) -> bool:
    """The first half of `replace`, not durable yet: whether the old file now has the temporary
    name, which is still to be removed.
    """
    _expect(folder, name, original, old)
    try:
        exchange(folder, temporary, name)
    except (
        NotImplementedError
    ):  # here a save between the check and the rename is lost; such a file system has no better
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return False
    _expect(folder, temporary, original, old)
    return True


def create(folder: int, name: str, temporary: str) -> None:
    """Give the temporary file its free name; raises MovedBaseError when something is there."""
    try:
        move_to_free_name((folder, temporary), (folder, name))
    except FileExistsError as error:
        raise MovedBaseError from error
    try:
        os.fsync(folder)
    except OSError:
        move_to_free_name((folder, name), (folder, temporary))
        raise


def remove(folder: int, name: str, temporary: str, original: int, *, old: str) -> None:
    """Take away the open file `original` of digest `old` by way of the temporary name; raises
    MovedBaseError when it is another.
    """
    _expect(folder, name, original, old)
    move_to_free_name((folder, name), (folder, temporary))
    _expect(folder, temporary, original, old)
    _remove_durably(folder, temporary)


def rename_durably(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Rename between two folders and sync both; raises MovedBaseError when the target's name is
    taken.
    """
    try:
        move_to_free_name(source, target)
    except FileExistsError as error:
        raise MovedBaseError from error
    try:
        os.fsync(target[0])
        os.fsync(source[0])
    except OSError:
        move_to_free_name(target, source)
        raise


def holds(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return read_all(descriptor)


def _expect(folder: int, name: str, original: int, old: str) -> None:
    if not _is_at(folder, name, original) or digest_of_open(original) != old:
        raise MovedBaseError


def _is_at(folder: int, name: str, descriptor: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _remove_durably(folder: int, temporary: str) -> None:
    os.fsync(folder)
    os.unlink(temporary, dir_fd=folder)
    with contextlib.suppress(
        OSError
    ):  # the write stands; a power cut may bring the temporary name back, no more
        os.fsync(folder)


def _copy_attributes(original: int, descriptor: int) -> None:
    like = os.fstat(original)
    _copy_owner(descriptor, like)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    for attribute in _attributes(original):
        try:
            os.setxattr(descriptor, attribute, os.getxattr(original, attribute))
        except OSError as error:
            if error.errno not in _NO_SUCH_ATTRIBUTE:
                raise


def _copy_owner(descriptor: int, like: os.stat_result) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) == (like.st_uid, like.st_gid):
        return
    try:
        os.fchown(descriptor, like.st_uid, like.st_gid)
    except PermissionError:  # not root: the group at least, where we are in it
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, -1, like.st_gid)


def _attributes(descriptor: int) -> list[str]:
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(descriptor)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return []  # a file system without extended attributes
