"""The folders of one run on this machine.

What an agent left in them is hostile: it is measured by file descriptor, and links are not
followed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from parachuted.agents.sandbox.options import MARK, SandboxSlot

MOST_BYTES = 512 << 20
MOST_FILES = 200_000
_DEEPEST = 200
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
    (slot.sockets / MARK).write_text(slot.id, "ascii")
    slot.sockets.chmod(0o755)
    (slot.sockets / MARK).chmod(0o444)
    if os.getuid() == 0:
        for folder in (slot.work, slot.home, slot.outside):
            os.chown(folder, *container_user())


def drop_slot(slot: SandboxSlot) -> None:
    """Remove them and all that is in them."""
    drop_tree(slot.work.parent)


def drop_tree(folder: Path) -> None:
    """Remove a folder that an agent could write, however deep, locked or odd its content; none
    there is as good. May raise OSError.

    Nothing else may write there any more. The system's own programs reach what no path is long
    enough for, and follow no link.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "a link in the place of a folder is not followed", str(folder))
    if folder.exists():
        for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
            subprocess.run([*command, "--", folder], capture_output=True, check=False)  # noqa: S603  our own words
        if folder.exists():
            raise OSError(errno.ENOTEMPTY, "the folder could not be removed", str(folder))


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


async def watch_disk(
    slot: SandboxSlot,
    end: Callable[[str], None],
    *,
    most_bytes: int = MOST_BYTES,
    every_s: float = _EVERY_S,
) -> None:
    """Measure the slot again and again; call `end` once, with the reason, when it is too large."""
    while True:
        await asyncio.sleep(every_s)
        started = time.monotonic()
        try:
            problem = await asyncio.to_thread(too_much, slot, most_bytes=most_bytes)
        except OSError as error:
            problem = f"what it put on the disk cannot be looked at ({error})"
        if problem is not None:
            end(problem)
            return
        await asyncio.sleep((time.monotonic() - started) * _SHARE)
