"""Home file: one file of the home, changed by the command and the daemon alike, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parachuted.errors import StorageFailedError
from parachuted.private import UntrustedFileError, locked, mark_at, read_private, replace_private


class HomeFile:
    """One file of a home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(self, home: Path, name: str, *, limit: int, is_secret: bool = False) -> None:
        self.path, self.limit = home / name, limit
        self._home, self._is_secret = home, is_secret

    def mark(self) -> tuple[int, ...] | None:
        return mark_at(self.path)

    def read(self) -> str | None:
        """Its text; None: there is none.

        Raises UntrustedFileError where others could have changed it or, where it is secret, read
        it.
        """
        return read_private(self.path, self.limit, is_secret=self._is_secret)

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace its text, in one step, by what `edit` makes of it; nothing when that is the same.

        Raises UntrustedFileError, also when it would be too large, StorageFailedError, and what
        `edit` raises, having changed nothing.
        """
        try:
            with locked(self._home, f"{self.path.name}.lock"):
                before = self.read()
                text = edit(before)
                if text == before:
                    return
                if len(text.encode()) > self.limit:
                    raise UntrustedFileError(
                        f"{self.path.name} would be larger than {self.limit // 1024} KB; remove "
                        "entries that are no longer needed"
                    )
                replace_private(self.path.resolve(), text.encode())
        except OSError as error:
            raise StorageFailedError(
                f"{self.path.name} could not be written: {error.strerror}", errno=error.errno
            ) from error
