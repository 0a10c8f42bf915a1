"""Schedules: when a module's schedule falls due.

Pure: what a clock change, a night in which the machine slept or a first day means must be testable without waiting for it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo


def next_time(last: datetime, *, every_s: int | None, at: str | None, zone: tzinfo | None = None) -> datetime:
    """When a schedule that ran, or was first seen, at `last` falls due. In the past: now, and once for however many were missed.

    `at` is a time of day in `zone` (None: the machine's own). On the day that has no such time it is as much later as the clock was put
    forward; on the day that has it twice it is the first.
    """
    if every_s is not None:
        return last + timedelta(seconds=every_s)
    if at is None:
        raise ValueError("a schedule has either a span or a time of day")
    hour, minute = at.split(":")
    moment = time(int(hour), int(minute))
    day = last.astimezone(zone).date()
    due = _on(day, moment, zone)
    while due <= last:
        day += timedelta(days=1)
        due = _on(day, moment, zone)
    return due


def _on(day: date, moment: time, zone: tzinfo | None) -> datetime:
    return datetime.combine(day, moment, zone).astimezone(UTC)
