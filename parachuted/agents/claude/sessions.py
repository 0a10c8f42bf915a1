"""What the CLI recorded of conversations, on this machine and in containers.

The CLI counts a session's cost from its first day, so the cost of one run is a difference.

Of the CLI's HOME in a container the session's transcript is kept, and nothing else. It is never
resumed outside one: a shell may have written anything into it, and the CLI acts on some lines, such
as a work tree to change to. It is read as untrusted text.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from parachuted.agents.claude.transcript import TranscriptUsage, sum_usage
from parachuted.private import replace_private

log = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_KIND = b'"type":"cost-state"'
_TAIL = 1024 * 1024


def is_session_id(text: str) -> bool:
    """Whether the text can be a session's name, and nothing else: it becomes part of a path and of
    an argument.
    """
    return _ID.fullmatch(text) is not None


def has_transcript(home: Path, session_id: str) -> bool:
    """Whether a session of that name can be resumed on this machine. Blocks on the disk."""
    return any((home / ".claude" / "projects").glob(f"*/{session_id}.jsonl"))


def load_spent(home: Path, session_id: str) -> TranscriptUsage:
    """Read what a session had cost when it was last closed; nothing, if that is not known."""
    for path in (home / ".claude" / "projects").glob(f"*/{session_id}.jsonl"):
        for line in reversed(_tail(path).split(b"\n")):
            if _KIND in line:
                return _parse(line)
    return TranscriptUsage()


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read()


def _parse(line: bytes) -> TranscriptUsage:
    try:
        entry = json.loads(line)
    except ValueError:
        return TranscriptUsage()
    return sum_usage(entry.get("totalCostUSD"), entry.get("modelUsage"))


# The CLI names the folder after the one that it works in: /vault in every container.
_IN_BOX = (".claude", "projects", "-vault")
_LIMIT = 64 * 1024 * 1024
_KEEP_S = 30 * 24 * 3600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
            data = _read_hostile(home, session_id)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._folder / f"{session_id}.jsonl", data)
            self._forget_old()
        except OSError as error:
            log.warning("the agent's session is not kept: %s", error.strerror)

    def _load(self, session_id: str) -> bytes | None:
        name = f"{session_id}.jsonl"
        outside = (self._host_home / ".claude" / "projects").glob(f"*/{name}")
        for path in (self._folder / name, *outside):
            with contextlib.suppress(FileNotFoundError):
                return path.read_bytes()
        return None

    def _forget_old(self) -> None:
        """As the CLI does with those in its own HOME."""
        for path in self._folder.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _KEEP_S:
                    path.unlink()


def _read_hostile(home: Path, session_id: str) -> bytes:
    """Read step by step, never through a link, nor from what is not a plain file. Raises
    OSError.
    """
    with contextlib.ExitStack() as opened:
        here = opened.enter_context(_descriptor(str(home), _FOLDER, None))
        for name in _IN_BOX:
            here = opened.enter_context(_descriptor(name, _FOLDER, here))
        file = opened.enter_context(_descriptor(f"{session_id}.jsonl", _FILE, here))
        at = os.fstat(file)
        if not stat.S_ISREG(at.st_mode) or at.st_nlink != 1 or at.st_size > _LIMIT:
            raise OSError(0, "what is there is not a transcript")
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read(_LIMIT)


@contextlib.contextmanager
def _descriptor(name: str, flags: int, folder: int | None) -> Iterator[int]:
    opened = os.open(name, flags, dir_fd=folder)
    try:
        yield opened
    finally:
        os.close(opened)
