"""What was spent is known after a restart, a kill and a garbled file, and adds up whichever way it
is asked.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FuturesTimeoutError
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.agents.gateway.usage_store import (
    RequestUsage,
    RollingSum,
    UsageEntry,
    UsageStore,
    UsageTotals,
)
from parachuted.errors import StorageFailedError
from parachuted.state.elapsed_clock import ClockReading, ElapsedClock, advance

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def usage(usd=0.5, *, run="r1", causes=("c1",), ago=timedelta(), **parts):
    usual = {
        "agent": "curator",
        "session": "s1",
        "model": "m",
        "input": 10,
        "output": 20,
        "cache_read": 3,
        "cache_written": 4,
    }
    return RequestUsage(at=NOW - ago, run=run, causes=causes, usd=usd, **{**usual, **parts})


class Clock:
    """The elapsed time, moved by hand."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now.timestamp()


CLOCK = Clock()


def note(usage_store, *usages):
    """Count and write down requests, each at its own time."""
    for one in usages:
        CLOCK.now = one.at
        usage_store.count(one)
        usage_store.settle(UsageEntry(), one)
    CLOCK.now = NOW


def last(usage_store, now=NOW):
    CLOCK.now = now
    try:
        return usage_store.last()
    finally:
        CLOCK.now = NOW


@pytest.fixture
def usage_store(tmp_path):
    usage_store = UsageStore(tmp_path / "state" / "usage.db", CLOCK)
    usage_store.open()
    yield usage_store
    usage_store.close()


@pytest.fixture
def again(request):
    """The same file in the next life."""

    def reopened(usage_store):
        usage_store.close()
        later = UsageStore(usage_store._database.path, CLOCK)
        request.addfinalizer(later.close)
        later.open()
        return later

    return reopened


def test_sums_by_run_cause_and_time_outlive_a_restart(usage_store, again):
    note(
        usage_store,
        usage(1),
        usage(2, run="r2", causes=("c1", "c2")),
        usage(4, run="r3", causes=(), ago=timedelta(days=3)),
    )
    later = again(usage_store)

    assert later.spent(run="r2") == UsageTotals(
        requests=1, usd=2, input=10, output=20, cache_read=3, cache_written=4
    )
    assert (
        later.spent(cause="c1").usd,
        later.spent(cause="c2").usd,
        later.spent(cause="c9").usd,
    ) == (3, 2, 0)
    assert later.spent(since=NOW - timedelta(days=1)).usd == 3
    assert later.spent().usd == 7
    assert later.spent(run="r1", cause="c2").usd == 0
    later.close()


def test_what_is_followed_is_known_before_it_is_written_down(usage_store, again):
    note(usage_store, usage(1))
    later = again(usage_store)
    later.follow("r1", ("c1", "c7"))
    later.count(usage(2, causes=("c7",)))

    assert later.followed("run", "r1").usd == 3
    assert (later.followed("cause", "c1").usd, later.followed("cause", "c7").usd) == (1, 2)
    assert later.followed("run", "unknown") == UsageTotals()
    assert later.followed("run", "r1").prompt == 2 * 17
    later.close()


def test_hours_and_days_pass_and_a_restart_does_not_forget_them(usage_store, again):
    note(
        usage_store,
        usage(1, ago=timedelta(hours=23)),
        usage(2, ago=timedelta(minutes=59)),
        usage(4),
    )
    assert last(usage_store, NOW) == (6, 7)
    later = again(usage_store)
    assert last(later, NOW) == (6, 7)
    assert last(later, NOW + timedelta(minutes=2)) == (4, 7)
    assert last(later, NOW + timedelta(hours=2)) == (0, 6)
    assert last(later, NOW + timedelta(days=2)) == (0, 0)
    later.close()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 100_000)), max_size=40))
def test_the_sums_in_memory_are_those_of_the_rows(tmp_path_factory, spendings):
    usage_store = UsageStore(tmp_path_factory.mktemp("usage_store") / "usage.db", CLOCK)
    usage_store.open()
    for usd, ago in sorted(spendings, key=lambda one: -one[1]):
        note(usage_store, usage(usd, ago=timedelta(seconds=ago)))
    hour, day = last(usage_store, NOW)
    assert hour == pytest.approx(sum(usd for usd, ago in spendings if ago < 3600))
    assert day == pytest.approx(sum(usd for usd, ago in spendings if ago < 86_400))
    usage_store.close()


