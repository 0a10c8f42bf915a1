"""Recovery: completes or undoes writes that a crash or a failing disk interrupted, by what is on
the disk.

Nothing a person saved is ever removed.
"""

from __future__ import annotations

import errno
import logging
import os
from dataclasses import dataclass
from datetime import datetime

from parachuted.errors import StorageFailedError
from parachuted.vault import swap
from parachuted.vault.history import History, Write
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.rename import exchange, move_to_free_name, put_aside
from parachuted.vault.root import VaultRoot

log = logging.getLogger(__name__)

_TURNS = 9
_CHUNK = 1 << 20
_NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    root: VaultRoot
    objects: ObjectStore
    history: History
    now: datetime

    def run(self) -> list[str]:
        """Settle all; returns what a person should know. For the start, before anything writes."""
        said = [self._tried(write) for write in self.history.intended()]
        try:
            self.objects.sweep()
        except OSError as error:
            said.append(
                f"what was left of an unfinished text could not be removed: {error.strerror}"
            )
        return [text for text in said if text is not None]

    def settle(self, write: Write, *, undo: bool = False) -> str | None:
        """Clear away what the write left and record how it ended; returns what a person should
        know.

        A write that had put its text in place, but was not done, stands; with `undo` it is taken
        back. Raises OSError, StorageFailedError.
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
    """The temporary name of a write: it may hold our text, whole or in part, the text that was
    replaced, or, in between, a person's.
    """

    folder: int
    name: str
    write: Write
    objects: ObjectStore
    now: datetime
    undo: bool
    was_undone: bool = False

    def clear(self) -> str | None:
        """Leave nothing under the temporary name.

        Returns the name of a copy, where a text could not go back to its place.
        """
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
        """Whether the temporary file may go: its text is ours, or is kept in the objects and was
        meant to be replaced.
        """
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
        """Whether it holds the beginning of our text: the write was cut short while it was still
        being written beside the old one.
        """
        if self.write.after is None:
            return False
        try:
            kept = self.objects.opened(self.write.after)
            with kept as ours, swap.opened(self.folder, self.write.temporary) as descriptor:
                return _begins_with(ours, descriptor)
        except FileNotFoundError:
            return False

    def _has_both_names(self) -> bool:
        """Whether it is done but for taking the temporary name away: so it goes where the disk
        knows links, but no better rename.
        """
        both = [
            os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            for name in (self.write.temporary, self.name)
            if swap.is_there(self.folder, name)
        ]
        return len(both) == 2 and os.path.samestat(*both)  # noqa: PLR2004

    def _exchange(self) -> bool:
        """Put what a person saved in place: it is newer than what we read or wrote.

        False where the file system cannot.
        """
        try:
            exchange(self.folder, self.write.temporary, self.name)
        except NotImplementedError:
            return False
        self.was_undone = True
        return True

    def _give_back(self) -> None:
        """Put the file back under its name; a file that comes there meanwhile is looked at in the
        next turn.
        """
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
