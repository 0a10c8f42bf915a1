"""Module settings: what one module is set to, and what it logged."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.decorators import get, put
from parachuted.api.http.route import RequestModel, Whole
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import ModuleStatus
from parachuted.modules.registry.approvals import ModuleApprovals

_MODULE = "system"
_NAME = "/api/modules/{name:[a-z][a-z0-9-]*}"
_READ_BYTES = 4 << 20  # of the end of the log
_OWN_FIELDS = frozenset({"at", "level", "logger", "message", "traceback"})


class ModuleValueResponse(TypedDict):
    """A setting and its value: as JSON, like the default. `is_set`: modules.yaml says it."""

    key: str
    kind: str
    description: str
    default: Any
    value: Any
    is_set: bool


class ModuleValuesResponse(TypedDict):
    """The settings of a module that runs, in its order."""

    settings: list[ModuleValueResponse]


class ModuleValueRequest(RequestModel):
    """The new value; null restores the default."""

    value: bool | int | float | Annotated[str, Field(max_length=10_000)] | None


class LogLineResponse(TypedDict):
    """A line of the log; `fields` are what it was logged with."""

    at: str
    level: str
    message: str
    fields: dict[str, Any]
    traceback: str | None


class ModuleLogResponse(TypedDict):
    """The latest lines, the oldest first."""

    lines: list[LogLineResponse]


class ModuleLogQuery(RequestModel):
    """How many of the latest lines."""

    limit: Annotated[Whole, Field(ge=1, le=1_000)] = 200


class ModuleSettingRoutes:
    def __init__(self, modules: ModuleManager, approvals: ModuleApprovals, log: Path) -> None:
        """`log` is the daemon's log file."""
        self._modules, self._approvals, self._log = modules, approvals, log

    @get(f"{_NAME}/settings", _MODULE, "admin", reach="beyond")
    async def listing(self, name: str) -> ModuleValuesResponse:
        """The settings of a module, with their values."""
        return await self._values(name)

    @put(f"{_NAME}/settings/{{key}}", _MODULE, "admin", reach="beyond")
    async def change(self, name: str, key: str, body: ModuleValueRequest) -> ModuleValuesResponse:
        """Change a setting of a module in modules.yaml, and restart the module with it.

        A value that the module does not take changes nothing.
        """
        if key not in {one.key for one in self._status(name).settings}:
            raise NotFoundError(f"the module {name} has no setting {key[:80]!r}")
        take_back = await asyncio.to_thread(self._approvals.set_config, name, key, body.value)
        await self._modules.restart(name)
        problem = self._status(name).problem or ""
        if f"config.{key}" in problem:
            await asyncio.to_thread(take_back)
            await self._modules.restart(name)
            raise web.HTTPUnprocessableEntity(text=f"{problem}; {key} is as it was")
        return await self._values(name)

    @get(f"{_NAME}/logs", _MODULE, "admin", reach="beyond")
    async def logs(self, name: str, query: ModuleLogQuery) -> ModuleLogResponse:
        """What a module logged, and what the daemon logged of it."""
        self._status(name)
        return {"lines": await asyncio.to_thread(_lines_of, self._log, name, query.limit)}

    async def _values(self, name: str) -> ModuleValuesResponse:
        specs = self._status(name).settings
        written = await asyncio.to_thread(self._approvals.config, name)
        return {
            "settings": [
                {
                    "key": one.key,
                    "kind": one.kind,
                    "description": one.description,
                    "default": json.loads(one.default),
                    "value": written.get(one.key, json.loads(one.default)),
                    "is_set": one.key in written,
                }
                for one in specs
            ]
        }

    def _status(self, name: str) -> ModuleStatus:
        status = next((one for one in self._modules.status() if one.name == name), None)
        if status is None:
            raise NotFoundError(f"there is no module {name}")
        return status


def _lines_of(log: Path, name: str, most: int) -> list[LogLineResponse]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _READ_BYTES))
            return list(deque(_about(name, file), most))
    except FileNotFoundError:
        return []


def _about(name: str, lines: Iterable[bytes]) -> Iterable[LogLineResponse]:
    logger, word = f"parachuted.modules.{name}", name.encode()
    for line in lines:
        if word not in line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the rest of a line that began before what was read
        if entry.get("logger") == logger or entry.get("module") == name:
            yield {
                "at": str(entry.get("at")),
                "level": str(entry.get("level")),
                "message": str(entry.get("message")),
                "fields": {key: one for key, one in entry.items() if key not in _OWN_FIELDS},
                "traceback": entry.get("traceback"),
            }
