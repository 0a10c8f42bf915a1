"""Modules: the routes that list, install, approve, switch, set and remove modules; and what an
untrusted one asks of the daemon, on the unix socket of its container.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from aiohttp import web
from pydantic import Field

from parachuted.api.flutter import ModulePrompt
from parachuted.api.http.answers import status_of
from parachuted.api.http.decorators import delete, get, post, put
from parachuted.api.http.route import ApiCall, AppRequestModel, MediaBody, RequestModel, Whole
from parachuted.errors import ActRefusedError, NotFoundError, ParachuteError
from parachuted.modules import actions
from parachuted.modules.actions import InstalledModule, ModuleReview, RemovedModule
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.module_containers import LARGEST, SCOPE, ModuleClient
from parachuted.modules.hosting.service_calls import CALL_HEADER, ERRORS, SERVICES, SentError
from parachuted.modules.hosting.status import ModuleStatus
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.install import official_modules
from parachuted.modules.registry.prompts import ModulePrompts, default_prompt

_T = TypeVar("_T")
_MODULE = "system"
_PATH = "/api/modules"
_NAME = "{name:[a-z][a-z0-9-]*}"
_READ_BYTES = 4 << 20  # of the end of the log
_OWN_FIELDS = frozenset({"at", "level", "logger", "message", "traceback"})
_Trust: TypeAlias = Literal["trusted", "untrusted"]
_Digest = Annotated[str, Field(min_length=8, max_length=128)]


@dataclass(frozen=True, slots=True)
class AvailableModule:
    """`source` is what installs it."""

    name: str
    version: str
    description: str
    source: str


@dataclass(frozen=True, slots=True)
class ModuleList:
    modules: list[ModuleStatus]
    available: list[AvailableModule]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSetting:
    """`is_set`: modules.yaml says it."""

    key: str
    kind: str
    description: str
    default: Any
    value: Any
    is_set: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """`fields` are what it was logged with."""

    at: str
    level: str
    message: str
    fields: dict[str, Any]
    traceback: str | None


class ModuleValueRequest(RequestModel):
    """null restores the default."""

    value: bool | int | float | Annotated[str, Field(max_length=10_000)] | None


class InstallModuleRequest(RequestModel):
    """`source`: a git address, a folder of this machine, or parachute://NAME.

    `dev`: refer to the folder instead of copying it. `trust`: what the consent is shown for.
    """

    source: Annotated[str, Field(min_length=1, max_length=2_000)]
    path: Annotated[str, Field(max_length=1_000)] | None = None
    dev: bool = False
    trust: _Trust | None = None


class ApproveModuleRequest(RequestModel):
    """`hash` is the digest of what was shown."""

    hash: _Digest
    trust: _Trust | None = None


class ModulePromptRequest(AppRequestModel):
    content: Annotated[str, Field(max_length=100_000)] | None = None
    reset: bool = False


class ModuleRoutes:
    def __init__(
        self, modules: ModuleManager, approvals: ModuleApprovals, prompts: ModulePrompts, log: Path
    ) -> None:
        """`log` is the daemon's log file."""
        self._modules, self._prompts, self._log = modules, prompts, log
        self._approvals = approvals

    @get(_PATH, _MODULE, "read")
    async def listing(self) -> ModuleList:
        """List the installed modules."""
        await self._modules.refresh()
        module_statuses = self._modules.status()
        known = {module.name for module in module_statuses}
        official = await asyncio.to_thread(official_modules)
        available = [
            AvailableModule(it.name, it.version, it.description, f"parachute://{it.name}")
            for it in official
            if it.name not in known
        ]
        return ModuleList(module_statuses, available)

    @get(f"{_PATH}/{_NAME}", _MODULE, "read")
    async def one(self, name: str) -> ModuleStatus:
        """One module."""
        await self._modules.refresh()
        return self._modules.status_of(name)

    @post(
        f"{_PATH}/install",
        _MODULE,
        "admin",
        answers={200: InstalledModule, 201: InstalledModule},
    )
    async def install(self, call: ApiCall, body: InstallModuleRequest) -> InstalledModule:
        """Install a module into the vault without running it."""
        known = {module.name for module in self._modules.status()}
        how = partial(actions.install_module, dev=body.dev, path=body.path, trust=body.trust)
        done = await self._do(lambda: how(self._approvals, body.source))
        if done.module.name not in known:
            call.status = 201
        return done

    @post(f"{_PATH}/{_NAME}/approve", _MODULE, "admin")
    async def approve(self, name: str, body: ApproveModuleRequest) -> ModuleStatus:
        """Approve the module's code that has this `hash`."""
        await self._do(lambda: self._approvals.approve(name, body.hash, trust=body.trust))
        return self._modules.status_of(name)

    @post(f"{_PATH}/{_NAME}/enable", _MODULE, "admin")
    async def enable(self, name: str) -> ModuleStatus:
        """Enable a module."""
        await self._do(lambda: self._approvals.enable(name))
        return self._modules.status_of(name)

    @post(f"{_PATH}/{_NAME}/disable", _MODULE, "admin")
    async def disable(self, name: str) -> ModuleStatus:
        """Disable a module and stop it."""
        await self._do(lambda: self._approvals.disable(name))
        return self._modules.status_of(name)

    @post(f"{_PATH}/{_NAME}/restart", _MODULE, "admin")
    async def restart(self, name: str) -> ModuleStatus:
        """Restart a module."""
        await self._modules.restart(name)
        return self._modules.status_of(name)

    @delete(f"{_PATH}/{_NAME}", _MODULE, "admin")
    async def remove(self, name: str, *, data: bool = False) -> RemovedModule:
        """Remove a module.

        `data`: delete what it keeps outside the vault, too.
        """
        removed = await self._do(lambda: actions.remove_module(self._approvals, name))
        if not data:
            return removed
        gone = await asyncio.to_thread(actions.delete_data, self._approvals, name)  # it has ended
        return replace(removed, data_deleted=gone, has_data=False)

    @get(f"{_PATH}/{_NAME}/diff", _MODULE, "admin")
    async def diff(self, name: str, trust: _Trust | None = None) -> ModuleReview:
        """What approving a module with that trust would allow, and what changed.

        Without one, what the module has.
        """
        return await asyncio.to_thread(actions.review_module, self._approvals, name, trust)

    @get(f"{_PATH}/{_NAME}/prompt", _MODULE, "admin")
    async def prompt(self, name: str) -> ModulePrompt:
        """The additional instructions of a module's agents."""
        self._modules.status_of(name)
        content = await asyncio.to_thread(self._prompts.get, name)
        approved = self._modules.approved(name)
        usual = await asyncio.to_thread(default_prompt, approved) if approved is not None else ""
        return {"content": content, "exists": content is not None, "defaultPrompt": usual}

    @put(f"{_PATH}/{_NAME}/prompt", _MODULE, "admin")
    async def set_prompt(self, name: str, body: ModulePromptRequest) -> ModulePrompt:
        """Set or reset the additional instructions of a module's agents."""
        self._modules.status_of(name)
        if not body.reset and body.content is None:
            raise web.HTTPBadRequest(text="say `content`, or `reset`: true")
        await asyncio.to_thread(self._prompts.put, name, None if body.reset else body.content)
        return await self.prompt(name)

    @get(f"{_PATH}/{_NAME}/settings", _MODULE, "admin", wrapped="settings")
    async def settings(self, name: str) -> list[ModuleSetting]:
        """The settings of a module that runs, with their values."""
        specs = self._modules.status_of(name).settings
        written = (await asyncio.to_thread(self._approvals.entry, name)).record.config
        return [
            ModuleSetting(
                key=spec.key,
                kind=spec.kind,
                description=spec.description,
                default=json.loads(spec.default),
                value=written.get(spec.key, json.loads(spec.default)),
                is_set=spec.key in written,
            )
            for spec in specs
        ]

    @put(f"{_PATH}/{_NAME}/settings/{{key}}", _MODULE, "admin", wrapped="settings")
    async def change_setting(
        self, name: str, key: str, body: ModuleValueRequest
    ) -> list[ModuleSetting]:
        """Change a setting of a module in modules.yaml, and restart the module with it.

        A value that the module does not take changes nothing.
        """
        if key not in {spec.key for spec in self._modules.status_of(name).settings}:
            raise NotFoundError(f"the module {name} has no setting {key[:80]!r}")
        former = await asyncio.to_thread(self._approvals.set_config, name, key, body.value)
        await self._modules.restart(name)
        problem = self._modules.status_of(name).problem or ""
        if f"config.{key}" in problem:
            await asyncio.to_thread(self._approvals.set_config, name, key, former)
            await self._modules.restart(name)
            raise web.HTTPUnprocessableEntity(text=f"{problem}; {key} is as it was")
        return await self.settings(name)

    @get(f"{_PATH}/{_NAME}/logs", _MODULE, "admin", wrapped="lines")
    async def logs(
        self, name: str, limit: Annotated[Whole, Field(ge=1, le=1_000)] = 200
    ) -> list[LogLine]:
        """What a module logged, and what the daemon logged of it: the latest lines, the oldest
        first.
        """
        self._modules.status_of(name)
        return await asyncio.to_thread(_lines_of, self._log, name, limit)

    async def _do(self, act: Callable[[], _T]) -> _T:
        """In a thread; the running modules follow before the answer."""
        done = await asyncio.to_thread(act)
        await self._modules.sync()
        return done


