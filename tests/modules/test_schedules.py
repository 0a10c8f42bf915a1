"""Schedules: when one falls due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from parachuted.modules.schedules import next_time

BERLIN = ZoneInfo("Europe/Berlin")
LAST = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def berlin(day: int, hour: int, minute: int = 0, *, month: int = 1, fold: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN, fold=fold)


def test_a_span_counts_from_the_last_time():
    assert next_time(LAST, every_s=900, at=None) == LAST + timedelta(minutes=15)


def test_what_was_missed_is_due_once_and_lies_in_the_past():
    due = next_time(LAST, every_s=60, at=None)

    assert due < LAST + timedelta(days=3)
    assert next_time(LAST + timedelta(days=3), every_s=60, at=None) > LAST + timedelta(days=3)


@pytest.mark.parametrize(
    ("last", "at", "due"),
    [
        (berlin(5, 1), "03:00", berlin(5, 3)),
        (berlin(5, 3), "03:00", berlin(6, 3)),
        (berlin(5, 3, 1), "03:00", berlin(6, 3)),
        (berlin(5, 23, 59), "00:00", berlin(6, 0)),
        (berlin(29, 1, month=3), "02:30", berlin(29, 3, 30, month=3)),  # put forward at 2: there is no 02:30
        (berlin(29, 3, 30, month=3), "02:30", berlin(30, 2, 30, month=3)),
        (berlin(25, 1, month=10), "02:30", berlin(25, 2, 30, month=10)),  # put back at 3: there are two
        (berlin(25, 2, 30, month=10), "02:30", berlin(26, 2, 30, month=10)),
        (berlin(25, 2, 30, month=10, fold=1), "02:30", berlin(26, 2, 30, month=10)),
    ],
)
def test_a_time_of_day_is_the_next_one_after_the_last_time(last, at, due):
    assert next_time(last.astimezone(UTC), every_s=None, at=at, zone=BERLIN) == due.astimezone(UTC)


def test_a_time_of_day_is_the_machines_own_where_no_zone_is_said():
    due = next_time(LAST, every_s=None, at="03:00")

    assert (due.astimezone().hour, due.astimezone().minute) == (3, 0)
    assert LAST < due <= LAST + timedelta(days=1, hours=1)


def test_a_schedule_without_either_is_a_mistake():
    with pytest.raises(ValueError, match="either"):
        next_time(LAST, every_s=None, at=None)
