"""The schedules of modules, which APScheduler runs: those that their code declares, and those that
they set while they run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from parachuted.access.caller import Caller, WorkRequest
from parachuted.errors import ActRefusedError, EditRefusedError, ParachuteError, StorageFailedError
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.scheduling import ScheduleStatus, Timing
from parachuted.processes.heavy import load_heavy_here
from parachuted.state import StateStore
from parachuted.vault import new_id

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

log = logging.getLogger(__name__)

MOST_SCHEDULES, _LARGEST_ARGUMENTS = 200, 16_000
_NAME, _METHOD = re.compile(r"[^\x00-\x1f\x7f]{1,100}"), re.compile(r"[^\W\d]\w{0,99}")
_LIMIT_S = 900.0
_SMALL_STEP = timedelta(hours=3)


@dataclass(slots=True, kw_only=True, eq=False)
class ModuleSchedule:
    """One schedule of a module; its `name` is empty where the code declares it. `key` names it in
    the state. `last`: when it last began, or was first seen. `is_tainted`: what set it had read
    strangers' text.
    """

    key: str
    module: str
    name: str = ""
    method: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    timing: Timing
    is_tainted: bool = False
    last: datetime

    @property
    def due(self) -> datetime:
        return self.timing.next_after(self.last)

    def words(self) -> str:
        return f"{self.name and f'{self.name}, '}{self.method}: {self.timing.words()}"


class ModuleScheduler:
    """`state` keeps when each last ran, so that what the daemon slept through runs once."""

    def __init__(
        self, clock: Callable[[], datetime], state: StateStore | None, audit: ModuleAudit
    ) -> None:
        self.clock, self._audit = clock, audit
        self._table = state.table("module_schedules") if state is not None else None
        self._schedules: dict[str, ModuleSchedule] = {}
        self._hosts: dict[str, ModuleHost] = {}
        self._group: asyncio.TaskGroup | None = None
        self._scheduler: AsyncIOScheduler | None = None  # made and started with the first schedule

    def add(self, host: ModuleHost) -> None:
        """From now on its schedules run; what it sets before waits."""
        self._hosts[host.name] = host
        for mark in host.declared.schedules:
            # spelled as the state has had it since the first version
            when = f"{mark.timing.every_s or mark.timing.at or mark.timing.cron}"
            zone = f" {mark.timing.timezone}" if mark.timing.timezone is not None else ""
            self.set(
                ModuleSchedule(
                    key=f"{host.name}/{mark.handler}/{when}{zone}",
                    module=host.name,
                    method=mark.handler,
                    timing=mark.timing,
                    last=self.clock(),
                )
            )
        for schedule in self.of(host.name):
            self._place(schedule)

    def remove(self, module: str) -> None:
        self._hosts.pop(module, None)
        for schedule in self.of(module):
            self._end(schedule)

    def set(self, schedule: ModuleSchedule) -> None:
        """In place of that of the same key, whose time it keeps where its timing is the same."""
        before = self._schedules.get(schedule.key)
        record = self._table.get_record(schedule.key) if self._table is not None else None
        if before is not None and _said(before) == _said(schedule):
            return
        words = schedule.timing.words()
        if before is not None and before.timing == schedule.timing:
            schedule.last = before.last
        elif before is None and record is not None and record.get("timing", words) == words:
            schedule.last = datetime.fromisoformat(str(record["at"]))
        else:
            self._note(schedule)
        self._schedules[schedule.key] = schedule
        self._place(schedule)

    def unset(self, schedule: ModuleSchedule) -> None:
        self._end(schedule)
        if self._table is not None:
            with suppress(StorageFailedError):
                self._table.drop(schedule.key)

    def of(self, module: str) -> list[ModuleSchedule]:
        """Those that it declares in the order of its code, and those that it has set by name."""
        schedules = [schedule for schedule in self._schedules.values() if schedule.module == module]
        return sorted(schedules, key=lambda schedule: schedule.name)

    def schedules(self) -> list[ModuleSchedule]:
        """Those of the modules that run, by key."""
        return [each for _, each in sorted(self._schedules.items()) if each.module in self._hosts]

    def begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin, in that group, what is due now and later. To be called every few seconds:
        APScheduler sees neither that the computer slept nor that the clock was set.
        """
        self._group, now = group, self.clock()
        for schedule in self._schedules.values():
            # A clock that was put back must not put the schedule off; but a small step must not
            # repeat a time of day, as in cron(8).
            step = timedelta() if schedule.timing.every_s is not None else _SMALL_STEP
            if schedule.last - now > step:
                self._note(schedule)
                self._place(schedule)
        if self._scheduler is not None:
            self._scheduler.resume()
            self._scheduler.wakeup()

    def stop(self) -> None:
        if self._scheduler is not None:
            self._scheduler.pause()

    def _place(self, schedule: ModuleSchedule) -> None:
        if schedule.module not in self._hosts:
            return
        if self._scheduler is None:
            self._scheduler = load_heavy_here("scheduler").AsyncIOScheduler(
                timezone=UTC,
                job_defaults={"misfire_grace_time": None},  # a job runs however late it is
            )
            self._scheduler.start(paused=True)
        self._scheduler.add_job(
            self._begin,
            "date",
            (schedule,),
            id=schedule.key,
            run_date=schedule.due,
            replace_existing=True,
        )

    async def _begin(self, schedule: ModuleSchedule) -> None:
        """As a task of the group, and not in the context of the request that set it."""
        host = self._hosts.get(schedule.module)
        if self._group is not None and host is not None:
            work = self._run(host, schedule)
            self._group.create_task(work, name=schedule.key, context=Context())

    async def _run(self, host: ModuleHost, schedule: ModuleSchedule) -> None:
        self._note(schedule)
        tick = Caller(
            causes=(new_id("c", schedule.last),),
            request=WorkRequest(by="clock", entry="schedule"),
        )
        if schedule.is_tainted:
            tick.taint.read("what set this schedule")
        call = HandlerCall(schedule.method, schedule.arguments, tick, _LIMIT_S, is_event=True)
        what = f"schedule {schedule.method}"
        try:
            with self._audit.call("daemon", "clock", schedule.module, what, tick):
                await host.call(call)
        except ParachuteError as error:
            about = {"schedule": schedule.key, "error": error.message}
            log.warning("a module's schedule failed", extra=about)
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module's schedule failed", extra={"schedule": schedule.key})
        if self._schedules.get(schedule.key) is schedule:
            if schedule.due <= self.clock():  # what fell due meanwhile waits for its next time
                self._note(schedule)
            self._place(schedule)

    def _end(self, schedule: ModuleSchedule) -> None:
        self._schedules.pop(schedule.key, None)
        if self._scheduler is not None and self._scheduler.get_job(schedule.key) is not None:
            self._scheduler.remove_job(schedule.key)

    def _note(self, schedule: ModuleSchedule) -> None:
        schedule.last = self.clock()
        if self._table is not None:
            with suppress(StorageFailedError):  # reported elsewhere
                at, timing = schedule.last.isoformat(), schedule.timing.words()
                self._table.put(schedule.key, {"at": at, "timing": timing})


