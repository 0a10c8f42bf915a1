"""Modules: the routes by which a person sees, installs, approves, switches and removes modules.

Those of modules are module_calls.py's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.answers import json_answer
from parachuted.api.http.fields import AppRequestModel, RequestModel
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall, Route
from parachuted.errors import NotFoundError
from parachuted.modules.actions import ModuleActions, status_document
from parachuted.modules.hosting.status import Condition
from parachuted.modules.registry.prompts import ModulePrompts, default_prompt

_MODULE = "system"
_NAME = "{name:[a-z][a-z0-9-]*}"
_Digest = Annotated[str, Field(min_length=8, max_length=128)]


class InterfaceChoiceResponse(TypedDict):
    """Who serves an interface, and why it is that one."""

    interface: str
    provider: str
    others: list[str]
    reason: str


class ModuleResponse(TypedDict):
    """A module.

    `status`: how it runs; `state`: how its folder stands to what was approved, whose digest is
    `hash`.

    `limits`: what keeps the process of a worker from using up the machine's processes and memory.
    """

    name: str
    version: str
    description: str
    trust_level: Literal["verified", "trusted", "untrusted"]
    status: Condition
    serving: bool
    where: Literal["in process", "worker"] | None
    limits: str | None
    state: Literal["new", "approved", "changed", "missing", "broken"]
    source: str
    dev: bool
    hash: str | None
    found_hash: str | None
    problem: str | None
    prefix: str
    provides: list[str]
    interfaces: list[InterfaceChoiceResponse]
    routes: list[str]
    tools: list[str]
    events: list[str]
    schedules: list[str]
    agents: list[str]


class ModulesResponse(TypedDict):
    """All modules, by name."""

    modules: list[ModuleResponse]


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

    Its folder stays in the vault where a person has changed it, or put it there.
    """

    name: str
    removed: Literal[True]
    folder_removed: bool


class ModulePromptResponse(TypedDict):
    """What a person has the module's agents told besides; `defaultPrompt` is what its first agent
    is told anyway.
    """

    content: str | None
    exists: bool
    defaultPrompt: str


class InstallModuleRequest(RequestModel):
    """Where from: a git address, a folder of this machine, or parachute://NAME.

    `dev`: run it from there, and again at each edit.
    """

    source: Annotated[str, Field(min_length=1, max_length=2_000)]
    path: Annotated[str, Field(max_length=1_000)] | None = None
    dev: bool = False


class ApproveModuleRequest(RequestModel):
    """What was shown, by its digest, and how far the module is trusted."""

    hash: _Digest
    trust: Literal["trusted", "untrusted"] | None = None


class ModulePromptRequest(AppRequestModel):
    """Another text, or none any more."""

    content: Annotated[str, Field(max_length=100_000)] | None = None
    reset: bool = False


