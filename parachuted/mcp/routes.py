"""Routes of MCP: streamable HTTP at `/mcp`, and other people's servers."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aiohttp import web
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from parachuted.api.flutter import McpServerRow
from parachuted.api.http.answers import json_answer, json_value
from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import ApiCall, AppRequestModel, RequestModel
from parachuted.errors import ParachuteError
from parachuted.mcp.clients import ClientTable, McpClient
from parachuted.mcp.registry import OWN_SERVER, KnownServer
from parachuted.mcp.servers import McpServers, callable_tools
from parachuted.mcp.tools import McpTools
from parachuted.processes.heavy import load_heavy
from parachuted.runs.agent_tools import DeclaredTool, ModuleTools, ServerTool
from parachuted.vault import printable

if TYPE_CHECKING:  # it brings mcp, which is loaded when the first client connects
    from parachuted.mcp.protocol import McpProtocol

_PATH = "/mcp"
_MODULE = "vault"
_SESSION = "Mcp-Session-Id"
_INFO = "io.modelcontextprotocol/clientInfo"
_NO_SESSION = -32001
_HEADERS = {
    _SESSION: "The session, as the answer to `initialize` gave it.",
    "MCP-Protocol-Version": "The version of the protocol.",
}
_CURATOR = "curator"
_SYSTEM = "system"  # a program that runs here is for those who may do anything
_NAMES = {"name": "the name of an MCP server"}
_OWN = McpServerRow(
    name=OWN_SERVER,
    displayType="builtin",
    displayCommand="the daemon's own tools, for other programs",
    builtin=True,
    validationErrors=[],
    source="builtin",
    approved=True,
    digest=None,
)


class McpRequest(AppRequestModel):
    """One JSON-RPC message: a request, or a notification without `id`."""

    jsonrpc: str = "2.0"
    id: int | str | None = None
    method: str = ""
    params: dict[str, object] | None = None


class McpResponse(TypedDict, total=False):
    """The JSON-RPC message that answers: it has `result` or `error`."""

    jsonrpc: str
    id: int | str | None
    result: dict[str, object]
    error: object


class McpRoutes:
    def __init__(self, clients: ClientTable, tools: McpTools) -> None:
        self.clients, self._tools = clients, tools
        self._protocol: McpProtocol | None = None

    @post(
        _PATH,
        _MODULE,
        "read",
        for_path_keys=True,
        body=McpRequest,
        headers=_HEADERS,
        answers={200: McpResponse, 202: None, 400: McpResponse, 404: McpResponse},
        largest_body=2 << 20,
    )
    async def message(self, call: ApiCall) -> web.Response:
        """One message of the Model Context Protocol (streamable HTTP)."""
        body = await call.content()
        asked: Mapping[str, object] = {}
        with suppress(ValueError):  # the protocol says what is wrong with it
            asked = _map(json_value(body))
        session = call.request.headers.get(_SESSION)
        client = self._client(call, session, asked)
        if client is None:
            return _no_session(asked.get("id"))
        response = await (await self._loaded()).answer(client, call, body)
        is_opening = session is None and _is_opening(asked)
        if is_opening and response.status == web.HTTPOk.status_code:
            self.clients.keep(client)
            response.headers[_SESSION] = client.id
        return response

    @delete(
        _PATH,
        _MODULE,
        "read",
        for_path_keys=True,
        headers=_HEADERS,
        answers={204: None, 404: McpResponse},
    )
    async def end(self, call: ApiCall) -> web.Response:
        """End a session of the Model Context Protocol."""
        session = call.request.headers.get(_SESSION, "")
        if self.clients.find(session, call.identity) is None:
            return _no_session(None)
        self.clients.end(session)
        return web.Response(status=204)

    def _client(
        self, call: ApiCall, session: str | None, asked: Mapping[str, object]
    ) -> McpClient | None:
        if session is not None:
            return self.clients.find(session, call.identity)
        name = _client_name(asked)
        if _is_opening(asked):
            return McpClient(self.clients.sources, call.identity, name)
        return self.clients.sessionless(call.identity, name)

    async def _loaded(self) -> McpProtocol:
        if self._protocol is None:
            part = await load_heavy("mcp")
            self._protocol = part.McpProtocol(self._tools)
        return self._protocol


def _is_opening(asked: Mapping[str, object]) -> bool:
    return asked.get("method") == "initialize"


def _client_name(asked: Mapping[str, object]) -> str:
    params = _map(asked.get("params"))
    info = _map(params.get("clientInfo")) or _map(_map(params.get("_meta")).get(_INFO))
    name = info.get("name")
    return name if isinstance(name, str) else ""


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _no_session(message: object) -> web.Response:
    error = {"code": _NO_SESSION, "message": "Session not found; send initialize again"}
    return json_answer({"jsonrpc": "2.0", "id": message, "error": error}, status=404)


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


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool; agents call it by `name`."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class McpServerTools:
    """A server's tools, or why they are not known."""

    tools: list[ListedTool]
    error: str | None = None
    success: bool = True


