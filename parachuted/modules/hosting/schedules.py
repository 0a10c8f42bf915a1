"""When a schedule is due, and APScheduler, which runs what is due.

When is pure: clock changes, sleep and the first day must be testable without waiting.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from cronsim import CronSim, CronSimError

from parachuted.modules.scheduling import Timing, zone_of

log = logging.getLogger(__name__)

_FIELDS = 5
_LEAP = datetime(2024, 2, 28, tzinfo=UTC)
_NEVER = datetime.max.replace(tzinfo=UTC)


def start_scheduler() -> AsyncIOScheduler:
    """APScheduler's, in which a job runs however late it is; nothing begins before `resume`."""
    logging.getLogger("apscheduler.scheduler").addFilter(_is_no_skip)
    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    scheduler.start(paused=True)
    return scheduler


def _is_no_skip(record: logging.LogRecord) -> bool:
    """Not that one which is at work still does not begin again, as is meant: it says so each time
    that it is due.
    """
    return "maximum number of running instances" not in str(record.msg)


class TimingTrigger(BaseTrigger):  # type: ignore[misc]  # without types
    """When a timing falls due, once for all the times that were missed.

    APScheduler's own trigger for cron sticks when the clock changes.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing

    def __str__(self) -> str:  # in APScheduler's log
        return self._timing.words()

    def get_next_fire_time(self, _previous: datetime | None, now: datetime) -> datetime:
        try:
            return next_time(self._timing, now)
        except (ValueError, OverflowError) as error:  # the zone went with the system's data
            log.warning(
                "a schedule has no next time",
                extra={"timing": self._timing.words(), "error": str(error)},
            )
            return _NEVER


def next_time(timing: Timing, last: datetime) -> datetime:
    """When a schedule that last ran, or was first seen, at `last` is due.

    In the past: now, once for all that were missed. A time of day that the clock skips is as much
    later; of one that occurs twice, the first counts.
    """
    if timing.every_s is not None:
        return last.astimezone(UTC) + timedelta(seconds=timing.every_s)
    zone = None if timing.timezone is None else zone_of(timing.timezone)
    if timing.at is None:
        return next_by_cron(last, str(timing.cron), zone)
    hour, minute = map(int, timing.at.split(":"))
    wall = last.astimezone(zone).replace(
        hour=hour, minute=minute, second=0, microsecond=0, fold=0, tzinfo=None
    )
    # Not `astimezone`, which puts a time that the machine's own clock skips as much earlier (Python
    # 3.11).
    while (due := datetime.fromtimestamp(wall.replace(tzinfo=zone).timestamp(), UTC)) <= last:
        wall += timedelta(days=1)
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
