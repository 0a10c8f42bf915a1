"""The schedules of modules, which APScheduler runs, and when each last ran."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from parachuted.access.authority import Authority
from parachuted.access.origin import Origin
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.heavy import load_heavy_here
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.hosting.set_schedules import SetSchedule, SetSchedules
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.scheduling import ScheduleStatus, Timing
from parachuted.state import StateStore
from parachuted.vault import new_id

log = logging.getLogger(__name__)

_TABLE = "module_schedules"
_LIMIT_S = 900.0
_SMALL_STEP = timedelta(hours=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSchedule:
    """One schedule of a module.

    `last`: when it last began, or was first seen; `next`: when it falls due.
    """

    name: str
    handler: str
    timing: Timing
    last: datetime
    next: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What runs when; `read` has the untrusted texts that led to its being set."""

    running: RunningModule
    handler: str
    timing: Timing
    arguments: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[str, Origin] = field(default_factory=dict)


class ModuleScheduler:
    """The schedules of the modules that run: those that their code declares, and those that they
    set.

    `state` keeps when each last ran, so that what the daemon slept through runs once.
    """

    def __init__(
        self,
        clock: Callable[[], datetime],
        state: StateStore | None,
        audit: ModuleAudit,
        set_schedules: SetSchedules | None = None,
    ) -> None:
        self._clock, self._audit = clock, audit
        self._set = set_schedules or SetSchedules(None)
        self._table = state.table(_TABLE) if state is not None else None
        self._last: dict[str, datetime] = {}
        self._jobs: dict[str, _Job] = {}
        self._running: dict[str, RunningModule] = {}
        self._group: asyncio.TaskGroup | None = None
        self._scheduler: Any = None  # APScheduler's, loaded for the first schedule

    def add(self, running: RunningModule, declared: ModuleDeclaration) -> None:
        self._running[declared.name] = running
        for spec in declared.schedules:
            timing = spec.timing
            key = f"{declared.name}/{spec.handler}/{_mark(timing)}"
            self._begin(key, _Job(running=running, handler=spec.handler, timing=timing))
        for schedule in self._set.of(declared.name).values():
            self._begin_set(declared.name, schedule)

    def remove(self, running: RunningModule) -> None:
        self._running = {
            name: found for name, found in self._running.items() if found is not running
        }
        for key in [key for key, job in self._jobs.items() if job.running is running]:
            self._remove(key)

    async def set(self, module: str, schedule: SetSchedule) -> None:
        """Run that from now on, and after each start of the module.

        One that changes only its arguments keeps its time. Raises EditRefusedError,
        StorageFailedError.
        """
        before = self._set.of(module).get(schedule.name)
        if before == schedule:
            return
        await self._set.put(module, schedule)
        if before is not None and before.timing != schedule.timing:
            self._forget(_key_of(module, schedule.name))
        self._begin_set(module, schedule)

    async def unset(self, module: str, name: str) -> bool:
        """Run it no more; whether there was one. Raises StorageFailedError."""
        if not await self._set.remove(module, name):
            return False
        self._forget(_key_of(module, name))
        return True

    def set_by(self, module: str) -> list[ScheduleStatus]:
        return [
            ScheduleStatus(
                name=name,
                method=one.method,
                arguments=one.arguments,
                timing=one.timing,
                next_at=self._next(_key_of(module, name)),
            )
            for name, one in sorted(self._set.of(module).items())
        ]

    def schedules(self) -> list[ModuleSchedule]:
        return [
            ModuleSchedule(
                name=key,
                handler=job.handler,
                timing=job.timing,
                last=self._last[key],
                next=self._scheduler.get_job(key).next_run_time,
            )
            for key, job in sorted(self._jobs.items())
        ]

    def words(self, module: str) -> list[str]:
        return [
            f"{f'{name}, ' if (name := key.partition('//')[2]) else ''}"
            f"{job.handler}: {job.timing.words()}"
            for key, job in self._jobs.items()
            if key.partition("/")[0] == module
        ]

    def begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin, in that group, what is due now and later.

        To be called every few seconds: APScheduler's timer sees neither that the computer slept nor
        that the clock was set.
        """
        self._group, now = group, self._clock()
        for key, job in self._jobs.items():
            # A clock that was put back must not put the schedule off; but a small step must not
            # repeat a time of day, as in cron(8).
            step = timedelta() if job.timing.every_s is not None else _SMALL_STEP
            if self._last[key] - now > step:
                self._note(key, now)
                self._place(key, job)
        if self._scheduler is not None:
            self._scheduler.resume()
            self._scheduler.wakeup()

    def stop(self) -> None:
        """Begin nothing from now on."""
        if self._scheduler is not None:
            self._scheduler.pause()

    async def _begin_run(self, key: str, job: _Job) -> None:
        """Run it as a task of the group, and not in the context of the request that set it."""
        if self._group is not None:
            run = self._group.create_task(self._run(key, job), name=key, context=Context())
            await asyncio.wait([run])

    async def _run(self, key: str, job: _Job) -> None:
        self._note(key, self._clock())
        try:
            tick = Authority(
                causes=(new_id("c", self._clock()),), asked_by="clock", entry="schedule"
            )
            for source, origin in job.read.items():
                tick.taint.read(source, origin)
            with self._audit.call(
                "daemon", "clock", key.partition("/")[0], f"schedule {job.handler}", tick
            ):
                await job.running.tell(
                    job.handler, job.arguments, timeout_s=_LIMIT_S, authority=tick
                )
        except ParachuteError as error:
            log.warning(
                "a module's schedule failed", extra={"schedule": key, "error": error.message}
            )
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module's schedule failed", extra={"schedule": key})

    def _begin_set(self, module: str, schedule: SetSchedule) -> None:
        running = self._running.get(module)
        if running is not None:
            job = _Job(
                running=running,
                handler=schedule.method,
                timing=schedule.timing,
                arguments=schedule.arguments,
                read=schedule.read,
            )
            self._begin(_key_of(module, schedule.name), job)

    def _begin(self, key: str, job: _Job) -> None:
        self._jobs[key] = job
        if key not in self._last:
            record = self._table.get_record(key) if self._table is not None else None
            if record is None:
                self._note(key, self._clock())
            else:
                self._last[key] = datetime.fromisoformat(str(record["at"]))
        self._place(key, job)

    def _place(self, key: str, job: _Job) -> None:
        """Have it run by its timing, which counts from when it last ran."""
        schedules = load_heavy_here("schedules")
        self._scheduler = self._scheduler or schedules.start_scheduler()
        trigger = schedules.TimingTrigger(job.timing)
        self._scheduler.add_job(
            self._begin_run,
            trigger,
            (key, job),
            id=key,
            name=key,
            next_run_time=trigger.get_next_fire_time(None, self._last[key]),
            replace_existing=True,
        )

    def _next(self, key: str) -> datetime | None:
        return self._scheduler.get_job(key).next_run_time if key in self._jobs else None

    def _remove(self, key: str) -> None:
        if self._jobs.pop(key, None) is not None:
            self._scheduler.remove_job(key)

    def _forget(self, key: str) -> None:
        self._remove(key)
        self._last.pop(key, None)
        if self._table is not None:
            with suppress(StorageFailedError):
                self._table.drop(key)

    def _note(self, key: str, at: datetime) -> None:
        self._last[key] = at
        if self._table is not None:
            with suppress(
                StorageFailedError
            ):  # reported elsewhere: until the next start it is known here
                self._table.put(key, {"at": at.isoformat()})


def _mark(timing: Timing) -> str:
    """Tells the schedules of one handler apart, as the table has had it since the first version."""
    place = f" {timing.timezone}" if timing.timezone is not None else ""
    return f"{timing.every_s or timing.at or timing.cron}{place}"


def _key_of(module: str, name: str) -> str:
    """Two slashes: no handler is without a name."""
    return f"{module}//{name}"