def _lines_of(log: Path, name: str, most: int) -> list[LogLine]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _READ_BYTES))
            return list(deque(_about(name, file), most))
    except FileNotFoundError:
        return []


def _about(name: str, lines: Iterable[bytes]) -> Iterable[LogLine]:
    logger, word = f"parachuted.modules.{name}", name.encode()
    for line in lines:
        if word not in line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the rest of a line that began before what was read
        if entry.get("logger") == logger or entry.get("module") == name:
            yield LogLine(
                at=str(entry.get("at")),
                level=str(entry.get("level")),
                message=str(entry.get("message")),
                fields={key: value for key, value in entry.items() if key not in _OWN_FIELDS},
                traceback=entry.get("traceback"),
            )


_ANSWER = MediaBody(type="application/json", says="What the service returns.")


class ModuleServiceRoutes:
    def __init__(self, client: ModuleClient) -> None:
        self._client = client

    @post(SERVICES, SCOPE, "write", answers={200: _ANSWER}, largest_body=LARGEST)
    async def ask(self, call: ApiCall) -> web.StreamResponse:
        """Call a service of the module's, such as `vault.read`."""
        service, of = call.named("service"), call.request.headers.get(CALL_HEADER, "")
        status = 200
        try:
            if call.named("name") != self._client.name:
                raise ActRefusedError("only the module itself, in its container, can ask for that")
            async with self._client.room(service, call.request.content_length):
                body = await self._client.answer(service, await call.content(), of)
        except (ParachuteError, TypeError, ValueError) as error:
            status = status_of(error) if isinstance(error, ParachuteError) else 422
            body = ERRORS.dump_json(SentError.of(error))
        return web.Response(body=body, status=status, content_type="application/json")
