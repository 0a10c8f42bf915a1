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

CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
LONGEST_SPAN_S = 999_999 * 86_400  # of `999999d`
_SPAN = re.compile(r"([1-9]\d{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST = 100
_CRON_FIELDS = 5
_LEAP = datetime(2024, 2, 28, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Every so many seconds, each day at a local time, or as five fields of cron say.

    `timezone` is a name such as Europe/Berlin; None: the machine's.
    """

    every_s: int | None = None
    at: str | None = None
    cron: str | None = None
    timezone: str | None = None

    def words(self) -> str:
        if self.every_s is not None:
            return f"every {self.every_s:,} s"
        when = f"each day at {self.at}" if self.at is not None else f"cron {self.cron}"
        return f"{when} in {self.timezone}" if self.timezone is not None else when


def parse_timing(
    *,
    every: str | None = None,
    at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Timing:
    """The timing that these words mean. Raises ValueError, with what is wrong."""
    return check_timing(
        Timing(
            every_s=None if every is None else parse_span(every),
            at=at,
            cron=None if cron is None else " ".join(cron[: _LONGEST + 1].split()),
            timezone=timezone,
        )
    )


def check_timing(timing: Timing) -> Timing:
    """The same timing. Raises ValueError for one that there cannot be."""
    if [timing.every_s, timing.at, timing.cron].count(None) != 2:  # noqa: PLR2004  one of three is there
        raise ValueError('say one of every="15m", at="03:00" and cron="0 3 * * *"')
    if timing.every_s is not None:
        if timing.timezone is not None:
            raise ValueError("every= counts time that passes, so it has no timezone")
        if not 1 <= timing.every_s <= LONGEST_SPAN_S:
            raise ValueError(f"every {timing.every_s} s is not between 1 second and 999,999 days")
    if timing.at is not None and not CLOCK.fullmatch(timing.at):
        raise ValueError(f"at={timing.at!r} is not a time such as '03:00'")
    if timing.timezone is not None:
        zone_of(timing.timezone)
    if timing.cron is not None:
        if len(timing.cron) > _LONGEST:
            raise ValueError(f"cron has at most {_LONGEST} characters")
        _check_cron(timing.cron)
    return timing


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"{name[:80]!r} is not a time zone such as 'Europe/Berlin'") from error


def next_time(timing: Timing, last: datetime) -> datetime:
    """When a schedule that last ran, or was first seen, at `last` is due.

    In the past: now, once for all that were missed.
    """
    if timing.every_s is not None:
        return last.astimezone(UTC) + timedelta(seconds=timing.every_s)
    zone = None if timing.timezone is None else zone_of(timing.timezone)
    if timing.at is None:
        return _next_by_cron(last, str(timing.cron), zone)
    hour, minute = map(int, timing.at.split(":"))
    return _next_by_cron(last, f"{minute} {hour} * * *", zone)


def _next_by_cron(last: datetime, expression: str, zone: tzinfo | None = None) -> datetime:
    """The first time after `last` that the expression names in that zone (None: the machine's).

    As in Debian's cron: a time of day that the clock skips is due when it has skipped it, and one
    that occurs twice is due the first time; what runs each hour or oftener goes on as time passes.
    """
    for found in CronSim(expression, last.astimezone(zone or _MachineZone())):
        moment = found.astimezone(UTC)
        if moment > last:  # in the second of two equal hours cronsim begins with the first
            return moment
    raise ValueError(f"cron {expression!r} names no time in the next 50 years")


def _check_cron(expression: str) -> None:
    try:
        if len(expression.split()) != _CRON_FIELDS:
            raise ValueError(  # noqa: TRY301  the message is completed below
                "it does not have five fields"
            )
        _next_by_cron(_LEAP, expression, UTC)
    except (CronSimError, ValueError, OverflowError) as error:
        raise ValueError(
            f"cron={expression!r} is not an expression such as '0 3 * * *': {error}"
        ) from error


class _MachineZone(tzinfo):
    """The time zone of the machine, through its changes."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        if at is None:
            return None
        wall = at.replace(tzinfo=None)
        return wall - datetime.fromtimestamp(wall.timestamp(), UTC).replace(tzinfo=None)

    def dst(self, _at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _at: datetime | None) -> str | None:
        return None

    def fromutc(self, at: datetime) -> datetime:
        return datetime.fromtimestamp(at.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006  the machine's time is what is asked for


def parse_span(text: str) -> int:
    """Seconds of `15m`; raises ValueError."""
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a duration such as '30s', '15m', '2h' or '1d'")
    return int(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """A schedule that the module set: which method runs with which arguments, and when.

    `next_at` is in UTC; None where the module is only about to start.
    """

    name: str
    method: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    timing: Timing
    next_at: datetime | None = None


class ScheduleAccess(Protocol):
    """The schedules of one module, wherever its code runs."""

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None: ...

    async def remove(self, name: str) -> bool: ...

    async def list(self) -> list[ScheduleStatus]: ...


class Schedules:
    """`self.schedules`: schedules that a module sets, changes and removes while it runs.

    They outlive the daemon and run whenever the module does; what was missed runs once.
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
