"""What a module sets and removes of its own schedules, on whose behalf it works then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from parachuted.access.authority import Authority
from parachuted.errors import ActRefusedError
from parachuted.modules.hosting.set_schedules import SetSchedule
from parachuted.modules.scheduling import ScheduleStatus
from parachuted.modules.timing import Timing

_MOST_READ = 50


class SetScheduler(Protocol):
    """The scheduler, as far as modules change it."""

    async def set(self, module: str, schedule: SetSchedule) -> None:
        """Run that from now on."""
        ...

    async def unset(self, module: str, name: str) -> bool:
        """Run it no more; whether there was one."""
        ...

    def set_by(self, module: str) -> list[ScheduleStatus]:
        """Those that the module has set, by name."""
        ...


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
        """Those that are set."""
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
