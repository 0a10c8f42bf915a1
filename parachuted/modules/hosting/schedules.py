"""The schedules of modules, which APScheduler runs, and when each last ran: those that their code
declares, and those that they set while they run.

What a module sets is a small file in the vault's state folder, where no module can write, with the
origins of the untrusted texts that were read before it was set: a task that runs by the clock must
not lose them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from parachuted.access.authority import Authority
from parachuted.access.origin import Origin
from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.home_files.private import replace_private
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.scheduling import ScheduleStatus, Timing, check_timing, next_time
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.state import StateStore
from parachuted.vault import new_id

log = logging.getLogger(__name__)

MOST_SCHEDULES = 200
_LONGEST_NAME, _LARGEST_ARGUMENTS, _MOST_READ = 100, 16_000, 50
_TABLE = "module_schedules"
_LIMIT_S = 900.0
_SMALL_STEP = timedelta(hours=3)
_NEVER = datetime.max.replace(tzinfo=UTC)


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SetSchedule:
    """One schedule: that method of the module runs at these times, with these arguments.

    `read` has the untrusted texts that the work which set it had read.
    """

    name: str
    method: str
    arguments: dict[str, Any]
    timing: Timing
    read: dict[str, Origin]


_FILE: TypeAdapter[list[SetSchedule]] = TypeAdapter(list[SetSchedule])


class SetSchedules:
    """Those of all modules. Without a `folder` they are forgotten at the end."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, SetSchedule]] = {}

    def of(self, module: str) -> Mapping[str, SetSchedule]:
        if module not in self._known:
            self._known[module] = {one.name: one for one in self._load(module)}
        return self._known[module]

    async def put(self, module: str, schedule: SetSchedule) -> None:
        """Keep it in the place of one of that name. Raises EditRefusedError, StorageFailedError."""
        _check(schedule)
        known = dict(self.of(module))
        known[schedule.name] = schedule
        if len(known) > MOST_SCHEDULES:
            raise EditRefusedError(f"a module sets at most {MOST_SCHEDULES} schedules")
        await self._save(module, known)

    async def remove(self, module: str, name: str) -> bool:
        """Forget it; whether there was one. Raises StorageFailedError."""
        known = dict(self.of(module))
        if known.pop(name, None) is None:
            return False
        await self._save(module, known)
        return True

    async def _save(self, module: str, known: dict[str, SetSchedule]) -> None:
        if self._folder is not None:
            data = _FILE.dump_json(list(known.values()))
            await run_uninterrupted(_write, self._folder / f"{module}.json", data)
        self._known[module] = known

    def _load(self, module: str) -> list[SetSchedule]:
        if self._folder is None:
            return []
        file = self._folder / f"{module}.json"
        try:
            found = _FILE.validate_json(file.read_bytes())
            for one in found:
                check_timing(one.timing)
        except FileNotFoundError:
            return []
        except (OSError, ValidationError, ValueError) as error:
            log.warning(
                "a module's schedules cannot be read and count as none",
                extra={"file": str(file), "error": str(error)},
            )
            return []
        return found


def _write(file: Path, data: bytes) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private(file, data)
    except OSError as error:
        raise StorageFailedError(
            f"the module's schedules could not be kept: {error.strerror}", errno=error.errno
        ) from error


