"""Protocol: the `mcp` package, which answers each message by our tools.

It is heavy, so it is loaded when the first client connects. Sessions and rights are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx2
from aiohttp import web
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from parachuted import __version__
from parachuted.api.http.route import ApiCall
from parachuted.mcp.clients import McpClient
from parachuted.mcp.tools import McpTools
from parachuted.tools.definitions import ToolDescription

Context: TypeAlias = ServerRequestContext[Any, Any]

_ASKED = "parachute.asked"
_ACCEPT = (b"accept", b"application/json, text/event-stream")  # what clients say changes nothing
_OF_CONNECTION = frozenset({"content-length", "connection"})
_INSTRUCTIONS = (
    "A vault of markdown notes. Every write is one run: `why` explains lines, `undo` takes a run "
    "back."
)


@dataclass(frozen=True, slots=True)
class _Asked:
    client: McpClient
    api: ApiCall


class McpProtocol:
    def __init__(self, tools: McpTools) -> None:
        self._tools = tools
        self._server = Server[Any](
            "parachute",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def answer(self, client: McpClient, api: ApiCall, body: bytes) -> web.Response:
        """Nothing is kept from one request to the next, so each has a manager of its own."""
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)

        async def serve(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  as ASGI has it
            await manager.handle_request({**scope, _ASKED: _Asked(client, api)}, receive, send)

        sent = [header for header in api.request.raw_headers if header[0].lower() != b"accept"]
        request = httpx2.Request(
            "POST", "http://localhost/mcp", headers=[_ACCEPT, *sent], content=body
        )
        async with manager.run():
            answer = await httpx2.ASGITransport(serve).handle_async_request(request)
        headers = {
            name: value for name, value in answer.headers.items() if name not in _OF_CONNECTION
        }
        return web.Response(status=answer.status_code, headers=headers, body=await answer.aread())

    async def _list_tools(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        offered = self._tools.offered(_asked(ctx).client.identity)
        return types.ListToolsResult(tools=[_definition(tool.description) for tool in offered])

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        asked = _asked(ctx)
        result = await self._tools.call(
            asked.client, asked.api, params.name, params.arguments or {}
        )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=None if result.is_error else result.response,
            is_error=result.is_error,
        )


def _definition(description: ToolDescription) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=description.capability == "read")
    return types.Tool(
        name=description.name,
        description=description.description,
        input_schema=dict(description.takes),
        annotations=hints,
    )


def _asked(ctx: Context) -> _Asked:
    asked = ctx.request.scope[_ASKED] if ctx.request is not None else None
    if not isinstance(asked, _Asked):
        raise TypeError("a request does not say who asks")
    return asked
