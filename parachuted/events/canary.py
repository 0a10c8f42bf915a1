"""Canary: a file of the vault that is touched now and then, to check that the system still reports
changes.

Touched is the vault's id: opened for writing, its time set to what it is. Nothing in it changes,
and each kind of watcher tells of it.
"""

from __future__ import annotations

import os
import stat

from parachuted.events.watcher import FileWatcher
from parachuted.vault import VaultRoot
from parachuted.vault_state import CONTROL_FOLDER, ID_FILE

CANARY = f"{CONTROL_FOLDER}/{ID_FILE}"
_OPEN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Canary:
    """`is_silent`: the last touch was not reported. Times are the event loop's, in seconds.

    `every_s`: how often it is touched; `patience_s`: how long the report may take.
    """

    def __init__(
        self, root: VaultRoot, watcher: FileWatcher, *, every_s: float, patience_s: float
    ) -> None:
        self._root, self._watcher, self._every_s, self._patience_s = (
            root,
            watcher,
            every_s,
            patience_s,
        )
        self._folder: tuple[int, int] | None = None
        self._next = 0.0
        self._touched: float | None = None
        self.is_silent = False

    def is_due(self, now: float) -> bool:
        """Whether it is to be touched now; also notes whether the last touch went unreported."""
        if self._touched is not None and now - self._touched > self._patience_s:
            self.is_silent, self._touched = True, None
        return self._touched is None and now >= self._next

    def touch(self, now: float) -> None:
        """Touch it; if that fails, no report is expected. Blocks on the disk."""
        self._next = now + self._every_s
        try:
            self._touched = now
            self._touch()
        except OSError:
            self._touched = None

    def hears(self, path: str) -> bool:
        """Whether the path is the canary's, which counts as its report."""
        if path != CANARY:
            return False
        self._touched, self.is_silent = None, False
        return True

    def _touch(self) -> None:
        with self._root.opened_folder(CONTROL_FOLDER) as folder:
            at = os.fstat(folder)
            if self._folder != (
                at.st_dev,
                at.st_ino,
            ):  # only then: a watch that was lost is to be found out
                self._watcher.enter(CONTROL_FOLDER)
                self._folder = (at.st_dev, at.st_ino)
            descriptor = os.open(ID_FILE, _OPEN, dir_fd=folder)
            try:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise OSError(None, "not a regular file")
                os.utime(descriptor, ns=(found.st_atime_ns, found.st_mtime_ns))
            finally:
                os.close(descriptor)
