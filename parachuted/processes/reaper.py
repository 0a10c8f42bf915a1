"""Reaper: ends a process with all that it started, by group, or by a mark in the environment and by
descent, since a descendant may have left its group.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 10


def signal_group(leader: int, number: int) -> None:
    """Send it to every process of the group; nothing where there is none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_family(mark: str) -> None:
    """End all with `mark` in their environment, and their descendants; none without /proc."""
    for _ in range(_ROUNDS):
        family = find_family(mark)
        if not family:
            return
        for pid in family:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def find_family(mark: str) -> set[int]:
    parents = dict(_processes())
    family = {pid for pid in parents if _has_mark(pid, mark)}
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in family} - family
        family |= children
        grown = bool(children)
    return family - {os.getpid()}


def _has_mark(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return mark.encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return False


def _processes() -> Iterator[tuple[int, int]]:
    """Each process that lives, and its parent."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208  names alone are wanted
    except OSError:
        return
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  a Path for each costs as much again
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue  # it ended meanwhile
            if state not in (b"Z", b"X"):
                yield int(name), int(parent)
