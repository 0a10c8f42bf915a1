"""What was spent is known after a restart and a kill, and adds up whichever way it is asked; which
budget is used up.
"""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest

from parachuted.agents.gateway.message_request import read_request
from parachuted.agents.gateway.prices import Tokens
from parachuted.agents.gateway.usage import (
    BudgetState,
    Charge,
    MoneyLimits,
    UsageStore,
    UsageTotals,
    narrowest,
)
from parachuted.errors import StorageFailedError
from parachuted.state.elapsed_clock import ClockReading, ElapsedClock
from tests.agents.gateway.conftest import run_token

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
LIMITS = MoneyLimits(
    usd_per_cause=10,
    usd_per_hour=50,
    usd_per_day=60,
    usd_per_session=10,
    conversations_usd_per_day=70,
)


def usage(usd=0.5, *, run="r1", causes=("c1",), ago=timedelta(), state="counted", **parts):
    token = run_token(run, causes=causes, **{"session": "s1", "model": "m", **parts})
    tokens = Tokens(input=10, output=20, cache_read=3, cache_write_5m=1, cache_write_1h=3)
    return Charge(
        run_token=token, model=token.model, at=NOW - ago, tokens=tokens, usd=usd, state=state
    )


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now.timestamp()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "usage.db"


@pytest.fixture
def open_store(path, clock):
    """Opens the file; what was open before is closed."""
    opened = []

    def make(elapsed=clock, limits=LIMITS) -> UsageStore:
        for store in opened:
            store.database.close()
        opened.append(UsageStore(path, elapsed, limits))
        return opened[-1]

    yield make
    for store in opened:
        store.database.close()


@pytest.fixture
def note(clock):
    def write(store, *usages):
        for each in usages:
            clock.now = each.at
            store.settle(each)
        clock.now = NOW

    return write


NAMES = {
    "work": ("usd_per_cause", "usd_per_hour", "usd_per_day"),
    "conversation": ("usd_per_session", "conversations_usd_per_day"),
}


def counted(open_store, **parts):
    """What each budget has counted, as the budgets of a run see it one by one."""
    token = run_token("r1", max_cost_usd=1e6, **parts)
    found = {}
    for name in NAMES[token.pool]:
        limits = MoneyLimits(**{**dict.fromkeys(LIMITS.__slots__, 1e6), name: 100.0})
        found[name] = round(100.0 - open_store(limits=limits).narrowest(token).left, 6)
    return found


def test_budgets_are_sums_by_run_cause_hour_and_day_and_outlive_a_restart(open_store, note, clock):
    store = open_store()
    note(
        store,
        usage(1, ago=timedelta(hours=23)),
        usage(2, run="r2", causes=("c1", "c2"), ago=timedelta(minutes=59)),
        usage(4, run="r3", causes=(), ago=timedelta(days=3)),
        usage(8, pool="conversation", causes=()),
    )
    of_c1 = {"usd_per_cause": 3, "usd_per_hour": 2, "usd_per_day": 3}
    assert counted(open_store, causes=("c1",)) == of_c1
    assert counted(open_store, causes=("c2",))["usd_per_cause"] == 2
    assert counted(open_store, causes=("c",))["usd_per_cause"] == 0
    of_talks = {"usd_per_session": 15, "conversations_usd_per_day": 8}
    assert counted(open_store, pool="conversation", session="s1") == of_talks
    store = open_store()
    assert (store.last(), store.last("conversation")) == ((2, 3), (8, 8))
    read = {"input_tokens": 10, "cache_read_tokens": 3, "cache_written_tokens": 4}
    assert store.spent("r2") == UsageTotals(requests=1, usd=2, output_tokens=20, **read)
    assert (store.spent("r2").prompt, store.spent("nothing")) == (17, UsageTotals())
    for later, last in (
        (timedelta(minutes=2), (0, 3)),
        (timedelta(hours=2), (0, 2)),
        (timedelta(days=2), (0, 0)),
    ):
        clock.now = NOW + later
        assert store.last() == last


TALK = {"model": "m", "max_tokens": 1000, "messages": []}
REQUEST = read_request(json.dumps(TALK).encode(), "m")
TOKEN = run_token("r1", model="m", max_cost_usd=10.0)


async def test_a_reservation_counts_until_what_the_request_cost_takes_its_place(open_store):
    store = open_store()
    async with store.charge(TOKEN, REQUEST) as first:
        async with store.charge(TOKEN, REQUEST) as unsent:
            budget = store.narrowest(TOKEN)
            assert (budget.counted, budget.reserved) == (0, first.usd + unsent.usd)
            assert store.spent("r1") == UsageTotals()
        budget = store.narrowest(TOKEN)
        assert (budget.counted, budget.reserved, budget.left) == (0, first.usd, 10 - first.usd)
        first.is_owed = True  # though it has no answer
    assert store.spent("r1").usd == pytest.approx(first.usd)
    killed = store.charge(TOKEN, REQUEST)
    await killed.__aenter__()
    store = open_store()
    assert store.narrowest(TOKEN).counted == 2 * first.usd  # a killed daemon's counts as spent
    with suppress(StopAsyncIteration):
        await killed.__aexit__(None, None, None)


