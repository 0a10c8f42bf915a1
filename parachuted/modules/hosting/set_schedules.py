"""The schedules that modules set while they run, a small file for each module.

They are in the vault's state folder, where no module can write, with the origins of the untrusted
texts that were read before each was set: a task that runs by the clock must not lose them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.access.authority import Authority
from parachuted.access.origin import Origin
from parachuted.errors import ActRefusedError, EditRefusedError, StorageFailedError
from parachuted.home_files.private import replace_private
from parachuted.modules.scheduling import ScheduleStatus, Timing, check_timing
from parachuted.processes.uninterrupted import run_uninterrupted

log = logging.getLogger(__name__)

MOST_SCHEDULES = 200
_LONGEST_NAME, _LARGEST_ARGUMENTS = 100, 16_000


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SetSchedule:
    """One schedule: that method of the module runs at these times, with these arguments.

    `read` has the untrusted texts that the work which set it had read.
    """

    name: str
    method: str
    arguments: dict[str, Any]
    timing: Timing
    read: dict[str, Origin]


_KEPT: TypeAdapter[list[SetSchedule]] = TypeAdapter(list[SetSchedule])


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
            data = _KEPT.dump_json(list(known.values()))
            await run_uninterrupted(_write, self._folder / f"{module}.json", data)
        self._known[module] = known

    def _load(self, module: str) -> list[SetSchedule]:
        if self._folder is None:
            return []
        file = self._folder / f"{module}.json"
        try:
            found = _KEPT.validate_json(file.read_bytes())
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


_MOST_READ = 50


class SetScheduler(Protocol):
    """The scheduler, as far as modules change it."""

    async def set(self, module: str, schedule: SetSchedule) -> None: ...

    async def unset(self, module: str, name: str) -> bool:
        """Run it no more; whether there was one."""
        ...

    def set_by(self, module: str) -> list[ScheduleStatus]: ...


class ModuleSchedules:
    """The `ScheduleAccess` of one module."""

    def __init__(
        self, module: str, scheduler: SetScheduler, authority: Callable[[], Authority]
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
