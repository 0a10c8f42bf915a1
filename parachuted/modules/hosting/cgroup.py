"""A cgroup that counts the processes and memory of one module host, where the system allows it.

Version 2 with the controllers `pids` and `memory`, as systemd delegates them to a unit; or version
1's hierarchy `pids`, which limits only the number. A user's limit (RLIMIT_NPROC) would count
everything that this user runs, and does not bind root.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

log = logging.getLogger(__name__)

_PREFIX = "parachute-"
_DAEMON = "daemon"
_MOUNTINFO, _OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
_GONE_S, _ROUND_S = 2.0, 0.01


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The group of one process and of all that it starts."""

    folder: Path

    def add(self, pid: int) -> None:
        """Put that process into it. Raises OSError."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limits(self) -> str:
        try:
            most = (self.folder / "pids.max").read_text().strip()
            memory = (
                (self.folder / "memory.max").read_text().strip()
                if (self.folder / "memory.max").exists()
                else ""
            )
        except OSError as error:
            return f"cgroup, which cannot be read: {error.strerror}"
        return (
            f"cgroup: {most} processes and "
            f"threads{f', {memory} bytes of memory' if memory else '; rlimit of memory'}"
        )

    def kill(self) -> None:
        if (self.folder / "cgroup.kill").exists():  # since Linux 5.14
            with suppress(OSError):
                (self.folder / "cgroup.kill").write_text("1")
                return
        with suppress(OSError):
            (self.folder / "pids.max").write_text(
                "0"
            )  # so that nothing is started while they are ended one by one
        for pid in self.members():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def members(self) -> list[int]:
        try:
            return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def remove(self) -> bool:
        """End all that is in it, then remove it; whether it is gone."""
        until = time.monotonic() + _GONE_S
        while True:
            self.kill()
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return True
            except OSError:  # the last of them is not gone yet
                if time.monotonic() > until:
                    log.warning(
                        "the cgroup of a module's process could not be removed",
                        extra={"of": str(self.folder)},
                    )
                    return False
                time.sleep(_ROUND_S)
            else:
                return True


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The folder in which the daemon may make groups."""

    base: Path

    @classmethod
    def find(cls, mountinfo: Path = _MOUNTINFO, own: Path = _OWN) -> Self | None:
        """Those that this process may make; None: the system lets it make none.

        Moves the daemon into a group of its own where version 2 asks for that: a group that limits
        others holds no process itself.
        """
        for base in _hierarchies(mountinfo, own):
            if _is_version_2(base):
                ready = _delegated(base)
                if ready is not None:
                    return cls(ready)
            elif os.access(base, os.W_OK) and (base / "cgroup.procs").exists():
                return cls(base)
        return None

    def make(self, mark: str, *, most_processes: int, memory: int) -> Cgroup | None:
        """A new group for at most so many threads and bytes; None where the system refuses it after
        all.
        """
        group = Cgroup(self.base / f"{_PREFIX}{mark}")
        try:
            group.folder.mkdir()
        except OSError as error:
            log.warning("no cgroup could be made: %s", error)
            return None
        try:
            (group.folder / "pids.max").write_text(str(most_processes))
            if "memory" in _words(self.base / "cgroup.subtree_control"):
                (group.folder / "memory.max").write_text(str(memory))
        except OSError as error:
            log.warning("a cgroup could not be limited: %s", error)
            group.remove()
            return None
        return group


def is_group(folder: Path, mark: str) -> bool:
    """Whether that folder is the group that was made for this mark."""
    return folder.name == f"{_PREFIX}{mark}"


def _hierarchies(mountinfo: Path, own: Path) -> list[Path]:
    """The folders of this process's own group, version 2 before version 1's `pids`."""
    groups: dict[str, str] = {}
    found: dict[str, Path] = {}
    try:
        for line in own.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" or "pids" in controllers.split(","):
                groups["cgroup2" if number == "0" else "cgroup"] = path
        for line in mountinfo.read_text().splitlines():
            before, _, after = line.partition(" - ")
            root, place = before.split()[3:5]
            kind, _source, options = after.split()[:3]
            if kind in groups and (kind == "cgroup2" or "pids" in options.split(",")):
                path = groups[kind]
                below = path.removeprefix(root) if root != "/" else path
                found[kind] = Path(place) / below.lstrip("/")
    except (OSError, ValueError):
        return []
    return [found[kind] for kind in ("cgroup2", "cgroup") if kind in found]


def _is_version_2(base: Path) -> bool:
    return (base / "cgroup.controllers").exists()


def _delegated(own: Path) -> Path | None:
    """The group of version 2 below which others can be limited."""
    base = own.parent if own.name == _DAEMON else own
    try:
        controllers = _words(base / "cgroup.controllers")
        if "pids" not in controllers:
            return None
        if own == base and Cgroup(base).members() not in ([os.getpid()], []):
            return None  # it is shared with programs that are not the daemon's
        if "pids" not in _words(base / "cgroup.subtree_control"):
            if own == base:
                (base / _DAEMON).mkdir(exist_ok=True)
                Cgroup(base / _DAEMON).add(os.getpid())
            (base / "cgroup.subtree_control").write_text(
                "+pids +memory" if "memory" in controllers else "+pids"
            )
    except OSError:
        return None
    return base if os.access(base, os.W_OK) else None


def _words(file: Path) -> list[str]:
    """What a file of the hierarchy lists; version 1 does not have these files."""
    return file.read_text().split() if file.exists() else []
