"""What a module does about its own schedules while it runs: `self.schedules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from inspect import getattr_static, isfunction
from typing import Protocol

from parachuted.modules.results import to_json
from parachuted.modules.timing import Timing, parse_timing


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """A schedule that the module set: which method runs with which arguments, and when.

    `next_at` is in UTC; None where the module is only about to start.
    """

    name: str
    method: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    timing: Timing
    next_at: datetime | None = None


class ScheduleAccess(Protocol):
    """The schedules of one module, wherever its code runs."""

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None:
        """Keep it. Raises EditRefusedError, StorageFailedError."""
        ...

    async def remove(self, name: str) -> bool:
        """Forget it; whether there was one."""
        ...

    async def list(self) -> list[ScheduleStatus]:
        """Those that are set, by name."""
        ...


class Schedules:
    """`self.schedules`: schedules that a module sets, changes and removes while it runs.

    They outlive the daemon and run whenever the module does; what was missed runs once.
    """

    def __init__(self, module: object, access: ScheduleAccess) -> None:
        self._module, self._access = module, access

    async def set(
        self,
        name: str,
        method: str,
        *,
        every: str | None = None,
        at: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        args: Mapping[str, object] | None = None,
    ) -> None:
        """Let that method run with these arguments `every="15m"`, each day `at="03:00"`, or as
        `cron="0 3 * * *"` says, in the machine's time zone or another. It replaces one of that
        name; one that is the same as before goes on as it did.

        Raises ValueError for a timing or a method that there is not, and EditRefusedError.
        """
        timing = parse_timing(every=every, at=at, cron=cron, timezone=timezone)
        if not isfunction(getattr_static(type(self._module), method, None)):
            raise ValueError(f"{method!r} is not a method of {type(self._module).__name__}")
        arguments = {key: to_json(value) for key, value in (args or {}).items()}
        await self._access.set(name, method, arguments, timing)

    async def remove(self, name: str) -> bool:
        """Let it run no more; whether there was one of that name."""
        return await self._access.remove(name)

    async def list(self) -> list[ScheduleStatus]:
        """Those that the module has set, by name."""
        return await self._access.list()