def test_the_report_adds_up_by_day_agent_model_cause_session_and_run(usage_store):
    note(
        usage_store,
        usage(1),
        usage(2, run="r2", agent="judge", model="n", session=None, causes=()),
        usage(4, run="r3", ago=timedelta(days=2)),
    )
    note(usage_store, usage(64, run="old", ago=timedelta(days=30)))
    report = usage_store.report(NOW, 7)

    assert report["total"]["usd"] == 7
    assert [(day["date"], day["usd"]) for day in report["days"]] == [
        ("2026-11-22", 3),
        ("2026-11-20", 4),
    ]
    assert [(one["agent"], one["usd"]) for one in report["agents"]] == [
        ("curator", 5),
        ("judge", 2),
    ]
    assert [(one["run"], one["usd"]) for one in report["runs"]] == [("r3", 4), ("r2", 2), ("r1", 1)]
    assert [(one["session"], one["requests"]) for one in report["sessions"]] == [("s1", 2)]
    assert {one["model"]: one["usd"] for one in report["models"]} == {"m": 5, "n": 2}
    assert [(one["cause"], one["usd"]) for one in report["causes"]] == [("c1", 5)]
    assert usage_store.report(NOW, 60)["total"]["usd"] == 71


def test_what_is_older_than_a_year_and_a_bit_goes(usage_store, again):
    note(usage_store, usage(1, ago=timedelta(days=500)), usage(2))
    later = again(usage_store)
    assert later.spent().usd == 2
    assert later.spent(cause="c1").usd == 2
    later.close()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _data: b"not a database at all" * 400,
        lambda data: data[:4096] + os.urandom(len(data) - 4096),
    ],
)
def test_a_garbled_file_is_set_aside_and_said(usage_store, spoil, again):
    note(usage_store, *[usage(run=f"r{number}") for number in range(200)])
    usage_store.close()
    usage_store._database.path.write_bytes(spoil(usage_store._database.path.read_bytes()))
    later = UsageStore(usage_store._database.path, CLOCK)
    later.open()

    assert "set aside as usage.db.garbled-" in later.problem
    assert len(list(usage_store._database.path.parent.glob("usage.db.garbled-*"))) == 1
    note(later, usage(3))
    assert again(later).spent().usd == 3


def test_no_one_else_may_read_it(usage_store):
    assert usage_store._database.path.stat().st_mode & 0o077 == 0


def test_what_was_reserved_when_the_daemon_was_killed_is_spent(tmp_path):
    code = f"""
import os, signal
from datetime import datetime, UTC
from pathlib import Path
from parachuted.agents.gateway.usage_store import RequestUsage, UsageEntry, UsageStore
import time
usage_store = UsageStore(Path({str(tmp_path / "usage.db")!r}), time.time)
for number in range(50):
    usage_store.reserve(UsageEntry(), RequestUsage(at=datetime.now(UTC), run=str(number), agent="a", causes=("c",), session=None, model="m", input=1,
                      output=1, cache_read=0, cache_written=0, usd=1.0))
os.kill(os.getpid(), signal.SIGKILL)
"""  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    usage_store = UsageStore(tmp_path / "usage.db", CLOCK)
    assert usage_store.spent(cause="c").usd == 50
    assert usage_store.problem is None
    usage_store.close()


def test_after_its_close_it_says_so_and_counts_on(usage_store):
    usage_store.close()
    with pytest.raises(StorageFailedError):
        usage_store.settle(UsageEntry(), usage())
    usage_store.count(usage(2))
    assert last(usage_store, NOW)[1] == 2


