"""Elapsed clock: time for limits and retention, which no change of the wall clock makes run faster
than real time.

Within one boot it follows the uptime, suspension included. Across a reboot the wall clock is
believed beyond the furthest time that it ever showed, for two days at most: a jump can make a limit
hold longer, never shorter.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from parachuted.home_files.private import UntrustedFileError, read_private, replace_private

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MOST_ACROSS_REBOOT_S = 2 * 86_400.0
_KEPT_EVERY_S = 60.0
_JUMP_S = 1.0
_LARGEST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """Which boot it is, seconds since then, and the wall clock in seconds since 1970."""

    boot: str
    uptime: float
    wall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ElapsedMark:
    """`elapsed` is the time for limits, `latest` the furthest that the wall clock can have shown,
    both in seconds since 1970.
    """

    boot: str
    uptime: float
    elapsed: float
    latest: float


def advance(mark: ElapsedMark | None, reading: ClockReading) -> ElapsedMark:
    """The mark at this reading, which follows `mark`; None: the first reading of all."""
    if mark is None:
        return ElapsedMark(
            boot=reading.boot, uptime=reading.uptime, elapsed=reading.wall, latest=reading.wall
        )
    if reading.boot == mark.boot:
        passed = max(0.0, reading.uptime - mark.uptime)
        uptime = max(mark.uptime, reading.uptime)
    else:
        passed = min(max(0.0, reading.wall - mark.latest), _MOST_ACROSS_REBOOT_S)
        uptime = reading.uptime
    return ElapsedMark(
        boot=reading.boot,
        uptime=uptime,
        elapsed=mark.elapsed + passed,
        latest=max(mark.latest + passed, reading.wall),
    )


def system_clocks() -> Callable[[], ClockReading]:
    """A reader of this machine's clocks. Without names of boots, each process counts as one."""
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:
        boot = uuid.uuid4().hex
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return lambda: ClockReading(boot=boot, uptime=time.clock_gettime(clock), wall=time.time())


def follow_clock(clock: Callable[[], datetime]) -> Callable[[], ClockReading]:
    """A reader that takes `clock` for both uptime and wall clock: for tests that move time."""

    def read() -> ClockReading:
        now = clock().timestamp()
        return ClockReading(boot="", uptime=now, wall=now)

    return read


class ElapsedClock:
    """Kept in a file so that it goes on after a restart. Threads may share it."""

    def __init__(self, path: Path, read: Callable[[], ClockReading] | None = None) -> None:
        self._path, self._read = path, read if read is not None else system_clocks()
        self._lock = threading.Lock()
        self._kept = self._mark = _load(path)

    def now(self) -> float:
        """Seconds since 1970 in this time. It never goes back. Does not block."""
        with self._lock:
            self._mark = advance(self._mark, self._read())
            return self._mark.elapsed

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now(), UTC)

    @property
    def is_due(self) -> bool:
        """Whether to `keep`: a minute has passed, or the wall clock has jumped ahead."""
        self.now()
        mark, elapsed_mark = self._mark, self._kept
        if mark is None or elapsed_mark is None or mark.boot != elapsed_mark.boot:
            return True
        passed = mark.elapsed - elapsed_mark.elapsed
        return passed >= _KEPT_EVERY_S or mark.latest - elapsed_mark.latest > passed + _JUMP_S

    def keep(self) -> None:
        """Blocks. Raises OSError."""
        self.now()
        with self._lock:
            mark = self._mark
        if mark is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_private(self._path, json.dumps(asdict(mark)).encode())
            self._kept = mark


def _load(path: Path) -> ElapsedMark | None:
    try:
        text = read_private(path, _LARGEST)
        document = json.loads(text) if text is not None else None
        if not isinstance(document, dict):
            return None
        figures = {name: float(document[name]) for name in ("uptime", "elapsed", "latest")}
        return ElapsedMark(boot=str(document["boot"]), **figures)
    except (UntrustedFileError, ValueError, KeyError, TypeError):
        return None
