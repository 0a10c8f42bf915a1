"""The schedules of modules, which APScheduler runs: those that their code declares, and those that
they set, each module's in a file where no module can write.
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
from pathlib import Path
from typing import Annotated, Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from parachuted.access.caller import Caller, WorkRequest
from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    ParachuteError,
    StorageFailedError,
    storage_errors,
)
from parachuted.home_files.private import replace_private
from parachuted.modules.checks import matching, mistakes_in
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.scheduling import ScheduleStatus, Timing, check_timing, next_time
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.state import StateStore
from parachuted.vault import new_id

log = logging.getLogger(__name__)

MOST_SCHEDULES = 200
_LONGEST_NAME, _LARGEST_ARGUMENTS = 100, 16_000
_NAME, _METHOD = re.compile(rf"[^\x00-\x1f\x7f]{{1,{_LONGEST_NAME}}}"), re.compile(r"[^\W\d]\w*")
_TABLE = "module_schedules"
_LIMIT_S = 900.0
_SMALL_STEP = timedelta(hours=3)
_NEVER = datetime.max.replace(tzinfo=UTC)


def _small(arguments: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(arguments)) > _LARGEST_ARGUMENTS:
        raise ValueError(f"should take at most {_LARGEST_ARGUMENTS:,} characters of JSON")
    return arguments


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SetSchedule:
    """That method runs at these times. `is_tainted`: what set it had read strangers' text."""

    name: Annotated[str, matching(_NAME, f"name of a schedule: a line of 1 to {_LONGEST_NAME}")]
    method: Annotated[str, matching(_METHOD, "name of a method")]
    arguments: Annotated[dict[str, Any], AfterValidator(_small)]
    timing: Annotated[Timing, AfterValidator(check_timing)]
    is_tainted: bool = False
    read: dict[str, str] = field(default_factory=dict)  # what earlier versions wrote for it


_FILE: TypeAdapter[list[SetSchedule]] = TypeAdapter(list[SetSchedule])


