"""When a module's schedule is due, by APScheduler's triggers.

Pure: clock changes, sleep and the first day must be testable without waiting.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger


def next_time(
    last: datetime, *, every_s: int | None, at: str | None, zone: tzinfo | None = None
) -> datetime:
    """When a schedule that last ran, or was first seen, at `last` is due.

    In the past: now, once for all that were missed. `at` is a time of day in `zone` (None: the
    machine's). Where the clock skips it, it is as much later; where it occurs twice, the first
    counts.
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
