"""MCP servers of other people: which there are, what keeps one from running, and their tools."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import Annotated

from aiohttp import web
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import ApiCall, RequestModel
from parachuted.errors import ParachuteError
from parachuted.mcp.definition import OWN_SERVER
from parachuted.mcp.registry import KnownServer
from parachuted.mcp.servers import McpServers
from parachuted.runs.agent_tools import DeclaredTool, ModuleTools, ServerTool
from parachuted.vault import printable

_MODULE = "curator"
_SYSTEM = "system"  # a program that runs here is for those who may do anything
_NAMES = {"name": "the name of an MCP server"}
_OWN_IS = "the daemon's own tools, for other programs"


class AddServerRequest(RequestModel):
    """A server as a `.mcp.json` has it: a program, or a URL with headers."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(min_length=1, max_length=200, examples=["sums"])]


class ApproveServerRequest(RequestModel):
    """What is approved: the server as it was listed with this digest. `trusted`: it runs with your
    rights, outside of a container.
    """

    digest: Annotated[str, Field(min_length=1, max_length=200, examples=["sha256:" + "0" * 64])]
    trusted: bool = False


class McpServerRow(TypedDict):
    """A server; `validationErrors` say what keeps it from running, `digest` names its definition
    and each file that this names, for its approval; None where it cannot run.
    """

    name: str
    displayType: str
    displayCommand: str
    builtin: bool
    validationErrors: list[str]
    source: str
    approved: bool
    digest: str | None


class McpServersResponse(TypedDict):
    """All of them."""

    servers: list[McpServerRow]


class McpServerResponse(TypedDict):
    """One of them."""

    server: McpServerRow


class McpToolRow(TypedDict):
    """A tool; agents call it by `name`."""

    name: str
    description: str


class McpServerToolsResponse(TypedDict):
    """Its tools, or why they are not known."""

    error: str | None
    tools: list[McpToolRow]


class McpServerTestResponse(TypedDict):
    """Whether it starts, with the tools that it has now."""

    success: bool
    error: str | None
    tools: list[McpToolRow]


class McpServerRemovedResponse(TypedDict):
    """The server that is gone."""

    name: str
    status: str


class McpServerRoutes:
    """What a person has agents use is for those who may administer."""

    def __init__(self, servers: McpServers, modules: ModuleTools) -> None:
        self._servers, self._modules = servers, modules

    @get("/api/mcps", _MODULE, "read", reach="beyond")
    async def listing(self) -> McpServersResponse:
        """List the MCP servers that agents may use, or could."""
        known = await asyncio.to_thread(self._servers.registry.all)
        own = McpServerRow(
            name=OWN_SERVER,
            displayType="builtin",
            displayCommand=_OWN_IS,
            builtin=True,
            validationErrors=[],
            source="builtin",
            approved=True,
            digest=None,
        )
        return {"servers": [own, *[await self._row(one) for one in known]]}

    @post("/api/mcps", _SYSTEM, "admin", reach="beyond")
    async def add(self, body: AddServerRequest) -> McpServerResponse:
        """Add an MCP server: a program, or a URL. It is called once it is approved."""
        said = dict(body.model_extra or {})
        server = await asyncio.to_thread(self._servers.registry.add, body.name, said)
        return {"server": await self._row(server)}

    @delete("/api/mcps/{name}", _SYSTEM, "admin", reach="beyond", names=_NAMES)
    async def remove(self, name: str) -> McpServerRemovedResponse:
        """Remove a server that was added here; one of `.mcp.json` is taken out of that file."""
        _refuse_own(name)
        await asyncio.to_thread(self._servers.registry.remove, name)
        return {"name": name, "status": "removed"}

    @post("/api/mcps/{name}/approve", _SYSTEM, "admin", reach="beyond", names=_NAMES)
    async def approve(
        self, call: ApiCall, name: str, body: ApproveServerRequest
    ) -> McpServerToolsResponse:
        """Let a server run as it was listed with that `digest`: its definition, the files that it
        names, and its tools as they are now. 409 where it has changed since.

        It is started once, as it will run, to list them. One that names files outside the vault,
        or is trusted, is approved on the command line of this machine.
        """
        _refuse_own(name)
        is_here = call.identity.kind == "loopback" and call.identity.id == "cli"
        tools = await self._servers.approve(
            name, body.digest, is_here=is_here, is_trusted=body.trusted
        )
        return {"error": None, "tools": _rows(tools)}

    @post("/api/mcps/{name}/test", _SYSTEM, "admin", reach="beyond", names=_NAMES)
    async def test(self, name: str) -> McpServerTestResponse:
        """Start an approved server, and list the tools that it has now."""
        if name == OWN_SERVER:
            return {"success": True, "error": None, "tools": self._own_tools()}
        try:
            tools = await self._servers.look(name)
        except ParachuteError as error:
            await asyncio.to_thread(self._servers.registry.get, name)  # 404 where there is none
            return {"success": False, "error": error.message, "tools": []}
        return {"success": True, "error": None, "tools": _rows(tools)}

    @get("/api/mcps/{name}/tools", _MODULE, "read", reach="beyond", names=_NAMES)
    async def tools(self, name: str) -> McpServerToolsResponse:
        """The tools of a server, as they were approved."""
        if name == OWN_SERVER:
            return {"error": None, "tools": self._own_tools()}
        server = await asyncio.to_thread(self._servers.registry.get, name)
        problem = await asyncio.to_thread(self._servers.problem, server)
        if problem is not None:
            return {"error": problem, "tools": []}
        found = await asyncio.to_thread(self._servers.tools)
        return {"error": None, "tools": _rows([one for one in found if one.server == name])}

    async def _row(self, server: KnownServer) -> McpServerRow:
        problem = await asyncio.to_thread(self._servers.problem, server)
        definition = server.definition
        words = definition.words if definition else ()
        return McpServerRow(
            name=printable(server.name),
            displayType="http" if definition and definition.url else "stdio",
            displayCommand=printable(shlex.join(words)),
            builtin=False,
            validationErrors=[problem] if problem else [],
            source=".mcp.json" if server.source == "vault" else "added",
            approved=problem is None,
            digest=await asyncio.to_thread(self._servers.digest, server),
        )

    def _own_tools(self) -> list[McpToolRow]:
        return _rows([tool for _module, tool in self._modules.tools() if not tool.agent])


def _refuse_own(name: str) -> None:
    if name == OWN_SERVER:
        raise web.HTTPForbidden(text=f"{OWN_SERVER} is the daemon's own; it stays")


def _rows(tools: Sequence[DeclaredTool | ServerTool]) -> list[McpToolRow]:
    return [McpToolRow(name=one.name, description=one.description) for one in tools]
