"""Reaper: ends a process together with all that it started.

A process group is not enough: a descendant may have left it. Each carries a mark in its environment, or hangs on the tree.
On a system without /proc only the group is ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    pid: int
    parent: int
    session: int
    alive: bool


def kill_group(leader: int) -> None:
    """End the process group of `leader`, at once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_family(leader: int, mark: str) -> None:
    """End the session of `leader`, its descendants, and whatever has `mark` in its environment; reads all of /proc."""
    for _ in range(_ROUNDS):
        family = find_family(leader, mark)
        if not family:
            return
        for pid in family:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def find_family(leader: int, mark: str) -> set[int]:
    """Find the live processes that belong to `leader`, itself included; empty where there is no /proc."""
    seen = list(_processes())
    family = {process.pid for process in seen if leader in (process.pid, process.session) or _has_mark(process.pid, mark)}
    grown = True
    while grown:
        grown = False
        for process in seen:
            if process.parent in family and process.pid not in family:
                family.add(process.pid)
                grown = True
    return {process.pid for process in seen if process.alive} & family - {os.getpid()}


def _processes() -> Iterator[_Seen]:
    if not _PROC.is_dir():
        return
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError):
                yield _parse_stat(int(entry.name), (_PROC / entry.name / "stat").read_bytes())


def _parse_stat(pid: int, stat: bytes) -> _Seen:
    state, parent, _group, session = stat.rpartition(b")")[2].split()[:4]
    return _Seen(pid=pid, parent=int(parent), session=int(session), alive=state not in (b"Z", b"X"))


def _has_mark(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return mark.encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return False
