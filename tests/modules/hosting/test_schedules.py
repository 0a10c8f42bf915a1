"""Schedules run when they are due, once each, and remember it; what modules set is checked, and
carries on what it was set with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import cast

import pytest

from parachuted.access.caller import NO_CALLER, Caller, WorkRequest, acting, current
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import ActRefusedError, EditRefusedError, ModuleFailedError
from parachuted.modules.declare import ScheduleMark
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.hosting.schedules import MOST_SCHEDULES, ModuleScheduler, ModuleSchedules
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.scheduling import Timing
from parachuted.state import open_state
from tests.modules.module_rig import UNRECORDED

HOURLY = Timing(every_s=3_600)
BEGUN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Clock:
    """A clock that tests set, which APScheduler takes for `datetime`."""

    moment = BEGUN

    def __call__(self) -> datetime:
        return self.moment

    def now(self, _zone: tzinfo) -> datetime:
        return self.moment

    def go(self, **span: float) -> None:
        self.moment += timedelta(**span)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("apscheduler.schedulers.base.datetime", made)
    return made


class CountingModule:
    """A module that counts what it is told to do."""

    name = "daily"
    declared: ModuleDeclaration

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.data: list[Mapping[str, object]] = []
        self.tainted: list[bool] = []
        self.wait: asyncio.Event | None = None
        self.fails = False

    async def call(self, call: HandlerCall) -> None:
        assert current() is NO_CALLER
        caller, asker = call.caller, call.caller.request
        self.reported.append(call.handler)
        self.data.append(call.arguments)
        self.tainted.append(bool(caller.taint))
        assert (len(caller.causes), asker.by, asker.entry) == (1, "clock", "schedule")
        if self.wait is not None:
            await asyncio.wait_for(self.wait.wait(), call.timeout_s)
        if self.fails:
            raise ModuleFailedError


@pytest.fixture
def tells() -> CountingModule:
    return CountingModule()


@pytest.fixture
def clockwork(clock: Clock) -> ModuleScheduler:
    return ModuleScheduler(clock, None, UNRECORDED)


def add(clockwork: ModuleScheduler, tells: CountingModule, **timing: object) -> None:
    """Its method `tidy` runs each minute, or at that time."""
    schedule = ScheduleMark(handler="tidy", timing=Timing(**timing or {"every_s": 60}))
    tells.declared = ModuleDeclaration(
        name="daily", version="1.0.0", prefix="/api/daily", schedules=(schedule,)
    )
    clockwork.add(cast("ModuleHost", tells))


async def turns() -> None:
    """Let APScheduler do what it leaves to the next turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)


async def due(clockwork: ModuleScheduler) -> None:
    async with asyncio.TaskGroup() as group:
        with acting(Caller()):  # as a request that sets a schedule
            clockwork.begin_due(group)
        await turns()
    await turns()


async def test_a_schedule_runs_after_each_span_until_its_module_is_gone(clock, tells, clockwork):
    add(clockwork, tells)

    await due(clockwork)
    assert tells.reported == []
    for number in (1, 2, 3):
        clock.go(seconds=61)
        await due(clockwork)
        await due(clockwork)
        assert tells.reported == ["tidy"] * number
        tells.fails = True

    clockwork.remove("daily")
    clock.go(seconds=61)
    await due(clockwork)
    assert tells.reported == ["tidy"] * 3


async def test_what_the_daemon_slept_through_runs_once_also_after_a_restart(
    clock, tmp_path: Path, tells
):
    """The same is so of what a module sets again, with its arguments and its taint."""
    caller = Caller()
    caller.taint.read("Inbox/mail.md")
    state = open_state(tmp_path / "state.db")
    clockwork = ModuleScheduler(clock, state, UNRECORDED)
    add(clockwork, tells)
    await set_nightly(clockwork, caller=caller)
    state.close()
    clock.go(days=3)
    state = open_state(tmp_path / "state.db")
    clockwork = ModuleScheduler(clock, state, UNRECORDED)
    await set_nightly(clockwork, caller=caller)
    add(clockwork, tells)

    await due(clockwork)
    await due(clockwork)

    assert sorted(tells.reported) == ["reflect", "tidy"]
    assert clockwork.of("daily")[1].words().startswith("nightly, reflect: ")
    at = tells.reported.index("reflect")
    assert (tells.data[at], tells.tainted[at]) == ({"agent": "a"}, True)
    assert all(
        one.next_at > clock() for one in await ModuleSchedules("daily", clockwork, Caller).list()
    )
    state.close()


async def test_one_that_is_due_while_it_is_at_work_waits_for_its_next_time(
    clock, caplog, tells, clockwork
):
    tells.wait = asyncio.Event()
    add(clockwork, tells)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            clock.go(seconds=61)
            clockwork.begin_due(group)
            await turns()

        assert tells.reported == ["tidy"]
        assert caplog.records == []
        tells.wait.set()
    await turns()

    clock.go(seconds=61)
    await due(clockwork)
    assert tells.reported == ["tidy", "tidy"]


NEARLY_THREE = datetime(2026, 1, 5, 2, 59)  # noqa: DTZ001  of this machine's own zone
NIGHTLY_AT = {"at": "03:00"}


