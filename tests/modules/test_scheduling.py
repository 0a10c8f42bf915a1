"""`self.schedules`, as an author uses it: what a timing means, and when it falls due."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import NotFoundError
from parachuted.modules.scheduling import Timing, parse_timing
from parachuted.testing import running_module
from tests.modules.small_modules import write_module

BODY = """
async def reflect(self, agent: str = "none"):
    await self.state.put("reflected", agent)
@schedule(cron="0 3 * * *", timezone="Europe/Berlin")
async def nightly(self):
    await self.state.put("nightly", True)
@route("POST", "/schedules/{name}")
async def keep(self, name: str, cron: str, method: str = "reflect", agent: str = "one"):
    await self.schedules.set(name, method, cron=cron, args={"agent": agent})
@route("GET", "/schedules")
async def all(self):
    return await self.schedules.list()
@route("DELETE", "/schedules/{name}")
async def drop(self, name: str):
    return await self.schedules.remove(name)
"""


async def test_a_schedule_is_set_listed_run_and_removed(tmp_path, vault):
    folder = write_module(tmp_path / "daily", BODY)
    async with running_module(folder, vault=vault) as module:
        for wrong in (
            {"cron": "* * * * * *"},
            {"cron": "0 3 * * *", "method": "gone"},
            {"cron": "never"},
        ):
            with pytest.raises(Exception, match="failed in keep"):
                await module.request("POST", "/schedules/a", body=wrong)
            assert "ValueError" in module.problem, "it is the author's mistake"
        assert await module.request("GET", "/schedules") == []

        await module.request("POST", "/schedules/evening", body={"cron": "30 21 * * *"})
        [found] = await module.request("GET", "/schedules")
        assert (found["name"], found["method"]) == ("evening", "reflect")
        assert found["arguments"] == {"agent": "one"}
        assert datetime.fromisoformat(found["next_at"]) > datetime.now(UTC)
        await module.tick("evening")
        await module.tick("nightly")

        assert await module.state.get("reflected") == "one"
        assert await module.state.get("nightly") is True
        assert await module.request("DELETE", "/schedules/evening") is True
        with pytest.raises(NotFoundError):
            await module.tick("evening")


@pytest.mark.parametrize(
    ("said", "timing", "words"),
    [
        ({"every": "15m"}, Timing(every_s=900), "every 900 s"),
        ({"at": "03:00"}, Timing(at="03:00"), "each day at 03:00"),
        (
            {"at": "03:00", "timezone": "Europe/Berlin"},
            Timing(at="03:00", timezone="Europe/Berlin"),
            "each day at 03:00 in Europe/Berlin",
        ),
        ({"cron": " 0  3 * * MON-FRI "}, Timing(cron="0 3 * * MON-FRI"), "cron 0 3 * * MON-FRI"),
    ],
)
def test_each_form_has_its_words(said, timing, words):
    assert (parse_timing(**said), timing.words()) == (timing, words)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, "say one of"),
        ({"every": "1m", "cron": "* * * * *"}, "say one of"),
        ({"every": "15m", "timezone": "UTC"}, "has no timezone"),
        ({"every": "0m"}, "not a duration"),
        ({"at": "25:00"}, "names no time"),
        *(
            ({"at": "03:00", "timezone": zone}, "names no time")
            for zone in ("Berlin", "../../etc/passwd", "Europe", "")
        ),
        *(({"cron": cron}, "five fields") for cron in ("* * * *", "* * * * * *", "@daily")),
        *(
            ({"cron": cron}, "names no time")
            for cron in ("61 * * * *", "0 0 30 2 *", "x x x x x", "٣ 3 * * *")
        ),
        ({"cron": "0 " * 60}, "at most"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_wrong(said, problem):
    with pytest.raises(ValueError, match=problem):
        parse_timing(**said)


BERLIN = ZoneInfo("Europe/Berlin")
AT = re.compile(r"(\d+) (\d+) \* \* \*")
LAST = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def berlin(day: int, hour: int, minute: int = 0, *, month: int = 1, fold: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN, fold=fold)


@pytest.fixture
def machine_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Sets the machine's zone by `TZ`, and takes it back."""
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3"])
@pytest.mark.parametrize(("month", "day"), [(3, 29), (10, 25)])
def test_the_machines_own_zone_is_kept_when_its_clock_changes(machine_in, zone, month, day):
    machine_in.setenv("TZ", zone)
    time.tzset()
    midnight = berlin(day, 0, month=month).astimezone(UTC)
    for minute in range(0, 6 * 60, 10):
        last = midnight + timedelta(minutes=minute)
        for at in ("00:00", "02:00", "02:30", "03:00"):
            there = Timing(at=at, timezone="Europe/Berlin").next_after(last)
            assert Timing(at=at).next_after(last) == there