@dataclass(frozen=True, slots=True)
class RemovedMcpServer:
    """The server that is gone."""

    name: str
    status: str = "removed"


class McpServerRoutes:
    def __init__(self, servers: McpServers, modules: ModuleTools) -> None:
        self._servers, self._modules = servers, modules

    @get("/api/mcps", _CURATOR, "read", wrapped="servers")
    async def listing(self) -> list[McpServerRow]:
        """List the MCP servers that agents may use, or could."""
        return await asyncio.to_thread(
            lambda: [_OWN, *map(self._row, self._servers.registry.all())]
        )

    @post("/api/mcps", _SYSTEM, "admin", wrapped="server")
    async def add(self, body: AddServerRequest) -> McpServerRow:
        """Add an MCP server: a program, or a URL. It is called once it is approved."""
        fields = dict(body.model_extra or {})
        server = await asyncio.to_thread(self._servers.registry.add, body.name, fields)
        return await asyncio.to_thread(self._row, server)

    @delete("/api/mcps/{name}", _SYSTEM, "admin", names=_NAMES)
    async def remove(self, name: str) -> RemovedMcpServer:
        """Remove a server that was added here; one of `.mcp.json` is taken out of that file."""
        _refuse_own(name)
        await asyncio.to_thread(self._servers.registry.remove, name)
        return RemovedMcpServer(name)

    @post("/api/mcps/{name}/approve", _SYSTEM, "admin", names=_NAMES)
    async def approve(self, call: ApiCall, name: str, body: ApproveServerRequest) -> McpServerTools:
        """Let a server run as it was listed with that `digest`: its definition, the files that it
        names, and its tools as they are now. 409 where it has changed since.

        It is started once, as it will run, to list them. One that is trusted is approved on the
        command line of this machine.
        """
        _refuse_own(name)
        is_here = call.identity.kind == "loopback" and call.identity.id == "cli"
        tools = await self._servers.approve(
            name, body.digest, is_here=is_here, is_trusted=body.trusted
        )
        return McpServerTools(_shown(tools))

    @post("/api/mcps/{name}/test", _SYSTEM, "admin", names=_NAMES)
    async def test(self, name: str) -> McpServerTools:
        """Start an approved server, and list the tools that it has now."""
        if name == OWN_SERVER:
            return McpServerTools(self._own_tools())
        try:
            tools = await self._servers.look(name)
        except ParachuteError as error:
            await asyncio.to_thread(self._servers.registry.get, name)  # 404 where there is none
            return McpServerTools([], error.message, success=False)
        return McpServerTools(_shown(tools))

    @get("/api/mcps/{name}/tools", _CURATOR, "read", names=_NAMES)
    async def tools(self, name: str) -> McpServerTools:
        """The tools of a server, as they were approved."""
        if name == OWN_SERVER:
            return McpServerTools(self._own_tools())
        return await asyncio.to_thread(self._approved_tools, name)

    def _approved_tools(self, name: str) -> McpServerTools:
        server = self._servers.registry.get(name)
        if problem := self._servers.problem(server):
            return McpServerTools([], problem, success=False)
        return McpServerTools(_shown(callable_tools(server)))

    def _row(self, server: KnownServer) -> McpServerRow:
        problem, definition = self._servers.problem(server), server.definition
        return McpServerRow(
            name=printable(server.name),
            displayType="http" if definition and definition.url else "stdio",
            displayCommand=printable(shlex.join(definition.words if definition else ())),
            builtin=False,
            validationErrors=[problem] if problem else [],
            source=".mcp.json" if server.source == "vault" else "added",
            approved=problem is None,
            digest=self._servers.digest(server),
        )

    def _own_tools(self) -> list[ListedTool]:
        return _shown(tool for _module, tool in self._modules.tools() if not tool.agent)


def _refuse_own(name: str) -> None:
    if name == OWN_SERVER:
        raise web.HTTPForbidden(text=f"{OWN_SERVER} is the daemon's own; it stays")


def _shown(tools: Iterable[DeclaredTool | ServerTool]) -> list[ListedTool]:
    return [ListedTool(tool.name, tool.description) for tool in tools]
