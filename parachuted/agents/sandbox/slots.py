"""The folders of one run on this machine.

What an agent left in them is hostile: it is measured and removed by file descriptor, and links are
not followed. Every call blocks.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from uuid import uuid4

from parachuted.agents.sandbox.options import SandboxSlot

MOST_BYTES = 512 << 20
MOST_FILES = 200_000
_DEEPEST = 200
_MARK = ".slot"
_BLOCK = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def container_user() -> tuple[int, int]:
    """Whom a container runs as: this process's own user and group; where that is root, 1000."""
    return (os.getuid(), os.getgid()) if os.getuid() else (1000, 1000)


def name_slot(folder: Path) -> SandboxSlot:
    """The folders that a new slot is going to have.

    Short names: the path of a socket may have 107 bytes.
    """
    name = uuid4().hex[:12]
    at = folder / name
    return SandboxSlot(
        id=name, work=at / "work", home=at / "home", sockets=at / "s", outside=at / "outside"
    )


def make_slot(slot: SandboxSlot) -> None:
    """Make them.

    Only this user can come near them; in the container each is the user's there, but for the
    sockets, which are ours.
    """
    slot.work.parent.mkdir(mode=0o700, parents=True)
    for folder in (slot.work, slot.home, slot.sockets, slot.outside):
        folder.mkdir(mode=0o700)
    (slot.sockets / _MARK).write_text(slot.id, "ascii")
    slot.sockets.chmod(0o755)
    (slot.sockets / _MARK).chmod(0o444)
    if os.getuid() == 0:
        for folder in (slot.work, slot.home, slot.outside):
            os.chown(folder, *container_user())


def drop_slot(slot: SandboxSlot) -> None:
    """Remove them and all that is in them."""
    drop_tree(slot.work.parent)


def drop_tree(folder: Path) -> None:
    """Remove a folder that an agent could write, however deep, locked or odd its content.

    None there is as good.

    What is in a folder is moved up first, so that neither depth nor the length of a path matters.
    Nothing else may write there any more.
    """
    with suppress(FileNotFoundError):
        _unlock(folder, None)
        root = os.open(folder, _FOLDER)
        try:
            numbers = count()
            while names := os.listdir(root):  # noqa: PTH208  of a descriptor
                for name in names:
                    _drop_one(root, name, numbers)
        finally:
            os.close(root)
        folder.rmdir()


def _drop_one(root: int, name: str, numbers: count[int]) -> None:
    if not _is_folder(name, root):
        os.unlink(name, dir_fd=root)
        return
    _unlock(name, root)
    inner = os.open(name, _FOLDER, dir_fd=root)
    try:
        for one in os.listdir(inner):  # noqa: PTH208  the same
            if _is_folder(one, inner):
                _unlock(one, inner)
                os.rename(one, f".{next(numbers)}-{uuid4().hex}", src_dir_fd=inner, dst_dir_fd=root)
            else:
                os.unlink(one, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=root)


def _is_folder(name: str, at: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)


def _unlock(name: str | Path, at: int | None) -> None:
    """Restore the folder's permissions, which an agent may have removed; no process is left that
    could swap it for a link.
    """
    os.chmod(name, 0o700, dir_fd=at)


def too_much(
    slot: SandboxSlot, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
) -> str | None:
    """Why the run has to end for what it put on the disk; None: it is within its limits.

    The agent may be writing meanwhile.
    """
    size = files = 0
    for top in (slot.work, slot.home):
        open_folders: list[tuple[int, list[str]]] = []
        try:
            _enter(open_folders, os.open(top, _FOLDER))
            while open_folders:
                at, names = open_folders[-1]
                if not names:
                    os.close(open_folders.pop()[0])
                    continue
                name = names.pop()
                with suppress(OSError):
                    status = os.stat(name, dir_fd=at, follow_symlinks=False)
                    files, size = files + 1, size + status.st_blocks * _BLOCK
                    if stat.S_ISDIR(status.st_mode) and len(open_folders) <= _DEEPEST:
                        _enter(open_folders, os.open(name, _FOLDER, dir_fd=at))
                if size > most_bytes:
                    return f"it put more than {most_bytes >> 20} MB on the disk"
                if files > most_files:
                    return f"it made more than {most_files} files"
                if len(open_folders) > _DEEPEST:
                    return f"it made folders more than {_DEEPEST} deep"
        finally:
            for at, _ in open_folders:
                os.close(at)
    return None


def _enter(open_folders: list[tuple[int, list[str]]], descriptor: int) -> None:
    try:
        open_folders.append((descriptor, os.listdir(descriptor)))
    except OSError:
        os.close(descriptor)
        raise


_EVERY_S = 1.0
_SHARE = 20  # looking takes at most a twentieth of the time


class DiskWatch:
    """Measures one slot, in threads, between `start` and `stop`; calls `end` with the reason when
    it is too large.
    """

    def __init__(
        self,
        slot: SandboxSlot,
        end: Callable[[str], None],
        *,
        most_bytes: int = MOST_BYTES,
        every_s: float = _EVERY_S,
    ) -> None:
        self._look = partial(too_much, slot, most_bytes=most_bytes)
        self._end, self._every_s = end, every_s
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Look in a moment, and then again and again."""
        self._wait(self._every_s)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        started = time.monotonic()
        looking = asyncio.get_running_loop().run_in_executor(None, self._look)
        looking.add_done_callback(lambda looked: self._looked(looked, time.monotonic() - started))

    def _looked(self, looked: asyncio.Future[str | None], took_s: float) -> None:
        if self._is_stopped or looked.cancelled():
            return
        error = looked.exception()
        problem = (
            f"what it put on the disk cannot be looked at ({error})"
            if error is not None
            else looked.result()
        )
        if problem is not None:
            self._end(problem)
            return
        self._wait(max(self._every_s, took_s * _SHARE))