class ModuleRoutes:
    """What an administrator does about modules; whatever changes is followed at once."""

    def __init__(self, parts: ApiParts) -> None:
        self._modules, self._actions, self._prompts = (
            parts.modules,
            ModuleActions(parts.trust),
            ModulePrompts(parts.home),
        )

    def routes(self) -> list[Route]:
        """All of this noun's."""
        return [
            self._route("GET", "", self.listing, "The modules there are.", ModulesResponse),
            self._route(
                "POST",
                "/install",
                self.install,
                "Put a module into the vault; it does not run.",
                InstallResponse,
                body=InstallModuleRequest,
            ),
            self._route("GET", f"/{_NAME}", self.one, "One module.", ModuleResponse),
            self._route(
                "DELETE", f"/{_NAME}", self.remove, "Remove a module.", RemoveModuleResponse
            ),
            self._route(
                "GET",
                f"/{_NAME}/diff",
                self.diff,
                "What approving it would allow, and what changed.",
                ConsentResponse,
                admin=True,
            ),
            self._route(
                "POST",
                f"/{_NAME}/approve",
                self.approve,
                "Approve what was shown.",
                ModuleResponse,
                body=ApproveModuleRequest,
            ),
            self._route("POST", f"/{_NAME}/enable", self.enable, "Let it run.", ModuleResponse),
            self._route(
                "POST", f"/{_NAME}/disable", self.disable, "Let it run no more.", ModuleResponse
            ),
            self._route(
                "POST", f"/{_NAME}/restart", self.restart, "Begin it anew.", ModuleResponse
            ),
            self._route(
                "GET",
                f"/{_NAME}/prompt",
                self.prompt,
                "What its agents are told besides.",
                ModulePromptResponse,
                admin=True,
            ),
            self._route(
                "PUT",
                f"/{_NAME}/prompt",
                self.set_prompt,
                "Have its agents told something besides.",
                ModulePromptResponse,
                body=ModulePromptRequest,
            ),
        ]

    def _route(
        self,
        method: str,
        path: str,
        handle: Any,  # noqa: ANN401
        summary: str,
        answer: object,
        *,
        admin: bool = False,
        **more: Any,  # noqa: ANN401
    ) -> Route:
        capability: Literal["read", "admin"] = "read" if method == "GET" and not admin else "admin"
        return Route(
            method=method,
            path=f"/api/modules{path}",
            module=_MODULE,
            capability=capability,
            reach="beyond",
            handle=handle,
            summary=summary,
            answers={200: answer, **({201: answer} if answer is InstallResponse else {})},
            errors=(502,) if method == "POST" else (),
            **more,
        )

    async def listing(self, _call: ApiCall) -> web.Response:
        """`GET /api/modules`."""
        await self._modules.refresh()
        return json_answer(
            {"modules": [status_document(status) for status in self._modules.status()]}
        )

    async def one(self, call: ApiCall) -> web.Response:
        """`GET /api/modules/{name}`."""
        await self._modules.refresh()
        return json_answer(self._told(call.named("name")))

    async def install(self, call: ApiCall) -> web.Response:
        """`POST /api/modules/install`."""
        body = await call.body(InstallModuleRequest)
        known = {status.name for status in self._modules.status()}
        done = await self._do(
            lambda: self._actions.install(body.source, dev=body.dev, path=body.path)
        )
        return json_answer(done, status=200 if done["module"]["name"] in known else 201)

    async def approve(self, call: ApiCall) -> web.Response:
        """`POST /api/modules/{name}/approve`: only what was shown, which `hash` names."""
        body, name = await call.body(ApproveModuleRequest), call.named("name")
        await self._do(lambda: self._actions.approve(name, body.hash, body.trust))
        return json_answer(self._told(name))

    async def enable(self, call: ApiCall) -> web.Response:
        """`POST /api/modules/{name}/enable`."""
        name = call.named("name")
        await self._do(lambda: self._actions.enable(name))
        return json_answer(self._told(name))

    async def disable(self, call: ApiCall) -> web.Response:
        """`POST /api/modules/{name}/disable`."""
        name = call.named("name")
        await self._do(lambda: self._actions.disable(name))
        return json_answer(self._told(name))

    async def restart(self, call: ApiCall) -> web.Response:
        """`POST /api/modules/{name}/restart`."""
        name = call.named("name")
        await self._modules.restart(name)
        return json_answer(self._told(name))

    async def remove(self, call: ApiCall) -> web.Response:
        """`DELETE /api/modules/{name}`."""
        name = call.named("name")
        return json_answer(await self._do(lambda: self._actions.remove(name)))

    async def diff(self, call: ApiCall) -> web.Response:
        """`GET /api/modules/{name}/diff`."""
        name = call.named("name")
        return json_answer(await asyncio.to_thread(self._actions.consent, name))

    async def prompt(self, call: ApiCall) -> web.Response:
        """`GET /api/modules/{name}/prompt`."""
        return json_answer(await self._prompt(call.named("name")))

    async def set_prompt(self, call: ApiCall) -> web.Response:
        """`PUT /api/modules/{name}/prompt` with `{"content"}` or `{"reset": true}`."""
        body, name = await call.body(ModulePromptRequest), call.named("name")
        self._told(name)
        if not body.reset and body.content is None:
            raise web.HTTPBadRequest(text="say `content`, or `reset`: true")
        await asyncio.to_thread(self._prompts.put, name, None if body.reset else body.content)
        return json_answer(await self._prompt(name))

    async def _prompt(self, name: str) -> ModulePromptResponse:
        self._told(name)
        content = await asyncio.to_thread(self._prompts.get, name)
        approved = self._modules.approved(name)
        usual = await asyncio.to_thread(default_prompt, approved) if approved is not None else ""
        return {"content": content, "exists": content is not None, "defaultPrompt": usual}

    async def _do(self, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """In a thread; what runs follows before the answer is given."""
        done = await asyncio.to_thread(act)
        await self._modules.sync()
        return done

    def _told(self, name: str) -> dict[str, Any]:
        status = next((status for status in self._modules.status() if status.name == name), None)
        if status is None:
            raise NotFoundError(f"there is no module {name}")
        return status_document(status)
