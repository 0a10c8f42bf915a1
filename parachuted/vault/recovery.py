"""Recovery: completes or undoes writes that a crash or a failing disk interrupted.

It decides by what is on the disk. Nothing a person saved is ever removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from parachuted.errors import StorageFailedError
from parachuted.vault import swap
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.root import VaultRoot, digest_of, digest_of_open, let_go, opened
from parachuted.vault.swap import exchange, holds, move_to_free_name, put_aside
from parachuted.vault.write_journal import WriteJournal
from parachuted.vault.write_records import Write

_MOST = 64
_KEPT_S = 30.0


@dataclass(slots=True, kw_only=True)
class LateWrite:
    """A file that lost its name, with the digest of what it held when that was last safe.

    `until` is when to give up (monotonic seconds); `mark` its status at the last look, `read` when
    its bytes were last read; `was_returned`: it has its name again.
    """

    path: VaultPath
    digest: str
    descriptor: int
    until: float
    mark: tuple[int, int]
    read: tuple[int, int]
    was_returned: bool = False


class LateWrites:
    """The files that may still be written into. Not for several threads at once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._files: list[LateWrite] = []

    def __len__(self) -> int:
        return len(self._files)

    def keep(self, path: VaultPath, descriptor: int, digest: str) -> None:
        """Watch an open file that lost its name, if it may still be written into. Never fails."""
        with contextlib.suppress(OSError):  # then it is kept, to be looked at later
            if is_being_written(descriptor) is False and digest_of_open(descriptor) == digest:
                return  # in this order: who was done before the first look is seen by the second
        self._add(path, descriptor, digest)

    def keep_returned(self, path: VaultPath, descriptor: int, base: str) -> None:
        """Look again at an open file that was put back under its name. Never fails.

        For a moment a text made from `base` stood there: a program that read that, and replaces the
        file, takes away what this file adds to it.
        """
        self._add(path, descriptor, base, was_returned=True)

    def _add(
        self, path: VaultPath, descriptor: int, digest: str, *, was_returned: bool = False
    ) -> None:
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
                was_returned=was_returned,
            )
        )

    def follow(self, source: VaultPath, target: VaultPath) -> None:
        for file in self._files:
            if file.path == source:
                file.path = target

    def arrived(self, *, last_call: bool = False) -> Iterator[tuple[LateWrite, bytes]]:
        """Files whose bytes have changed and rest (`last_call`: or not), with those bytes.

        Set `digest` when they are in a safe place, or they come again.
        """
        for file in list(self._files):
            if file.was_returned and os.fstat(file.descriptor).st_nlink:  # it is still there
                self._files.remove(file)
                let_go(file.descriptor)
                continue
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
        """Whether nothing can write into it any more, and its bytes, if it is time to look."""
        being_written = is_being_written(file.descriptor)
        over = being_written is False or (being_written is None and self._now() >= file.until)
        with contextlib.suppress(OSError):  # unreadable now: another time
            last, file.mark = file.mark, _mark(file.descriptor)
            if over or last_call or (file.mark == last and file.mark != file.read):
                return over, holds(file.descriptor)
        return False, None


