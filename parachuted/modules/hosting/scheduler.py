"""Starts modules' schedules when they are due, and remembers when each last ran."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from parachuted.access.authority import Authority
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.hosting.schedules import next_time
from parachuted.modules.registry.declaration import ModuleDeclaration, ScheduleSpec
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
    spec: ScheduleSpec
    last: datetime
    next: datetime


class ModuleScheduler:
    """The schedules of the modules that run.

    `state` keeps when each last ran, so that what the daemon slept through runs once.
    """

    def __init__(
        self, clock: Callable[[], datetime], state: StateStore | None, audit: ModuleAudit
    ) -> None:
        self._clock, self._audit = clock, audit
        self._table = state.table(_TABLE) if state is not None else None
        self._last: dict[str, datetime] = {}
        self._next: dict[str, datetime] = {}
        self._specs: dict[str, tuple[RunningModule, ScheduleSpec]] = {}
        self._at_work: set[str] = set()

    def add(self, running: RunningModule, declared: ModuleDeclaration) -> None:
        """Run that module's schedules."""
        for spec in declared.schedules:
            key = f"{declared.name}/{spec.handler}/{spec.every_s or spec.at}"
            self._specs[key] = (running, spec)
            if key not in self._last:
                kept = self._table.take(key) if self._table is not None else None
                if kept is None:
                    self._note(key, self._clock())
                else:
                    self._set(key, datetime.fromisoformat(str(kept["at"])))

    def remove(self, running: RunningModule) -> None:
        """Run them no more."""
        self._specs = {key: found for key, found in self._specs.items() if found[0] is not running}

    def schedules(self) -> list[ModuleSchedule]:
        """The schedules of the modules that run, by name."""
        return [
            ModuleSchedule(name=key, spec=spec, last=self._last[key], next=self._next[key])
            for key, (_, spec) in sorted(self._specs.items())
        ]

    def begin_due(self, group: asyncio.TaskGroup) -> None:
        """Begin, in that group, all that is due and not at work still."""
        now = self._clock()
        for key, (running, spec) in self._specs.items():
            # A clock that was put back must not put the schedule off; but a small step must not
            # repeat a time of day, as in cron(8).
            if self._last[key] - now > (_SMALL_STEP if spec.at else timedelta()):
                self._note(key, now)
            if key not in self._at_work and self._next[key] <= now:
                self._note(key, now)
                self._at_work.add(key)
                group.create_task(self._run(key, running, spec), name=f"schedule {key}")

    async def _run(self, key: str, running: RunningModule, spec: ScheduleSpec) -> None:
        try:
            tick = Authority(
                causes=(new_id("c", self._clock()),), asked_by="clock", entry="schedule"
            )
            with self._audit.call(
                "daemon", "clock", key.partition("/")[0], f"schedule {spec.handler}", tick
            ):
                await running.tell(spec.handler, {}, timeout_s=_LIMIT_S, authority=tick)
        except ParachuteError as error:
            log.warning(
                "a module's schedule failed", extra={"schedule": key, "error": error.message}
            )
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module's schedule failed", extra={"schedule": key})
        finally:
            self._at_work.discard(key)

    def _set(self, key: str, last: datetime) -> None:
        spec = self._specs[key][1]
        self._last[key], self._next[key] = last, next_time(last, every_s=spec.every_s, at=spec.at)

    def _note(self, key: str, at: datetime) -> None:
        self._set(key, at)
        if self._table is not None:
            with suppress(
                StorageFailedError
            ):  # the disk refuses, which is told elsewhere: until the next start it is known here
                self._table.put(key, {"at": at.isoformat()})