@pytest.mark.parametrize("last", [berlin(29, 1, 45, month=3), berlin(25, 2, 45, month=10)])
def test_a_span_is_of_time_that_has_passed_whatever_the_clock_changes_to(last):
    assert Timing(every_s=3600).next_after(last) - last.astimezone(UTC) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("last", "cron", "due"),
    [
        (berlin(5, 1), "0 3 * * *", berlin(5, 3)),
        (berlin(5, 3), "0 3 * * *", berlin(6, 3)),
        (berlin(5, 23, 59), "0 0 * * *", berlin(6, 0)),
        (berlin(5, 12), "30 7 * * SUN", berlin(11, 7, 30)),  # 5 January 2026 is a Monday
        (berlin(5, 12), "0 9 1 * *", berlin(1, 9, month=2)),
        (berlin(28, 12, month=2), "0 0 L * *", berlin(31, 0, month=3)),
        # put forward at 2: what was due at 2:30 is due when the hour is over, and once
        (berlin(29, 1, month=3), "30 2 * * *", berlin(29, 3, month=3)),
        (berlin(29, 3, month=3), "30 2 * * *", berlin(30, 2, 30, month=3)),
        (berlin(29, 1, 50, month=3), "*/15 * * * *", berlin(29, 3, month=3)),
        # put back at 3: there are two 2:30, and the first counts
        (berlin(25, 1, month=10), "30 2 * * *", berlin(25, 2, 30, month=10)),
        (berlin(25, 2, 30, month=10), "30 2 * * *", berlin(26, 2, 30, month=10)),
        (berlin(25, 2, 10, month=10, fold=1), "30 2 * * *", berlin(26, 2, 30, month=10)),
        (berlin(25, 2, 45, month=10), "*/15 * * * *", berlin(25, 2, month=10, fold=1)),
        (berlin(25, 2, 45, month=10, fold=1), "*/15 * * * *", berlin(25, 3, month=10)),
    ],
)
def test_cron_runs_as_debians_does_through_the_changes_of_the_clock(last, cron, due):
    timings = [Timing(cron=cron, timezone="Europe/Berlin")]
    if (time_of_day := AT.fullmatch(cron)) is not None:
        hour, minute = int(time_of_day[2]), int(time_of_day[1])
        timings.append(Timing(at=f"{hour:02}:{minute:02}", timezone="Europe/Berlin"))
    for timing in timings:
        assert timing.next_after(last) == due.astimezone(UTC)


@given(
    last=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(  # noqa: DTZ001  UTC is set here
        lambda at: at.replace(tzinfo=UTC)
    ),
    cron=st.sampled_from(["*/15 * * * *", "30 2 * * *", "0 * * * *", "0 0 * * 1", "59 23 31 12 *"]),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]),
)
def test_cron_is_never_due_in_the_past_and_never_stands_still(last, cron, zone):
    timing = Timing(cron=cron, timezone=zone)
    first = timing.next_after(last)
    second = timing.next_after(first)

    assert last < first < second


def test_a_timing_is_due_in_its_own_zone():
    three = datetime(2026, 1, 5, 18, tzinfo=UTC)
    assert Timing(at="03:00", timezone="Asia/Tokyo").next_after(LAST) == three
    assert Timing(cron="0 3 * * *", timezone="Asia/Tokyo").next_after(LAST) == three
    assert Timing(every_s=60).next_after(LAST) == LAST + timedelta(minutes=1)
