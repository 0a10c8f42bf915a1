"""Schedules run when they are due, once each, and remember it; what modules set is kept, is checked
when it comes back, and carries on what it was set with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import cast

import pytest

from parachuted.access.caller import NO_CALLER, Caller, WorkRequest, acting, current
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import ActRefusedError, EditRefusedError, ModuleFailedError
from parachuted.modules.declare import ScheduleMark
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.hosting.schedules import (
    MOST_SCHEDULES,
    ModuleScheduler,
    ModuleSchedules,
    SetSchedule,
    SetSchedules,
)
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.scheduling import Timing
from parachuted.state import open_state
from tests.modules.module_rig import UNRECORDED

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

    async def tell(self, call: HandlerCall) -> None:
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


async def test_a_schedule_runs_each_time_its_span_is_over(clock, tells, clockwork):
    add(clockwork, tells)

    await due(clockwork)
    assert tells.reported == []
    clock.go(seconds=61)
    await due(clockwork)
    await due(clockwork)

    assert tells.reported == ["tidy"]


async def test_what_the_daemon_slept_through_runs_once_also_after_a_restart(
    clock, tmp_path: Path, tells
):
    state = open_state(tmp_path / "state.journal")
    add(ModuleScheduler(clock, state, UNRECORDED), tells)
    state.close()
    clock.go(days=3)
    state = open_state(tmp_path / "state.journal")
    clockwork = ModuleScheduler(clock, state, UNRECORDED)
    add(clockwork, tells)

    await due(clockwork)
    await due(clockwork)

    assert tells.reported == ["tidy"]
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


async def test_one_that_fails_runs_again_when_it_is_due(clock, tells, clockwork):
    tells.fails = True
    add(clockwork, tells)

    for _ in range(2):
        clock.go(seconds=61)
        await due(clockwork)

    assert tells.reported == ["tidy", "tidy"]


async def test_a_clock_that_was_put_back_does_not_put_the_schedule_off(clock, tells, clockwork):
    add(clockwork, tells)
    clock.go(days=-30)

    await due(clockwork)
    clock.go(seconds=61)
    await due(clockwork)

    assert tells.reported == ["tidy"]


async def test_a_clock_that_is_corrected_by_a_little_does_not_repeat_a_time_of_day(
    clock, tells, clockwork
):
    clock.moment = datetime(2026, 1, 5, 2, 59).astimezone()
    add(clockwork, tells, at="03:00")
    clock.go(minutes=1)
    await due(clockwork)

    for step in (-10, 20, -7200, 7200):
        clock.go(seconds=step)
        await due(clockwork)
    assert tells.reported == ["tidy"]

    clock.go(days=1)
    await due(clockwork)
    assert tells.reported == ["tidy", "tidy"]


async def test_a_clock_that_jumps_ahead_and_is_set_right_costs_one_run_and_puts_no_time_of_day_off(
    clock, tells, clockwork
):
    clock.moment = datetime(2026, 1, 5, 2, 59).astimezone()
    add(clockwork, tells, at="03:00")
    clock.go(days=365)
    await due(clockwork)
    await due(clockwork)
    assert tells.reported == ["tidy"]

    clock.go(days=-365)
    await due(clockwork)
    clock.go(minutes=1)
    await due(clockwork)

    assert tells.reported == ["tidy", "tidy"]


async def test_the_schedules_of_a_module_that_is_gone_rest(clock, tells, clockwork):
    add(clockwork, tells)

    clockwork.remove(cast("ModuleHost", tells))
    clock.go(seconds=61)
    await due(clockwork)

    assert tells.reported == []


def nightly(method: str = "reflect", **more: object) -> SetSchedule:
    values = {"arguments": {"agent": "a"}, "timing": Timing(cron="0 3 * * *")} | more
    return SetSchedule(name="nightly", method=method, **values)


async def test_what_a_module_sets_runs_with_its_arguments_and_its_taint_also_after_a_restart(
    clock, tmp_path: Path, tells
):
    state = open_state(tmp_path / "state.journal")
    clockwork = ModuleScheduler(clock, state, UNRECORDED, SetSchedules(tmp_path / "set"))
    add(clockwork, tells, every_s=999_999)
    await clockwork.set("daily", nightly(is_tainted=True))
    state.close()
    clock.go(days=3)
    state = open_state(tmp_path / "state.journal")
    clockwork = ModuleScheduler(clock, state, UNRECORDED, SetSchedules(tmp_path / "set"))
    add(clockwork, tells, every_s=999_999)

    await due(clockwork)
    await due(clockwork)

    assert tells.reported == ["reflect"]
    assert clockwork.words("daily")[1].startswith("nightly, reflect: ")
    assert tells.data == [{"agent": "a"}]
    assert tells.tainted == [True]
    assert all(one.next_at > clock() for one in clockwork.set_by("daily"))
    state.close()


async def test_setting_the_same_again_at_each_start_puts_nothing_off(
    clock, tmp_path: Path, tells, clockwork
):
    add(clockwork, tells, every_s=999_999)
    for _ in range(5):
        await clockwork.set("daily", nightly(timing=Timing(every_s=60)))
        clock.go(seconds=20)
        await due(clockwork)
    assert tells.reported == ["reflect"]

    await clockwork.set("daily", nightly("other", timing=Timing(every_s=60)))
    clock.go(seconds=30)
    await due(clockwork)
    assert tells.reported == ["reflect", "other"], "other arguments or methods keep the time"

    await clockwork.set("daily", nightly(timing=Timing(every_s=90)))
    clock.go(seconds=80)
    await due(clockwork)
    assert tells.reported == ["reflect", "other"], "another timing begins to count when it is set"


async def test_what_is_removed_or_whose_module_has_ended_does_not_run(clock, tmp_path, tells):
    state = open_state(tmp_path / "state.journal")
    clockwork = ModuleScheduler(clock, state, UNRECORDED)
    add(clockwork, tells, every_s=999_999)
    await clockwork.set("daily", nightly(timing=Timing(every_s=60)))
    clockwork.remove(cast("ModuleHost", tells))
    clock.go(minutes=5)
    await due(clockwork)
    assert tells.reported == []

    add(clockwork, tells, every_s=999_999)
    await due(clockwork)
    assert tells.reported == ["reflect"]
    assert await clockwork.unset("daily", "nightly")
    clock.go(minutes=5)
    await due(clockwork)
    assert tells.reported == ["reflect"]
    state.close()


NIGHTLY = SetSchedule(
    name="nightly",
    method="reflect",
    arguments={"agent": "reflector", "days": [1, 2]},
    timing=Timing(cron="0 3 * * *", timezone="Europe/Berlin"),
    is_tainted=True,
)


async def test_what_is_set_comes_back_and_what_is_removed_does_not(tmp_path):
    await SetSchedules(tmp_path).put("daily", NIGHTLY)
    again = SetSchedules(tmp_path)

    assert dict(again.of("daily")) == {"nightly": NIGHTLY}
    assert dict(again.of("brain")) == {}
    assert (tmp_path / "daily.json").stat().st_mode & 0o777 == 0o600
    assert await again.remove("daily", "nightly")
    assert not await again.remove("daily", "nightly")
    assert dict(SetSchedules(tmp_path).of("daily")) == {}


@pytest.mark.parametrize(
    "text",
    [
        "rubbish",
        "[{}]",
        '[{"name": "a", "method": "m", "arguments": {}, "timing": {"cron": "x"}, "read": {}}]',
        '[{"name": "a", "method": "m", "arguments": {}, "timing": {}, "read": {}}]',
    ],
)
async def test_a_file_edited_to_rubbish_counts_as_none_and_is_replaced(tmp_path, text):
    (tmp_path / "daily.json").write_text(text)
    found = SetSchedules(tmp_path)

    assert dict(found.of("daily")) == {}
    await found.put("daily", NIGHTLY)
    assert dict(SetSchedules(tmp_path).of("daily")) == {"nightly": NIGHTLY}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 101},
        {"method": "hooks:main"},
        {"method": "a b"},
        {"arguments": {"text": "x" * 20_000}},
        {"timing": Timing(cron="* * * * * *")},
        {"timing": Timing(every_s=0)},
        {"timing": Timing(at="03:00", timezone="nowhere")},
    ],
)
async def test_what_cannot_be_a_schedule_is_refused(module_rig, wrong):
    mine = ModuleSchedules("daily", module_rig.scheduler, Caller)
    asked = {"name": "a", "method": "b", "arguments": {}, "timing": NIGHTLY.timing, **wrong}
    with pytest.raises(EditRefusedError):
        await mine.set(**asked)
    assert await mine.list() == []


async def test_a_module_sets_only_so_many():
    found = SetSchedules(None)
    for number in range(MOST_SCHEDULES):
        await found.put("daily", replace(NIGHTLY, name=str(number)))

    with pytest.raises(EditRefusedError, match="at most"):
        await found.put("daily", replace(NIGHTLY, name="one more"))
    await found.put("daily", replace(NIGHTLY, name="0", method="other"))
    await found.put("brain", NIGHTLY)


HOURLY = Timing(every_s=3_600)


async def test_what_was_read_of_strangers_goes_with_the_schedule(module_rig):
    caller = Caller()
    caller.taint.read("Inbox/mail.md")
    mine = ModuleSchedules("daily", module_rig.scheduler, lambda: caller)

    await mine.set("hourly", "look", {"text": "of a stranger"}, HOURLY)

    assert module_rig.scheduler._set.of("daily")["hourly"].is_tainted
    assert [(one.name, one.method, one.timing) for one in await mine.list()] == [
        ("hourly", "look", HOURLY)
    ]
    assert await mine.remove("hourly")
    assert await mine.list() == []


async def test_whose_rights_have_ended_sets_and_removes_nothing(module_rig):
    mine = ModuleSchedules(
        "daily", module_rig.scheduler, lambda: Caller(request=WorkRequest(is_valid=lambda: False))
    )

    for work in (mine.set("a", "b", {}, HOURLY), mine.remove("a"), mine.list()):
        with pytest.raises(ActRefusedError):
            await work


async def test_no_module_sees_the_schedules_of_another(module_rig):
    mine, other = (
        ModuleSchedules(name, module_rig.scheduler, Caller) for name in ("daily", "brain")
    )
    await mine.set("hourly", "look", {}, HOURLY)

    assert await other.list() == []
    assert not await other.remove("hourly")
    assert len(await mine.list()) == 1


async def test_a_caller_that_is_limited_to_some_paths_sets_and_removes_nothing(module_rig):
    limited = Caller(grant=CallerGrant(reads=grant_of(["Daily/**"])))
    mine = ModuleSchedules("daily", module_rig.scheduler, lambda: limited)
    own = ModuleSchedules("daily", module_rig.scheduler, Caller)
    await own.set("hourly", "look", {}, HOURLY)

    for work in (mine.set("a", "b", {}, HOURLY), mine.remove("hourly")):
        with pytest.raises(ActRefusedError, match="limited to some paths"):
            await work
    assert [one.name for one in await own.list()] == ["hourly"]
