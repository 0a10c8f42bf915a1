"""Modules: the routes by which a person sees, installs, approves, switches and removes modules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import delete, get, post, put
from parachuted.api.http.route import AppRequestModel, RequestModel
from parachuted.errors import NotFoundError
from parachuted.modules.actions import ModuleActions, status_document
from parachuted.modules.hosting.interfaces import InterfaceChoice
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import Condition, ModuleStatus
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.install import official_modules
from parachuted.modules.registry.prompts import ModulePrompts, default_prompt
from parachuted.modules.settings import SettingSpec

_MODULE = "system"
_PATH = "/api/modules"
_NAME = "{name:[a-z][a-z0-9-]*}"
_Digest = Annotated[str, Field(min_length=8, max_length=128)]


class ModuleCommandResponse(TypedDict):
    """A command of a module's on the command line; `schema` is the JSON schema of its arguments."""

    name: str
    help: str
    schema: dict[str, Any]


class ModuleResponse(TypedDict):
    """A module.

    `status`: how it runs; `state`: how its folder stands to what was approved, whose digest is
    `hash`.

    `notes`: what is no problem and yet to be known, such as `changed, runs as approved`.

    `pages`: where its pages begin, such as /api/garden/ui/; empty where it has none.

    `limits`: what keeps the process of a worker from using up the machine's processes and memory.
    """

    name: str
    version: str
    description: str
    trust_level: Literal["verified", "trusted", "untrusted"]
    status: Condition
    serving: bool
    where: Literal["in process", "container"] | None
    limits: str | None
    state: Literal["new", "approved", "changed", "missing", "broken"]
    source: str
    dev: bool
    hash: str | None
    found_hash: str | None
    problem: str | None
    notes: list[str]
    prefix: str
    pages: str
    provides: list[str]
    interfaces: list[InterfaceChoice]
    routes: list[str]
    tools: list[str]
    events: list[str]
    schedules: list[str]
    agents: list[str]
    commands: list[ModuleCommandResponse]
    settings: list[SettingSpec]


class AvailableModuleResponse(TypedDict):
    """A module that comes with parachuted and is not installed; `source` is what installs it."""

    name: str
    version: str
    description: str
    source: str


class ModulesResponse(TypedDict):
    """All modules, by name, and those that could be installed."""

    modules: list[ModuleResponse]
    available: list[AvailableModuleResponse]


class InstallResponse(TypedDict):
    """A module that lies in the vault now, and what approving it would allow.

    Nothing of it has run.
    """

    module: ModuleResponse
    hash: str
    consent: dict[str, Any]


class ConsentResponse(TypedDict):
    """What approving a module's folder would allow, and how it differs from what was approved.

    `hash` is what approving it names.
    """

    name: str
    state: str
    hash: str | None
    diff: str
    consent: dict[str, Any]


class RemoveModuleResponse(TypedDict):
    """A module that is gone.

    Its folder stays in the vault where a person has changed it, or put it there; `has_data` says
    whether it still has files of its own outside the vault.
    """

    name: str
    removed: Literal[True]
    folder_removed: bool
    data_deleted: bool
    has_data: bool


class ModulePromptResponse(TypedDict):
    """The person's additional instructions for the module's agents; `defaultPrompt` is the first
    agent's own.
    """

    content: str | None
    exists: bool
    defaultPrompt: str


class InstallModuleRequest(RequestModel):
    """Where from: a git address, a folder of this machine, or parachute://NAME.

    `dev`: run it from there, and again at each edit. `trust`: what the consent is shown for.
    """

    source: Annotated[str, Field(min_length=1, max_length=2_000)]
    path: Annotated[str, Field(max_length=1_000)] | None = None
    dev: bool = False
    trust: Literal["trusted", "untrusted"] | None = None


class ApproveModuleRequest(RequestModel):
    """What was shown, by its digest, and how far the module is trusted."""

    hash: _Digest
    trust: Literal["trusted", "untrusted"] | None = None


class ConsentQuery(RequestModel):
    """The trust that the consent is shown for; by default what the module has."""

    trust: Literal["trusted", "untrusted"] | None = None


class RemoveModuleQuery(RequestModel):
    """`data`: delete what the module keeps outside the vault, too."""

    data: bool = False


class ModulePromptRequest(AppRequestModel):
    """Another text, or none any more."""

    content: Annotated[str, Field(max_length=100_000)] | None = None
    reset: bool = False


