"""Reaper: ends a process with all that it started, by group, by tree, and by a mark in the
environment, since a descendant may have left its group. Without /proc only the group is ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 10


def signal_group(leader: int, number: int) -> None:
    """Send it to every process of the group; nothing where there is none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_family(leader: int, mark: str) -> None:
    """End the session of `leader`, its descendants, and all with `mark` in their environment."""
    for _ in range(_ROUNDS):
        family = find_family(leader, mark)
        if not family:
            return
        _kill(family)


def find_family(leader: int, mark: str) -> set[int]:
    """The live processes that belong to `leader`, itself included; none without /proc."""
    seen = list(processes())
    family = {
        pid
        for pid, _parent, _group, session, _lives in seen
        if leader in (pid, session) or _has_mark(pid, mark)
    }
    grown = True
    while grown:
        grown = False
        for pid, parent, *_ in seen:
            if parent in family and pid not in family:
                family.add(pid)
                grown = True
    return {pid for pid, *_, is_alive in seen if is_alive} & family - {os.getpid()}


def _kill(family: Iterable[int]) -> None:
    for pid in family:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _has_mark(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return mark.encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return False


def processes() -> Iterator[tuple[int, int, int, int, bool]]:
    """Each process: itself, parent, group, session, whether it lives. None without /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208  names alone are wanted
    except OSError:
        return
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  a Path for each costs as much again
                    state, parent, group, session = file.read().rpartition(b")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # it ended meanwhile
            yield int(name), int(parent), int(group), int(session), state not in (b"Z", b"X")
