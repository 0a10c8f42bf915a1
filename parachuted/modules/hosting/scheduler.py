"""Starts modules' schedules when they are due, and remembers when each last ran."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
_NEVER = datetime.max.replace(tzinfo=UTC)


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
        self._next: dict[str, datetime] = {}
        self._jobs: dict[str, _Job] = {}
        self._running: dict[str, RunningModule] = {}
        self._at_work: set[str] = set()

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
        self._jobs = {key: job for key, job in self._jobs.items() if job.running is not running}

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
                next_at=self._next.get(_key_of(module, name)),
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
                next=self._next[key],
            )
            for key, job in sorted(self._jobs.items())
        ]

    def words(self, module: str) -> list[str]:
        return [
            f"{job.handler}: {job.timing.words()}"
            for key, job in self._jobs.items()
            if key.partition("/")[0] == module
        ]

    def begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin, in that group, all that is due and not at work still."""
        now = self._clock()
        for key, job in self._jobs.items():
            # A clock that was put back must not put the schedule off; but a small step must not
            # repeat a time of day, as in cron(8).
            step = timedelta() if job.timing.every_s is not None else _SMALL_STEP
            if self._last[key] - now > step:
                self._note(key, job, now)
            if key not in self._at_work and self._next[key] <= now:
                self._note(key, job, now)
                self._at_work.add(key)
                group.create_task(self._run(key, job), name=f"schedule {key}")

    async def _run(self, key: str, job: _Job) -> None:
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
        finally:
            self._at_work.discard(key)

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
        if key in self._last:
            return
        kept = self._table.get_record(key) if self._table is not None else None
        if kept is None:
            self._note(key, job, self._clock())
        else:
            self._place(key, job, datetime.fromisoformat(str(kept["at"])))

    def _forget(self, key: str) -> None:
        for known in (self._jobs, self._last, self._next):
            known.pop(key, None)
        if self._table is not None:
            with suppress(StorageFailedError):
                self._table.drop(key)

    def _place(self, key: str, job: _Job, last: datetime) -> None:
        self._last[key] = last
        try:
            self._next[key] = load_heavy_here("schedules").due(job.timing, last)
        except (ValueError, OverflowError) as error:  # the zone went with the system's data
            self._next[key] = _NEVER
            log.warning(
                "a module's schedule has no next time",
                extra={"schedule": key, "error": str(error)},
            )

    def _note(self, key: str, job: _Job, at: datetime) -> None:
        self._place(key, job, at)
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