class ModuleRoutes:
    """What an administrator does about modules; whatever changes is followed at once."""

    def __init__(
        self, modules: ModuleManager, approvals: ModuleApprovals, prompts: ModulePrompts
    ) -> None:
        self._modules, self._actions, self._prompts = modules, ModuleActions(approvals), prompts

    @get(_PATH, _MODULE, "read", reach="beyond")
    async def listing(self) -> ModulesResponse:
        """List the installed modules."""
        await self._modules.refresh()
        found = [_shown(status) for status in self._modules.status()]
        known = {one["name"] for one in found}
        official = await asyncio.to_thread(official_modules)
        return {
            "modules": found,
            "available": [
                {
                    "name": one.name,
                    "version": one.version,
                    "description": one.description,
                    "source": f"parachute://{one.name}",
                }
                for one in official
                if one.name not in known
            ],
        }

    @get(f"{_PATH}/{_NAME}", _MODULE, "read", reach="beyond")
    async def one(self, name: str) -> ModuleResponse:
        """One module."""
        await self._modules.refresh()
        return self._response(name)

    @post(
        f"{_PATH}/install",
        _MODULE,
        "admin",
        reach="beyond",
        answers={200: InstallResponse, 201: InstallResponse},
        errors=(502,),
    )
    async def install(self, body: InstallModuleRequest) -> web.Response:
        """Install a module into the vault without running it."""
        known = {status.name for status in self._modules.status()}
        done = await self._do(
            lambda: self._actions.install(
                body.source, dev=body.dev, path=body.path, trust=body.trust
            )
        )
        return json_answer(done, status=200 if done["module"]["name"] in known else 201)

    @post(f"{_PATH}/{_NAME}/approve", _MODULE, "admin", reach="beyond", errors=(502,))
    async def approve(self, name: str, body: ApproveModuleRequest) -> ModuleResponse:
        """Approve the module's code that has this `hash`."""
        await self._do(lambda: self._actions.approve(name, body.hash, body.trust))
        return self._response(name)

    @post(f"{_PATH}/{_NAME}/enable", _MODULE, "admin", reach="beyond", errors=(502,))
    async def enable(self, name: str) -> ModuleResponse:
        """Enable a module."""
        await self._do(lambda: self._actions.enable(name))
        return self._response(name)

    @post(f"{_PATH}/{_NAME}/disable", _MODULE, "admin", reach="beyond", errors=(502,))
    async def disable(self, name: str) -> ModuleResponse:
        """Disable a module and stop it."""
        await self._do(lambda: self._actions.disable(name))
        return self._response(name)

    @post(f"{_PATH}/{_NAME}/restart", _MODULE, "admin", reach="beyond", errors=(502,))
    async def restart(self, name: str) -> ModuleResponse:
        """Restart a module."""
        await self._modules.restart(name)
        return self._response(name)

    @delete(f"{_PATH}/{_NAME}", _MODULE, "admin", reach="beyond")
    async def remove(self, name: str, query: RemoveModuleQuery) -> RemoveModuleResponse:
        """Remove a module."""
        removed = await self._do(lambda: self._actions.remove(name))
        if query.data:  # only now has it ended
            removed["data_deleted"] = await asyncio.to_thread(self._actions.delete_data, name)
            removed["has_data"] = False
        return cast("RemoveModuleResponse", removed)

    @get(f"{_PATH}/{_NAME}/diff", _MODULE, "admin", reach="beyond")
    async def diff(self, name: str, query: ConsentQuery) -> ConsentResponse:
        """What approving a module with that trust would allow, and what changed."""
        consent = await asyncio.to_thread(self._actions.consent, name, query.trust)
        return cast("ConsentResponse", consent)

    @get(f"{_PATH}/{_NAME}/prompt", _MODULE, "admin", reach="beyond")
    async def prompt(self, name: str) -> ModulePromptResponse:
        """The additional instructions of a module's agents."""
        return await self._prompt(name)

    @put(f"{_PATH}/{_NAME}/prompt", _MODULE, "admin", reach="beyond")
    async def set_prompt(self, name: str, body: ModulePromptRequest) -> ModulePromptResponse:
        """Set or reset the additional instructions of a module's agents."""
        self._response(name)
        if not body.reset and body.content is None:
            raise web.HTTPBadRequest(text="say `content`, or `reset`: true")
        await asyncio.to_thread(self._prompts.put, name, None if body.reset else body.content)
        return await self._prompt(name)

    async def _prompt(self, name: str) -> ModulePromptResponse:
        self._response(name)
        content = await asyncio.to_thread(self._prompts.get, name)
        approved = self._modules.approved(name)
        usual = await asyncio.to_thread(default_prompt, approved) if approved is not None else ""
        return {"content": content, "exists": content is not None, "defaultPrompt": usual}

    async def _do(self, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """In a thread; what runs follows before the answer is given."""
        done = await asyncio.to_thread(act)
        await self._modules.sync()
        return done

    def _response(self, name: str) -> ModuleResponse:
        status = next((status for status in self._modules.status() if status.name == name), None)
        if status is None:
            raise NotFoundError(f"there is no module {name}")
        return _shown(status)


def _shown(status: ModuleStatus) -> ModuleResponse:
    return cast("ModuleResponse", status_document(status))
