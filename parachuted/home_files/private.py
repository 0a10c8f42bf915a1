"""Private: files of the home, replaced whole or not at all, and trusted only where no other user
could have written them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

_OTHERS_MAY_WRITE, _OTHERS_MAY_ANYTHING = 0o022, 0o077


class UntrustedFileError(Exception):
    """The file cannot be read, or not be believed; the message says why."""


def read_private(path: Path, limit: int, *, is_secret: bool = False) -> str | None:
    """The text of a file by which something is allowed; None: there is none.

    Raises UntrustedFileError.

    Others may not have been able to change it, nor, where it is secret, to read it.
    """
    try:
        with open(path, "rb", opener=without_waiting) as file:
            _check(path.name, os.fstat(file.fileno()), is_secret=is_secret)
            data = file.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UntrustedFileError(f"{path.name} cannot be read ({error.strerror})") from error
    if len(data) > limit:
        raise UntrustedFileError(f"{path.name} is larger than {limit // 1024} KB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UntrustedFileError(f"{path.name} is not UTF-8 text") from error


def mark_of(at: os.stat_result) -> tuple[int, ...]:
    """What changes whenever the file does."""
    return at.st_dev, at.st_ino, at.st_mode, at.st_uid, at.st_size, at.st_mtime_ns, at.st_ctime_ns


def mark_at(path: Path) -> tuple[int, ...] | None:
    try:
        return mark_of(os.stat(path))  # noqa: PTH116  half the time, and this is looked at twice a second
    except FileNotFoundError:
        return None
    except OSError:
        pass
    try:  # a link that leads to itself is something, whose removal is a change
        return mark_of(path.lstat())
    except OSError:
        return None


def is_in(inner: Path, outer: Path) -> bool:
    """Whether `inner` is the folder `outer` or below it, also where the disk takes other letters
    for the same name. Both are resolved.
    """
    mark = mark_at(outer)
    places = (place[:2] for place in map(mark_at, (inner, *inner.parents)) if place is not None)
    return inner.is_relative_to(outer) or (mark is not None and mark[:2] in places)


def without_waiting(path: str, flags: int) -> int:
    """An opener for `open`: a pipe that somebody put in the file's place does not hold us."""
    return os.open(path, flags | os.O_NONBLOCK)


@contextlib.contextmanager
def locked(home: Path, name: str) -> Iterator[None]:
    """One at a time, on this machine. OSError when the disk refuses."""
    run = home / "run"
    for folder in (home, run):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(run / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_private(path: Path, data: bytes) -> None:
    """Put `data` in the place of that file, or of none, durably; its mode becomes 0600.

    OSError when the disk refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _check(name: str, at: os.stat_result, *, is_secret: bool) -> None:
    if not stat.S_ISREG(at.st_mode) or at.st_uid not in {os.geteuid(), 0}:
        raise UntrustedFileError(f"{name} is not a file of yours")
    if at.st_mode & (_OTHERS_MAY_ANYTHING if is_secret else _OTHERS_MAY_WRITE):
        raise UntrustedFileError(
            f"others may {'read or ' if is_secret else ''}change {name}; `chmod 600` on it mends "
            "that"
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