@pytest.mark.parametrize(
    ("timing", "steps"),
    [
        ({"every_s": 60}, [({"days": -30}, 0), ({"seconds": 61}, 1)]),
        (
            NIGHTLY_AT,
            [
                ({"minutes": 1}, 1),
                *(({"seconds": step}, 1) for step in (-10, 20, -7200, 7200)),
                ({"days": 1}, 2),
            ],
        ),
        (
            NIGHTLY_AT,
            [({"days": 365}, 1), ({}, 1), ({"days": -365}, 1), ({"minutes": 1}, 2)],
        ),
    ],
    ids=["put back", "corrected by a little", "jumps ahead and is set right"],
)
async def test_a_clock_that_is_set_puts_no_schedule_off_and_repeats_none(
    clock, tells, clockwork, timing, steps
):
    clock.moment = NEARLY_THREE.astimezone()
    add(clockwork, tells, **timing)
    for span, times in steps:
        clock.go(**span)
        await due(clockwork)
        assert tells.reported == ["tidy"] * times


async def set_nightly(
    clockwork: ModuleScheduler, method: str = "reflect", *, caller: Caller | None = None, **timing
) -> None:
    found = Timing(**timing or {"cron": "0 3 * * *"})
    schedules = ModuleSchedules("daily", clockwork, lambda: caller or Caller())
    await schedules.set("nightly", method, {"agent": "a"}, found)


async def test_setting_the_same_again_at_each_start_puts_nothing_off(clock, tells, clockwork):
    add(clockwork, tells, every_s=999_999)
    for _ in range(5):
        await set_nightly(clockwork, every_s=60)
        clock.go(seconds=20)
        await due(clockwork)
    assert tells.reported == ["reflect"]

    await set_nightly(clockwork, "other", every_s=60)
    clock.go(seconds=30)
    await due(clockwork)
    assert tells.reported == ["reflect", "other"], "other arguments or methods keep the time"

    await set_nightly(clockwork, every_s=90)
    clock.go(seconds=80)
    await due(clockwork)
    assert tells.reported == ["reflect", "other"], "another timing begins to count when it is set"


async def test_what_is_removed_or_whose_module_has_ended_does_not_run(clock, tells, clockwork):
    add(clockwork, tells, every_s=999_999)
    await set_nightly(clockwork, every_s=60)
    clockwork.remove("daily")
    clock.go(minutes=5)
    await due(clockwork)
    assert (tells.reported, clockwork.schedules()) == ([], [])

    await set_nightly(clockwork, every_s=60)
    add(clockwork, tells, every_s=999_999)
    assert await ModuleSchedules("daily", clockwork, Caller).remove("nightly")
    clock.go(minutes=5)
    await due(clockwork)
    assert tells.reported == []


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": name} for name in ("", "a\nb", "x" * 101)),
        *({"method": method} for method in ("", "a b", "x" * 101)),
        {"arguments": {"text": "x" * 20_000}},
    ],
)
async def test_what_cannot_be_a_schedule_is_refused(clockwork, wrong):
    mine = ModuleSchedules("daily", clockwork, Caller)
    asked = {"name": "a", "method": "b", "arguments": {}, "timing": HOURLY}
    with pytest.raises(EditRefusedError):
        await mine.set(**asked | wrong)
    assert await mine.list() == []


async def test_a_module_sets_only_so_many(clockwork):
    mine = ModuleSchedules("daily", clockwork, Caller)
    for number in [*range(MOST_SCHEDULES), 0]:
        await mine.set(str(number), "look", {}, HOURLY)
    with pytest.raises(EditRefusedError, match="at most"):
        await mine.set("another", "look", {}, HOURLY)


async def test_a_schedule_keeps_its_taint_and_no_other_module_sees_it(clockwork):
    caller = Caller()
    caller.taint.read("Inbox/mail.md")
    mine = ModuleSchedules("daily", clockwork, lambda: caller)
    other = ModuleSchedules("brain", clockwork, Caller)

    await mine.set("hourly", "look", {"text": "of a stranger"}, HOURLY)

    assert clockwork.of("daily")[0].is_tainted
    (found,) = await mine.list()
    assert (found.name, found.method, found.timing) == ("hourly", "look", HOURLY)
    assert await other.list() == []
    assert not await other.remove("hourly")
    assert await mine.remove("hourly")
    assert await mine.list() == []


@pytest.mark.parametrize(
    ("caller", "says"),
    [
        (Caller(request=WorkRequest(is_valid=lambda: False)), "have ended"),
        (Caller(grant=CallerGrant(reads=grant_of(["Daily/**"]))), "limited to some paths"),
    ],
)
async def test_who_is_limited_or_has_lost_its_rights_sets_and_removes_nothing(
    clockwork, caller, says
):
    mine = ModuleSchedules("daily", clockwork, lambda: caller)
    own = ModuleSchedules("daily", clockwork, Caller)
    await own.set("hourly", "look", {}, HOURLY)

    for work in (mine.set("a", "b", {}, HOURLY), mine.remove("hourly")):
        with pytest.raises(ActRefusedError, match=says):
            await work
    if says == "have ended":
        with pytest.raises(ActRefusedError):
            await mine.list()
    assert [one.name for one in await own.list()] == ["hourly"]