def _said(schedule: ModuleSchedule) -> tuple[object, ...]:
    return schedule.method, schedule.arguments, schedule.timing, schedule.is_tainted


class ModuleSchedules:
    """The `ScheduleAccess` of one module."""

    def __init__(
        self, module: str, scheduler: ModuleScheduler, caller: Callable[[], Caller]
    ) -> None:
        self._module, self._scheduler, self._caller = module, scheduler, caller

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None:
        """Tainted where the work is. Raises EditRefusedError, and ActRefusedError for a limited
        caller.
        """
        caller, known = self._unlimited(name), self._set()
        is_named = _NAME.fullmatch(name) and _METHOD.fullmatch(method)
        if not is_named or len(json.dumps(arguments)) > _LARGEST_ARGUMENTS:
            raise EditRefusedError(
                f"the schedule {name[:80]!r}: its name is a line of 1 to 100 characters, its "
                "method the name of one, and its arguments have at most "
                f"{_LARGEST_ARGUMENTS:,} characters of JSON"
            )
        if len({*known, name}) > MOST_SCHEDULES:
            raise EditRefusedError(f"a module sets at most {MOST_SCHEDULES} schedules")
        self._scheduler.set(
            ModuleSchedule(
                key=f"{self._module}//{name}",  # two slashes: no handler is without a name
                module=self._module,
                name=name,
                method=method,
                arguments=dict(arguments),
                timing=timing,
                is_tainted=bool(caller.taint),
                last=self._scheduler.clock(),
            )
        )

    async def remove(self, name: str) -> bool:
        self._unlimited(name)
        schedule = self._set().get(name)
        if schedule is not None:
            self._scheduler.unset(schedule)
        return schedule is not None

    async def list(self) -> list[ScheduleStatus]:
        self._caller().check()
        return [
            ScheduleStatus(
                name=name,
                method=schedule.method,
                arguments=schedule.arguments,
                timing=schedule.timing,
                next_at=schedule.due,
            )
            for name, schedule in self._set().items()
        ]

    def _set(self) -> dict[str, ModuleSchedule]:
        return {each.name: each for each in self._scheduler.of(self._module) if each.name}

    def _unlimited(self, name: str) -> Caller:
        caller = self._caller().checked()
        if caller.grant.is_limited:
            raise ActRefusedError(
                f"the schedule {name[:80]} runs with all that the module may, so a caller that is "
                "limited to some paths can neither set nor remove it"
            )
        return caller
