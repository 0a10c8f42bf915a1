"""Private: files of the home, replaced whole, and trusted only if no other user can write them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from parachuted.errors import PathRefusedError

_STABLE_LOOKS = 5
_OTHERS_MAY_WRITE, _OTHERS_MAY_ANYTHING = 0o022, 0o077


class UntrustedFileError(Exception):
    """The file cannot be read, or not be believed; the message says why."""


def read_private(
    path: Path, limit: int, *, is_secret: bool = False, may_be_shared: bool = False
) -> str | None:
    """A file that others can't have changed (unless it may be shared) nor read (where it is
    secret); None: there is none. Raises UntrustedFileError.
    """
    try:
        with open(path, "rb", opener=without_waiting) as file:
            at = os.fstat(file.fileno())
            is_ours = may_be_shared and stat.S_ISREG(at.st_mode)
            why = None if is_ours else why_untrusted(path, at, is_secret=is_secret)
            if why is None and at.st_size > limit:
                why = f"{path.name} is larger than {limit // 1024} KB"
            text = "" if why else file.read(limit).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f"{path.name} cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        why = f"{path.name} is not UTF-8 text"
    if why is not None:
        raise UntrustedFileError(why)
    return text


def mark_of(at: os.stat_result) -> tuple[int, ...]:
    return at.st_dev, at.st_ino, at.st_mode, at.st_uid, at.st_size, at.st_mtime_ns, at.st_ctime_ns


def mark_at(path: Path) -> tuple[int, ...] | None:
    for look in (os.stat, os.lstat):  # a link that leads to itself is something, too
        try:
            return mark_of(look(path))
        except FileNotFoundError:
            return None
        except OSError:
            continue
    return None


def real_path(path: Path) -> Path:
    """Without links on its way. A circle of links stays, where `Path.resolve` raises RuntimeError
    before Python 3.13. PathRefusedError for a link that keeps changing.
    """
    for _ in range(_STABLE_LOOKS):
        try:
            return Path(os.path.realpath(path))
        except OSError as error:  # what was a link a moment ago is a folder now, or gone
            if error.errno not in {errno.EINVAL, errno.ENOENT}:
                raise
    raise PathRefusedError(f"{path.name!r} lies behind a link that is being changed")


def is_in(inner: Path, outer: Path) -> bool:
    """Whether `inner` is `outer` or below it, also by another spelling. Both are real paths."""
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


def replace_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put `data` in the place of that file, or of none, durably. OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb", opener=partial(as_private, mode=mode)) as file:
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


def why_untrusted(
    path: Path, at: os.stat_result, *, is_secret: bool = False, is_folder: bool = False
) -> str | None:
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(at.st_mode):
        return f"{path} is not a {'folder' if is_folder else 'file'}"
    if at.st_uid not in {os.geteuid(), 0}:
        return f"{path} belongs to someone else"
    if is_secret and at.st_mode & _OTHERS_MAY_ANYTHING:
        return f"others may read or change {path}; `chmod 600 {path}` mends that"
    is_open = at.st_mode & _OTHERS_MAY_WRITE
    return f"others may change {path}; `chmod go-w {path}` mends that" if is_open else None


def as_private(path: str, flags: int, mode: int = 0o600) -> int:
    """An opener for `open`: no link is followed, and what is made is the person's alone."""
    return os.open(path, flags | os.O_NOFOLLOW, mode)
