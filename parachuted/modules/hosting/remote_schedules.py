"""A module's schedules over the pipe: both of its ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.remote_vault import PipeCaller
from parachuted.modules.results import to_json
from parachuted.modules.scheduling import ScheduleAccess, ScheduleStatus
from parachuted.modules.timing import Timing

_STATUS: TypeAdapter[list[ScheduleStatus]] = TypeAdapter(list[ScheduleStatus])


class RemoteSchedules:
    """`ScheduleAccess` in the module's process."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def set(
        self, name: str, method: str, arguments: Mapping[str, object], timing: Timing
    ) -> None:
        body = {"name": name, "method": method, "arguments": dict(arguments), **asdict(timing)}
        await self._asker.ask("schedules.set", body)

    async def remove(self, name: str) -> bool:
        return await self._asker.ask("schedules.remove", {"name": name}) is True

    async def list(self) -> list[ScheduleStatus]:
        return _STATUS.validate_python(await self._asker.ask("schedules.list", {}))


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Name(_Body):
    name: str


class _Set(_Name):
    method: str
    arguments: dict[str, Any]
    every_s: int | None
    at: str | None
    cron: str | None
    timezone: str | None


async def serve_schedules(access: ScheduleAccess, verb: str, body: Mapping[str, object]) -> object:
    """Do what the module's process asks.

    Raises what the access raises, and ModuleFailedError for what is no request.
    """
    try:
        if verb == "set":
            asked = _Set.model_validate(body)
            timing = Timing(
                every_s=asked.every_s, at=asked.at, cron=asked.cron, timezone=asked.timezone
            )
            await access.set(asked.name, asked.method, asked.arguments, timing)
            return None
        if verb == "remove":
            return await access.remove(_Name.model_validate(body).name)
        if verb == "list":
            _Body.model_validate(body)
            return to_json(await access.list())
    except ValidationError as error:
        raise ModuleFailedError(
            "what the module asks is not as it should be: "
            f"{error.errors(include_url=False)[0]['msg']}"
        ) from error
    raise ModuleFailedError(f"a module cannot ask for schedules.{verb[:80]}")