def test_what_is_in_memory_is_reported_at_once_while_the_file_makes_others_wait(usage_store, again):
    usage_store = again(usage_store)
    usage_store.follow("r1", ["c1"])
    other = sqlite3.connect(
        usage_store._database.path, isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as threads:
        keeping = threads.submit(usage_store.settle, UsageEntry(), usage(1))
        with pytest.raises(FuturesTimeoutError):
            keeping.result(0.2)
        usage_store.count(usage(1))
        assert (usage_store.followed("run", "r1").usd, last(usage_store, NOW)[0]) == (1, 1)
        assert not keeping.done()
        other.close()
        keeping.result(30)
    assert usage_store.spent(run="r1").usd == 1
    usage_store.close()


def test_what_a_request_cost_takes_the_place_of_what_was_reserved_for_it(usage_store, again):
    cheap, free, left = UsageEntry(), UsageEntry(), UsageEntry()
    for entry in (cheap, free, left):
        usage_store.reserve(entry, usage(2))
    assert usage_store.spent(cause="c1").usd == 6
    usage_store.settle(cheap, usage(0.5))
    usage_store.settle(free, None)
    assert usage_store.spent(cause="c1") == usage_store.spent(run="r1")
    assert usage_store.spent().usd == 2.5
    assert last(again(usage_store))[0] == 2.5


def test_a_request_that_has_ended_before_its_reservation_was_written_is_not_reserved_afterwards(
    usage_store,
):
    early, free = UsageEntry(), UsageEntry()
    usage_store.settle(early, usage(0.5))
    usage_store.settle(free, None)
    usage_store.reserve(early, usage(2))
    usage_store.reserve(free, usage(2))
    assert usage_store.spent().usd == 0.5


def test_rows_of_an_earlier_version_have_the_wall_clock_s_time(usage_store, again):
    note(
        usage_store,
        usage(1, ago=timedelta(minutes=30)),
        usage(2, ago=timedelta(hours=2)),
        usage(4, ago=timedelta(days=500)),
    )
    usage_store._database.rows("DELETE FROM request_times")
    later = again(usage_store)
    assert (last(later), later.spent().usd) == ((1, 3), 3)
    later.close()


def test_a_clock_that_jumps_a_day_ahead_and_back_empties_no_window_and_deletes_no_row(tmp_path):
    real, ahead = [100.0], [0.0]
    marks = tmp_path / "clock.json"

    def open_ledger():
        clock = ElapsedClock(
            marks,
            lambda: ClockReading(
                boot="a", uptime=real[0], wall=NOW.timestamp() + real[0] + ahead[0]
            ),
        )
        clock.keep()
        usage_store = UsageStore(tmp_path / "usage.db", clock.now)
        usage_store.open()
        return usage_store

    usage_store = open_ledger()
    usage_store.count(usage(1))
    usage_store.settle(UsageEntry(), usage(1))
    for jump in (25 * 3600, -25 * 3600, 2000 * 86_400, 0):
        ahead[0], real[0] = jump, real[0] + 60
        assert usage_store.last() == (1, 1)
        usage_store.close()
        usage_store = open_ledger()
        assert (usage_store.last(), usage_store.spent().usd) == ((1, 1), 1)
    real[0] += 86_400
    assert usage_store.last() == (0, 0)
    usage_store.close()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("spend"), st.floats(0, 1)),
            st.tuples(st.just("pass"), st.floats(0, 30 * 3600)),
            st.tuples(
                st.just("jump"), st.sampled_from([25 * 3600.0, -25 * 3600.0, 400 * 86_400.0])
            ),
            st.tuples(st.just("restart"), st.floats(0, 3600)),
        ),
        max_size=60,
    )
)
def test_no_real_day_sees_more_than_its_limit_whatever_the_clock_does(steps):
    """The pure parts of it: a limit of 1, kept by a window of elapsed time, on a machine whose wall
    clock jumps.
    """
    limit, real, ahead = 1.0, 1000.0, 0.0
    mark = kept = advance(None, ClockReading(boot="a", uptime=real, wall=1e9 + real))
    window, rows = RollingSum(86_400), []
    for what, amount in steps:
        if what == "pass":
            real += amount
        elif what == "jump":
            ahead += amount
        elif (
            what == "restart"
        ):  # a kill: the mark is the one that was last kept, the window is what the rows say
            real += amount
            mark, window = kept, RollingSum(86_400)
            for at, usd, _ in rows:
                window.add(at, usd)
        mark = advance(mark, ClockReading(boot="a", uptime=real, wall=1e9 + real + ahead))
        if what == "spend" and window.total(mark.elapsed) + amount <= limit:
            window.add(mark.elapsed, amount)
            rows.append((mark.elapsed, amount, real))
    for _, _, start in rows:
        assert (
            sum(usd for _, usd, at in rows if start <= at < start + 86_400 - 1e-3) <= limit + 1e-6
        )


def test_conversations_have_sums_of_their_own_which_outlive_a_restart(usage_store):
    usage_store.open()
    usage_store.follow("r1", (), "s1")
    note(usage_store, usage(0.5), usage(2.0, is_conversation=True), usage(1.0, session="s2"))

    def sums(store) -> tuple[object, ...]:
        return store.last(), store.last_of_conversations(), store.followed("session", "s1").usd

    assert sums(usage_store) == ((1.5, 1.5), 2.0, 2.5)
    usage_store.close()
    again = UsageStore(usage_store._database.path, CLOCK)
    again.open()
    again.follow("r1", (), "s1")
    assert sums(again) == ((1.5, 1.5), 2.0, 2.5)
    again.close()