def _check(schedule: SetSchedule) -> None:
    if not 0 < len(schedule.name) <= _LONGEST_NAME or not schedule.name.isprintable():
        raise EditRefusedError(
            f"the name of a schedule is one line of 1 to {_LONGEST_NAME} characters"
        )
    if not schedule.method.isidentifier():
        raise EditRefusedError(f"{schedule.method[:80]!r} is not a method of the module")
    if len(json.dumps(schedule.arguments)) > _LARGEST_ARGUMENTS:
        raise EditRefusedError(
            f"the arguments of a schedule take at most {_LARGEST_ARGUMENTS:,} characters of JSON"
        )
    try:
        check_timing(schedule.timing)
    except ValueError as error:
        raise EditRefusedError(f"the schedule {schedule.name!r}: {error}") from error


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

    host: ModuleHost
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
        self._hosts: dict[str, ModuleHost] = {}
        self._group: asyncio.TaskGroup | None = None
        # APScheduler's, in which a job runs however late it is; started with the first schedule
        self._scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
        logging.getLogger("apscheduler.scheduler").addFilter(_is_no_skip)

    def add(self, host: ModuleHost) -> None:
        self._hosts[host.name] = host
        for spec in host.declared.schedules:
            key = f"{host.name}/{spec.handler}/{_mark(spec.timing)}"
            self._begin(key, _Job(host=host, handler=spec.handler, timing=spec.timing))
        for schedule in self._set.of(host.name).values():
            self._begin_set(host.name, schedule)

    def remove(self, host: ModuleHost) -> None:
        if self._hosts.get(host.name) is host:
            del self._hosts[host.name]
        for key in [key for key, job in self._jobs.items() if job.host is host]:
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
        if self._jobs:
            self._scheduler.resume()
            self._scheduler.wakeup()

    def stop(self) -> None:
        """Begin nothing from now on."""
        if self._scheduler.running:
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
                await job.host.tell(job.handler, job.arguments, timeout_s=_LIMIT_S, authority=tick)
        except ParachuteError as error:
            log.warning(
                "a module's schedule failed", extra={"schedule": key, "error": error.message}
            )
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module's schedule failed", extra={"schedule": key})

    def _begin_set(self, module: str, schedule: SetSchedule) -> None:
        host = self._hosts.get(module)
        if host is not None:
            job = _Job(
                host=host,
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
        if not self._scheduler.running:
            self._scheduler.start(paused=True)
        trigger = _TimingTrigger(job.timing)
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
            # reported elsewhere: until the next start it is known here
            with suppress(StorageFailedError):
                self._table.put(key, {"at": at.isoformat()})


def _is_no_skip(record: logging.LogRecord) -> bool:
    """Not that one which is at work still does not begin again, as is meant: it says so each time
    that it is due.
    """
    return "maximum number of running instances" not in str(record.msg)


class _TimingTrigger(BaseTrigger):  # type: ignore[misc]  # without types
    """When a timing falls due, once for all the times that were missed.

    APScheduler's own trigger for cron sticks when the clock changes.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing

    def __str__(self) -> str:  # in APScheduler's log
        return self._timing.words()

    def get_next_fire_time(self, _previous: datetime | None, now: datetime) -> datetime:
        try:
            return next_time(self._timing, now)
        except (ValueError, OverflowError) as error:  # the zone went with the system's data
            log.warning(
                "a schedule has no next time",
                extra={"timing": self._timing.words(), "error": str(error)},
            )
            return _NEVER


def _mark(timing: Timing) -> str:
    """Tells the schedules of one handler apart, as the table has had it since the first version."""
    place = f" {timing.timezone}" if timing.timezone is not None else ""
    return f"{timing.every_s or timing.at or timing.cron}{place}"


def _key_of(module: str, name: str) -> str:
    """Two slashes: no handler is without a name."""
    return f"{module}//{name}"


class ModuleSchedules:
    """The `ScheduleAccess` of one module."""

    def __init__(
        self, module: str, scheduler: ModuleScheduler, authority: Callable[[], Authority]
    ) -> None:
        self._module, self._scheduler, self._authority = module, scheduler, authority

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None:
        """Keep it, marked with what the work has read of strangers' texts. Raises ActRefusedError
        for a caller that is limited to some paths: it runs with all that the module may.
        """
        self._refuse_limited(name)
        read = dict(list(self._acting().taint.sources.items())[:_MOST_READ])
        schedule = SetSchedule(
            name=name, method=method, arguments=dict(arguments), timing=timing, read=read
        )
        await self._scheduler.set(self._module, schedule)

    async def remove(self, name: str) -> bool:
        """Forget it. Raises ActRefusedError as `set` does."""
        self._refuse_limited(name)
        return await self._scheduler.unset(self._module, name)

    async def list(self) -> list[ScheduleStatus]:
        self._acting()
        return self._scheduler.set_by(self._module)

    def _refuse_limited(self, name: str) -> None:
        if self._acting().is_limited:
            raise ActRefusedError(
                f"the schedule {name[:80]} runs with all that the module may, so a caller that is "
                "limited to some paths can neither set nor remove it"
            )

    def _acting(self) -> Authority:
        authority = self._authority()
        authority.check()
        return authority