async def test_a_reservation_that_the_disk_refused_takes_no_other_one_with_it(
    open_store, monkeypatch
):
    @contextmanager
    def refuse(connection):
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    store = open_store()
    async with store.charge(TOKEN, REQUEST) as reserved:
        with monkeypatch.context() as patch:
            patch.setattr("parachuted.state.database.transaction", refuse)
            with pytest.raises(StorageFailedError):
                await store.charge(TOKEN, REQUEST).__aenter__()
        assert store.narrowest(TOKEN).reserved == reserved.usd


@pytest.mark.parametrize("steps", range(4))
async def test_a_caller_that_leaves_while_it_reserves_leaves_nothing_behind(open_store, steps):
    async def ask() -> None:
        async with store.charge(TOKEN, REQUEST):
            await asyncio.Event().wait()

    store = open_store()
    asking = asyncio.get_running_loop().create_task(ask(), name="asks")
    for _ in range(steps):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    budget = store.narrowest(TOKEN)
    assert (budget.counted, budget.reserved) == (0, 0)


def test_the_report_adds_up_by_day_agent_model_cause_session_and_run(open_store, note):
    store = open_store()
    note(
        store,
        usage(1, causes=("c1", "c2")),
        usage(2, run="r2", agent="judge", model="n", session=None, causes=()),
        usage(4, run="r3", ago=timedelta(days=2)),
        usage(64, run="old", ago=timedelta(days=30)),
    )
    report = store.report(NOW, 7)

    assert report.total.usd == 7
    assert (report.usd_last_hour, report.usd_last_day_conversations) == (3, 0)
    assert [(day.name, day.usd) for day in report.days] == [("2026-11-22", 3), ("2026-11-20", 4)]
    for names, amounts in {
        "agents": {"curator": 5, "judge": 2},
        "runs": {"r3": 4, "r2": 2, "r1": 1},
        "sessions": {"s1": 5},
        "models": {"m": 5, "n": 2},
        "causes": {"c1": 5, "c2": 1},
    }.items():
        found = [(row.name, row.usd) for row in getattr(report, names)]
        assert found == sorted(amounts.items(), key=lambda item: -item[1])
    assert store.report(NOW, 60).total.usd == 71
    assert [note.partition(" is not known")[0] for note in report.notes] == [
        "the price of m",
        "the price of n",
    ]
    assert report.limits == LIMITS


def test_what_is_older_than_a_year_and_a_bit_goes(open_store, note):
    note(open_store(), usage(1, ago=timedelta(days=500)), usage(2))
    assert open_store().report(NOW, 1000).total.usd == 2


def test_a_clock_that_jumps_ahead_and_back_empties_no_window(open_store, tmp_path):
    real, ahead = [100.0], [0.0]

    def look():
        wall = NOW.timestamp() + real[0] + ahead[0]
        return ClockReading(boot="a", uptime=real[0], wall=wall)

    def reopen():
        clock = ElapsedClock(tmp_path / "clock.json", look)
        clock.keep()
        return open_store(clock.now)

    store = reopen()
    store.settle(usage(1))
    for jump in (25 * 3600, -25 * 3600, 2000 * 86_400, 0):
        ahead[0], real[0] = jump, real[0] + 60
        assert store.last() == (1, 1)
        store = reopen()
        assert (store.last(), store.report(NOW, 7).total.usd) == ((1, 1), 1)
    real[0] += 86_400
    assert store.last() == (0, 0)


def state(setting, counted, limit=1.0, reserved=0.0):
    return BudgetState(setting=setting, limit=limit, counted=counted, reserved=reserved)


@pytest.mark.parametrize(
    ("budgets", "budget", "is_used_up"),
    [
        ([state("run", 0.0), state("usd_per_hour", 0.5)], "usd_per_hour", False),
        ([state("run", 0.9), state("usd_per_hour", 0.5)], "run", False),
        ([state("run", 0.98), state("usd_per_hour", 1.0)], "usd_per_hour", True),
        ([state("run", 0.999), state("usd_per_day", 9.0)], "run", True),
        ([state("run", 0.5, reserved=0.4), state("usd_per_day", 0.8)], "run", False),
        ([state("usd_per_session", 99, math.inf), state("usd_per_turn", 0.1)], "usd_per_turn", 0),
    ],
)
def test_the_first_budget_that_is_used_up_or_has_the_least_left_is_named(
    budgets, budget, is_used_up
):
    found = narrowest(budgets)
    assert (found.setting, found.is_used_up) == (budget, is_used_up)


def test_it_says_which_setting_it_is_and_where_to_look():
    used_up, low = str(state("run", 1.0)), str(state("run", 0.9, reserved=0.05))
    assert used_up == "the $1 of run is used up; `parachute usage` shows on what"
    assert low.startswith("the $1 of run has $0.0500 left: too little; `parachute usage`")
