"""Late writes: files that were replaced or removed while a program had them open for writing.

What such a program writes afterwards goes into a file without a name, so it is kept open here until
that program has closed it. Linux says who is writing through a file lease; elsewhere the file is
kept for half a minute.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from parachuted.vault.paths import VaultPath
from parachuted.vault.root import digest_of, digest_of_open, let_go
from parachuted.vault.swap import holds

_MOST = 64
_KEPT_S = 30.0


@dataclass(slots=True, kw_only=True)
class LateWrite:
    """A file that lost its name: where it was, and the digest of what it held when that was last in
    a safe place.

    `until` is when to give up (monotonic seconds); `mark` is its status at the last look, `read` at
    the last time its bytes were read.
    """

    path: VaultPath
    digest: str
    descriptor: int
    until: float
    mark: tuple[int, int]
    read: tuple[int, int]


class LateWrites:
    """The files that may still be written into. Not for several threads at once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._files: list[LateWrite] = []

    def __len__(self) -> int:
        return len(self._files)

    def keep(self, path: VaultPath, descriptor: int, digest: str) -> None:
        """Go on watching an open file that has just lost its name `path`, if somebody may be
        writing into it. Never fails.
        """
        with contextlib.suppress(OSError):  # then it is kept, to be looked at later
            if is_being_written(descriptor) is False and digest_of_open(descriptor) == digest:
                return  # in this order: who was done before the first look is seen by the second
        try:
            mark, copy = _mark(descriptor), os.dup(descriptor)
        except OSError:
            return  # no descriptor is left to keep it with, and the write stands
        if len(self._files) == _MOST:
            let_go(self._files.pop(0).descriptor)
        self._files.append(
            LateWrite(
                path=path,
                digest=digest,
                descriptor=copy,
                until=self._now() + _KEPT_S,
                mark=mark,
                read=mark,
            )
        )

    def follow(self, source: VaultPath, target: VaultPath) -> None:
        for file in self._files:
            if file.path == source:
                file.path = target

    def arrived(self, *, last_call: bool = False) -> Iterator[tuple[LateWrite, bytes]]:
        """Files whose bytes have changed and rest, with those bytes.

        Set `digest` when they are in a safe place, or they come again.

        `last_call`: there will be no other call, so those that do not rest yet come too.
        """
        for file in list(self._files):
            over, data = self._look(file, last_call=last_call)
            if data is not None:
                digest = digest_of(data)
                if digest != file.digest:
                    yield file, data
                if file.digest != digest:
                    continue
                file.read = file.mark
            if over:
                self._files.remove(file)
                let_go(file.descriptor)

    def close(self) -> None:
        while self._files:
            let_go(self._files.pop().descriptor)

    def _look(self, file: LateWrite, *, last_call: bool) -> tuple[bool, bytes | None]:
        """Whether no process can write into it any more, and its bytes, if they are to be looked at
        now.
        """
        being_written = is_being_written(file.descriptor)
        over = being_written is False or (being_written is None and self._now() >= file.until)
        with contextlib.suppress(OSError):  # unreadable now: another time
            last, file.mark = file.mark, _mark(file.descriptor)
            if over or last_call or (file.mark == last and file.mark != file.read):
                return over, holds(file.descriptor)
        return False, None


def is_being_written(descriptor: int) -> bool | None:
    """Whether some program has that file open for writing; None where the system does not say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        fcntl.fcntl(
            descriptor, fcntl.F_SETSIG, signal.SIGURG
        )  # should the lease be broken in its moment: a signal that does nothing
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None
    with contextlib.suppress(OSError):  # it ends with the descriptor at the latest
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _mark(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_mtime_ns, status.st_size
