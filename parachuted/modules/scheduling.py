"""When something runs by itself, and a module's own schedules: `self.schedules`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from inspect import getattr_static, isfunction
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from parachuted.modules.results import to_json

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]")
_SPAN = re.compile(r"([1-9]\d{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_SPAN_S = 999_999 * _SECONDS["d"]
_LONGEST_CRON, _CRON_FIELDS = 100, 5
_LEAP = datetime(2024, 2, 28, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Every so many seconds, each day at a local time, or as five fields of cron say. `timezone` is
    a name such as Europe/Berlin; None: the machine's. Raises ValueError for what cannot be.
    """

    every_s: int | None = None
    at: str | None = None
    cron: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        if [self.every_s, self.at, self.cron].count(None) != 2:  # noqa: PLR2004  one of three is there
            raise ValueError('say one of every="15m", at="03:00" and cron="0 3 * * *"')
        if self.every_s is not None:
            if self.timezone is not None:
                raise ValueError("every= counts time that passes, so it has no timezone")
            if not 1 <= self.every_s <= _LONGEST_SPAN_S:
                raise ValueError("every= is between 1 second and 999,999 days")
            return
        if self.at is not None and not _CLOCK.fullmatch(self.at):
            raise ValueError(f"at={self.at[:80]!r} names no time such as '03:00'")
        cron = "* * * * *" if self.cron is None else self.cron
        if len(cron) > _LONGEST_CRON or len(cron.split()) != _CRON_FIELDS:
            raise ValueError(f"cron= has five fields, in at most {_LONGEST_CRON} characters")
        try:
            self.next_after(_LEAP)
        except (CronSimError, ValueError, OverflowError, LookupError, OSError) as error:
            raise ValueError(f"{self.words()[:120]} names no time: {error}") from error

    def words(self) -> str:
        if self.every_s is not None:
            return f"every {self.every_s:,} s"
        when = f"each day at {self.at}" if self.at is not None else f"cron {self.cron}"
        return f"{when} in {self.timezone}" if self.timezone is not None else when

    def next_after(self, last: datetime) -> datetime:
        """When a schedule that last ran, or was first seen, at `last` is due; in the past where it
        was missed.

        As in Debian's cron: a time of day that the clock skips is due when it has skipped it, and
        one that occurs twice is due the first time; what runs each hour or oftener goes on as time
        passes.
        """
        if self.every_s is not None:
            return last.astimezone(UTC) + timedelta(seconds=self.every_s)
        expression = self.cron or ""
        if self.at is not None:
            hour, minute = map(int, self.at.split(":"))
            expression = f"{minute} {hour} * * *"
        zone: tzinfo = _MachineZone()  # type: ignore[abstract]  # asked neither dst nor tzname
        if self.timezone is not None:
            zone = ZoneInfo(self.timezone)
        for found in CronSim(expression, last.astimezone(zone)):
            moment = found.astimezone(UTC)
            if moment > last:  # in the second of two equal hours cronsim begins with the first
                return moment
        raise CronSimError("it names no time in the next 50 years")


class _MachineZone(tzinfo):
    """The time zone of the machine, through its changes."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        if at is None:
            return None
        wall = at.replace(tzinfo=None)
        return wall - datetime.fromtimestamp(wall.timestamp(), UTC).replace(tzinfo=None)

    def fromutc(self, at: datetime) -> datetime:
        return datetime.fromtimestamp(at.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006  the machine's time is what is asked for


def parse_timing(
    *,
    every: str | None = None,
    at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Timing:
    """The timing that these words mean. Raises ValueError, with what is wrong."""
    cron = cron and " ".join(cron.split())
    span = None if every is None else _SPAN.fullmatch(every)
    if every is not None and span is None:
        raise ValueError(f"{every[:80]!r} is not a duration such as '30s', '15m', '2h' or '1d'")
    every_s = int(span[1]) * _SECONDS[span[2]] if span else None
    return Timing(every_s=every_s, at=at, cron=cron, timezone=timezone)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """A schedule that the module set: which method runs with which arguments, and when.

    `next_at` is in UTC.
    """

    name: str
    method: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    timing: Timing
    next_at: datetime


class ScheduleAccess(Protocol):
    """The schedules of one module, wherever its code runs."""

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None: ...

    async def remove(self, name: str) -> bool: ...

    async def list(self) -> list[ScheduleStatus]: ...


class Schedules:
    """`self.schedules`: schedules that a module sets, changes and removes while it runs.

    They end with the module, which sets them again when it is enabled; what was missed runs once.
    """

    def __init__(self, module: object, access: ScheduleAccess) -> None:
        self._module, self._access = module, access

    async def set(
        self,
        name: str,
        method: str,
        *,
        every: str | None = None,
        at: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        args: Mapping[str, object] | None = None,
    ) -> None:
        """Let that method run with these arguments `every="15m"`, each day `at="03:00"`, or as
        `cron="0 3 * * *"` says, in the machine's time zone or another. It replaces one of that
        name; one that is the same as before goes on as it did.

        Raises ValueError for an invalid timing or an unknown method, and EditRefusedError.
        """
        timing = parse_timing(every=every, at=at, cron=cron, timezone=timezone)
        if not isfunction(getattr_static(type(self._module), method, None)):
            raise ValueError(f"{method!r} is not a method of {type(self._module).__name__}")
        arguments = {key: to_json(value) for key, value in (args or {}).items()}
        await self._access.set(name, method, arguments, timing)

    async def remove(self, name: str) -> bool:
        """Let it run no more; whether there was one of that name."""
        return await self._access.remove(name)

    async def list(self) -> list[ScheduleStatus]:
        """Those that the module has set, by name."""
        return await self._access.list()