def is_being_written(descriptor: int) -> bool | None:
    """None where the system does not say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # should the lease be broken in its moment: a signal that does nothing
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
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


log = logging.getLogger(__name__)

_TURNS = 9
_CHUNK = 1 << 20
_NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    root: VaultRoot
    objects: ObjectStore
    history: WriteJournal
    now: datetime
    late: LateWrites | None = None

    def run(self) -> list[str]:
        """Settle all, before anything writes; returns what a person should know."""
        said = [self._tried(write) for write in self.history.intended()]
        try:
            self.objects.sweep()
        except OSError as error:
            said.append(
                f"what was left of an unfinished text could not be removed: {error.strerror}"
            )
        return [text for text in said if text is not None]

    def settle(self, write: Write, *, undo: bool = False) -> str | None:
        """Clear away what the write left and record how it ended. OSError, StorageFailedError.

        One that had put its text in place, but was not done, stands; with `undo` it is taken back.
        """
        path = VaultPath(write.path)
        try:
            with self.root.opened_folder(path.folder) as folder:
                leftover = _Leftover(
                    folder=folder,
                    name=path.name,
                    write=write,
                    objects=self.objects,
                    now=self.now,
                    undo=undo,
                    late=self.late,
                )
                copy = leftover.clear()
                done = not leftover.was_undone and swap.digest_at(folder, path.name) == write.after
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            copy, done = None, write.after is None
        self.history.settle(write.id, "done" if done else "void")
        if copy is None:
            return None
        log.warning(
            "kept a text that was being replaced",
            extra={"path": printable(path), "copy": printable(copy)},
        )
        return (
            f"a text of {printable(path)} that was being replaced when a write was cut short "
            f"is kept as {printable(copy)}"
        )

    def _tried(self, write: Write) -> str | None:
        try:
            return self.settle(write)
        except (OSError, StorageFailedError) as error:
            return (
                f"a write of {printable(write.path)} was cut short and cannot be looked at "
                f"yet: {error}"
            )


@dataclass(slots=True, kw_only=True)
class _Leftover:
    """The temporary name may hold our text, whole or in part, the one replaced, or a person's."""

    folder: int
    name: str
    write: Write
    objects: ObjectStore
    now: datetime
    undo: bool
    late: LateWrites | None
    was_undone: bool = False

    def clear(self) -> str | None:
        """Returns the name of a copy, where a text could not go back to its place."""
        for _ in range(_TURNS):
            if not swap.is_there(self.folder, self.write.temporary):
                return None
            held = swap.digest_at(self.folder, self.write.temporary)
            present = swap.digest_at(self.folder, self.name)
            if self._is_known(held, present):
                os.unlink(self.write.temporary, dir_fd=self.folder)
                return None
            if not swap.is_there(self.folder, self.name):
                self._give_back()
            elif (
                present is None
                or present not in {self.write.before, self.write.after}
                or not self._exchange()
            ):
                return put_aside(self.folder, self.write.temporary, self.name, self.now)
        raise OSError(
            errno.EAGAIN,
            f"it is being changed too quickly; a text is kept in {self.write.temporary}",
        )

    def _is_known(self, held: str | None, present: str | None) -> bool:
        """Whether it may go: it is ours, or is kept in the objects and was meant to be replaced."""
        write = self.write
        if held is None:
            return False
        if held == write.after:
            self.was_undone = not self._has_both_names()
            return True
        if present is not None and present == write.after:
            return held == write.before and not self.undo
        if held == write.before:
            return write.after is not None or swap.is_there(self.folder, self.name)
        if self._is_begun():
            self.was_undone = True
            return True
        return False

    def _is_begun(self) -> bool:
        """Whether it holds the beginning of our text, still being written beside the old one."""
        if self.write.after is None:
            return False
        try:
            kept = self.objects.opened(self.write.after)
            with kept as ours, opened(self.folder, self.write.temporary) as descriptor:
                return _begins_with(ours, descriptor)
        except FileNotFoundError:
            return False

    def _has_both_names(self) -> bool:
        """Done but for the temporary name, where the disk knows links, but no better rename."""
        both = [
            os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            for name in (self.write.temporary, self.name)
            if swap.is_there(self.folder, name)
        ]
        return len(both) == 2 and os.path.samestat(*both)  # noqa: PLR2004

    def _exchange(self) -> bool:
        """What a person saved is newer than our text. False: the file system cannot exchange."""
        with contextlib.ExitStack() as stack:
            saved = None
            with contextlib.suppress(OSError):  # what is not a file has no text
                saved = stack.enter_context(opened(self.folder, self.write.temporary))
            try:
                exchange(self.folder, self.write.temporary, self.name)
            except NotImplementedError:
                return False
            if saved is not None and self.late is not None and self.write.before is not None:
                self.late.keep_returned(VaultPath(self.write.path), saved, self.write.before)
        self.was_undone = True
        return True

    def _give_back(self) -> None:
        """A file that comes there meanwhile is looked at in the next turn."""
        self.was_undone = True
        try:
            move_to_free_name((self.folder, self.write.temporary), (self.folder, self.name))
        except FileExistsError:
            return


def _begins_with(whole: int, part: int) -> bool:
    while piece := os.read(part, _CHUNK):
        if os.read(whole, len(piece)) != piece:
            return False
    return True