class SetSchedules:
    """Those of all modules. Without a `folder` they are forgotten at the end."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, Mapping[str, SetSchedule]] = {}

    def of(self, module: str) -> Mapping[str, SetSchedule]:
        if module not in self._known:
            self._known[module] = {schedule.name: schedule for schedule in self._load(module)}
        return self._known[module]

    async def keep(self, module: str, known: Mapping[str, SetSchedule]) -> None:
        """In place of what there was. Raises EditRefusedError, StorageFailedError."""
        if len(known) > MOST_SCHEDULES:
            raise EditRefusedError(f"a module sets at most {MOST_SCHEDULES} schedules")
        if self._folder is not None:
            data = _FILE.dump_json(list(known.values()))
            await run_uninterrupted(_write, self._folder / f"{module}.json", data)
        self._known[module] = known

    def _load(self, module: str) -> list[SetSchedule]:
        if self._folder is None:
            return []
        file = self._folder / f"{module}.json"
        try:
            return _FILE.validate_json(file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            log.warning(
                "a module's schedules cannot be read and count as none",
                extra={"file": str(file), "error": str(error)},
            )
            return []


def _write(file: Path, data: bytes) -> None:
    with storage_errors("the module's schedules could not be kept"):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private(file, data)


@dataclass(slots=True, kw_only=True, eq=False)
class ModuleSchedule:
    """One schedule of a running module. `last`: when it last began, or was first seen."""

    name: str
    host: ModuleHost
    spec: SetSchedule
    last: datetime


class ModuleScheduler:
    """`state` keeps when each last ran, so that what the daemon slept through runs once."""

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
        self._schedules: dict[str, ModuleSchedule] = {}
        self._hosts: dict[str, ModuleHost] = {}
        self._group: asyncio.TaskGroup | None = None
        # APScheduler's, in which a job runs however late it is; started with the first schedule
        self._scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
        logging.getLogger("apscheduler.scheduler").addFilter(_is_no_skip)

    def add(self, host: ModuleHost) -> None:
        self._hosts[host.name] = host
        for mark in host.declared.schedules:
            spec = SetSchedule(
                name=mark.handler, method=mark.handler, arguments={}, timing=mark.timing
            )
            self._begin(f"{host.name}/{mark.handler}/{_mark(mark.timing)}", host, spec)
        for schedule in self._set.of(host.name).values():
            self._begin(_key_of(host.name, schedule.name), host, schedule)

    def remove(self, host: ModuleHost) -> None:
        if self._hosts.get(host.name) is host:
            del self._hosts[host.name]
        for name in [name for name, schedule in self._schedules.items() if schedule.host is host]:
            self._end(name)

    async def set(self, module: str, schedule: SetSchedule) -> None:
        """One whose timing is as before keeps its time. Raises EditRefusedError,
        StorageFailedError.
        """
        known = self._set.of(module)
        before = known.get(schedule.name)
        if before == schedule:
            return
        await self._set.keep(module, {**known, schedule.name: schedule})
        key = _key_of(module, schedule.name)
        if before is not None and before.timing != schedule.timing:
            self._forget(key)
        if (host := self._hosts.get(module)) is not None:
            self._begin(key, host, schedule)

    async def unset(self, module: str, name: str) -> bool:
        """Whether there was one. Raises StorageFailedError."""
        left = dict(self._set.of(module))
        if left.pop(name, None) is None:
            return False
        await self._set.keep(module, left)
        self._forget(_key_of(module, name))
        return True

    def set_by(self, module: str) -> list[ScheduleStatus]:
        return [
            ScheduleStatus(
                name=name,
                method=schedule.method,
                arguments=schedule.arguments,
                timing=schedule.timing,
                next_at=self._next(key)
                if (key := _key_of(module, name)) in self._schedules
                else None,
            )
            for name, schedule in sorted(self._set.of(module).items())
        ]

    def schedules(self) -> list[tuple[ModuleSchedule, datetime]]:
        """Each, and when it falls due."""
        return [(schedule, self._next(name)) for name, schedule in sorted(self._schedules.items())]

    def words(self, module: str) -> list[str]:
        found = []
        for key, schedule in self._schedules.items():
            if schedule.host.name == module:
                name, spec = key.partition("//")[2], schedule.spec
                what = f"{name}, {spec.method}" if name else spec.method
                found.append(f"{what}: {spec.timing.words()}")
        return found

    def begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin, in that group, what is due now and later. To be called every few seconds:
        APScheduler sees neither that the computer slept nor that the clock was set.
        """
        self._group, now = group, self._clock()
        for schedule in self._schedules.values():
            # A clock that was put back must not put the schedule off; but a small step must not
            # repeat a time of day, as in cron(8).
            step = timedelta() if schedule.spec.timing.every_s is not None else _SMALL_STEP
            if schedule.last - now > step:
                self._note(schedule)
                self._place(schedule)
        if self._schedules:
            self._scheduler.resume()
            self._scheduler.wakeup()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.pause()

    def _begin(self, name: str, host: ModuleHost, spec: SetSchedule) -> None:
        before = self._schedules.get(name)
        schedule = self._schedules[name] = ModuleSchedule(
            name=name,
            host=host,
            spec=spec,
            last=self._clock() if before is None else before.last,
        )
        record = self._table.get_record(name) if self._table is not None else None
        if record is not None:
            schedule.last = datetime.fromisoformat(str(record["at"]))
        elif before is None:
            self._note(schedule)
        self._place(schedule)

    def _place(self, schedule: ModuleSchedule) -> None:
        if not self._scheduler.running:
            self._scheduler.start(paused=True)
        trigger = _TimingTrigger(schedule.spec.timing)
        self._scheduler.add_job(
            self._begin_run,
            trigger,
            (schedule,),
            id=schedule.name,
            name=schedule.name,
            next_run_time=trigger.get_next_fire_time(None, schedule.last),
            replace_existing=True,
        )

    async def _begin_run(self, schedule: ModuleSchedule) -> None:
        """As a task of the group, and not in the context of the request that set it."""
        if self._group is not None:
            work, context = self._run(schedule), Context()
            await asyncio.wait([self._group.create_task(work, name=schedule.name, context=context)])

    async def _run(self, schedule: ModuleSchedule) -> None:
        self._note(schedule)
        host, spec = schedule.host, schedule.spec
        tick = Caller(
            causes=(new_id("c", self._clock()),),
            request=WorkRequest(by="clock", entry="schedule"),
        )
        if spec.is_tainted or spec.read:
            tick.taint.read("what set this schedule")
        try:
            with self._audit.call("daemon", "clock", host.name, f"schedule {spec.method}", tick):
                await host.tell(HandlerCall(spec.method, spec.arguments, tick, _LIMIT_S))
        except ParachuteError as error:
            about = {"schedule": schedule.name, "error": error.message}
            log.warning("a module's schedule failed", extra=about)
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module's schedule failed", extra={"schedule": schedule.name})

    def _next(self, name: str) -> datetime:
        due: datetime = self._scheduler.get_job(name).next_run_time
        return due

    def _end(self, name: str) -> None:
        if self._schedules.pop(name, None) is not None:
            self._scheduler.remove_job(name)

    def _forget(self, name: str) -> None:
        self._end(name)
        if self._table is not None:
            with suppress(StorageFailedError):
                self._table.drop(name)

    def _note(self, schedule: ModuleSchedule) -> None:
        schedule.last = self._clock()
        if self._table is not None:
            with suppress(StorageFailedError):  # reported elsewhere
                self._table.put(schedule.name, {"at": schedule.last.isoformat()})


def _is_no_skip(record: logging.LogRecord) -> bool:
    """APScheduler says of each schedule that is still at work that it does not begin again."""
    return "maximum number of running instances" not in str(record.msg)


class _TimingTrigger(BaseTrigger):  # type: ignore[misc]  # without types
    """Due once for all missed times. APScheduler's own sticks when the clock changes."""

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
        self, module: str, scheduler: ModuleScheduler, caller: Callable[[], Caller]
    ) -> None:
        self._module, self._scheduler, self._caller = module, scheduler, caller

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None:
        """Tainted where the work is. Raises EditRefusedError, and ActRefusedError for a limited
        caller.
        """
        self._refuse_limited(name)
        is_tainted, copied = bool(self._caller().checked().taint), dict(arguments)
        try:
            schedule = SetSchedule(
                name=name, method=method, arguments=copied, timing=timing, is_tainted=is_tainted
            )
        except ValidationError as error:
            says = "; ".join(mistakes_in(error))
            raise EditRefusedError(f"the schedule {name[:80]!r}: {says}") from error
        await self._scheduler.set(self._module, schedule)

    async def remove(self, name: str) -> bool:
        self._refuse_limited(name)
        return await self._scheduler.unset(self._module, name)

    async def list(self) -> list[ScheduleStatus]:
        self._caller().checked()
        return self._scheduler.set_by(self._module)

    def _refuse_limited(self, name: str) -> None:
        if self._caller().checked().grant.is_limited:
            raise ActRefusedError(
                f"the schedule {name[:80]} runs with all that the module may, so a caller that is "
                "limited to some paths can neither set nor remove it"
            )
