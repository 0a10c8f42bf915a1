"""When a module's schedule is due, by APScheduler's triggers and cronsim.

Pure: clock changes, sleep and the first day must be testable without waiting.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from cronsim import CronSim, CronSimError

from parachuted.modules.scheduling import Timing, zone_of

_FIELDS = 5
_LEAP = datetime(2024, 2, 28, tzinfo=UTC)


def due(timing: Timing, last: datetime) -> datetime:
    """When a schedule that last ran, or was first seen, at `last` is due.

    In the past: now, once for all that were missed.
    """
    zone = None if timing.timezone is None else zone_of(timing.timezone)
    if timing.cron is not None:
        return next_by_cron(last, timing.cron, zone)
    return next_time(last, every_s=timing.every_s, at=timing.at, zone=zone)


def next_time(
    last: datetime, *, every_s: int | None, at: str | None, zone: tzinfo | None = None
) -> datetime:
    """The next time by a span or by a time of day.

    `at` is a time of day in `zone` (None: the machine's). Where the clock skips it, it is as much
    later; where it occurs twice, the first counts.
    """
    if every_s is not None:
        due: datetime = IntervalTrigger(
            seconds=every_s, start_date=last, timezone=UTC
        ).get_next_fire_time(last, last)
        return due
    if at is None:
        raise ValueError("a schedule has either a span or a time of day")
    hour, minute = at.split(":")
    # The trigger counts on the wall clock, which it takes for UTC: through a zone's changes it
    # skips a midnight and repeats an hour.
    trigger = CronTrigger(hour=int(hour), minute=int(minute), timezone=UTC)
    wall = last.astimezone(zone).replace(
        hour=0, minute=0, second=0, microsecond=0, fold=0, tzinfo=UTC
    )
    wall = trigger.get_next_fire_time(None, wall)
    # Not `astimezone`, which puts a time that the machine's own clock skips as much earlier (Python
    # 3.11).
    while (due := datetime.fromtimestamp(wall.replace(tzinfo=zone).timestamp(), UTC)) <= last:
        wall = trigger.get_next_fire_time(wall, wall)
    return due


def next_by_cron(last: datetime, expression: str, zone: tzinfo | None = None) -> datetime:
    """The first time after `last` that the expression names in that zone (None: the machine's).

    As in Debian's cron: a time of day that the clock skips is due when it has skipped it, and one
    that occurs twice is due the first time; what runs each hour or oftener goes on as time passes.
    """
    for found in CronSim(expression, last.astimezone(zone or _MachineZone())):
        moment = found.astimezone(UTC)
        if moment > last:  # in the second of two equal hours cronsim begins with the first
            return moment
    raise ValueError(f"cron {expression!r} names no time in the next 50 years")


def check_cron(expression: str) -> None:
    """Raises ValueError for what is not five fields of cron, or names no time."""
    try:
        if len(expression.split()) != _FIELDS:
            raise ValueError(  # noqa: TRY301  the message is completed below
                "it does not have five fields"
            )
        next_by_cron(_LEAP, expression, UTC)
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
