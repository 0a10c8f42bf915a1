"""The CLI's own transcripts, by which a session is resumed. What else they hold is not read."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from parachuted.home_files.private import replace_private

log = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# The CLI names the folder after the one that it works in: /vault in every container.
_IN_BOX = (".claude", "projects", "-vault")
_LIMIT = 64 * 1024 * 1024
_KEEP_S = 30 * 24 * 3600


def is_session_id(text: str) -> bool:
    """Whether the text can be a session's id, and nothing else: it becomes part of a path and of
    an argument.
    """
    return _ID.fullmatch(text) is not None


def has_transcript(home: Path, session_id: str) -> bool:
    """Whether a session of that id can be resumed on this machine. Blocks on the disk."""
    return any(_transcripts(home, session_id))


def _transcripts(home: Path, session_id: str) -> Iterator[Path]:
    return (home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")


class SandboxTranscripts:
    """The transcripts in `folder`, which is private; `host_home` is where the sessions of runs
    outside containers are.
    """

    def __init__(self, folder: Path, host_home: Path) -> None:
        self._folder = folder
        self._host_home = host_home

    def bring_in(self, session_id: str, home: Path) -> bool:
        """Put the session's transcript into a container's HOME, before anything runs there; False:
        it is not known. May raise OSError.
        """
        data = self._load(session_id)
        if data is None:
            return False
        owner = home.stat()
        place = home
        for name in _IN_BOX:
            place /= name
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o700)
            os.chown(place, owner.st_uid, owner.st_gid)
        path = place / f"{session_id}.jsonl"
        path.write_bytes(data)
        os.chown(path, owner.st_uid, owner.st_gid)
        return True

    def keep(self, session_id: str, home: Path) -> None:
        """Take the transcript out again, when nothing runs there any more.

        One that is not a plain file of a sane size is left.
        """
        try:
            data = _read_left(home, session_id)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._folder / f"{session_id}.jsonl", data)
            self._forget_old()
        except OSError as error:
            log.warning("the agent's session is not kept: %s", error.strerror)

    def _load(self, session_id: str) -> bytes | None:
        outside = _transcripts(self._host_home, session_id)
        for path in (self._folder / f"{session_id}.jsonl", *outside):
            with contextlib.suppress(FileNotFoundError):
                return path.read_bytes()
        return None

    def _forget_old(self) -> None:
        """As the CLI does with those in its own HOME."""
        for path in self._folder.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _KEEP_S:
                    path.unlink()


def _read_left(home: Path, session_id: str) -> bytes:
    """Read it, never through a link, nor from what is not a plain file. Raises OSError."""
    names = (*_IN_BOX, f"{session_id}.jsonl")
    path = home.resolve().joinpath(*names)
    status = path.lstat()
    is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if path.resolve() != path or not is_plain or status.st_size > _LIMIT:
        raise OSError(0, "this file is not a transcript")
    return path.read_bytes()
