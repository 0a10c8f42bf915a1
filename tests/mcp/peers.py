"""Peers: clients of the `mcp` package, and bare requests, as tests connect them."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation

from tests.api.calls import key_of
from tests.stories.daemon_rig import DaemonRig

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "Bare Client", "version": "1"},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@contextlib.asynccontextmanager
async def client(
    daemon_rig: DaemonRig,
    *,
    headers: Mapping[str, str] | None = None,
    mode: str = "legacy",
    name: str = "test",
) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=dict(headers or {})) as http:
        transport = streamable_http_client(f"{daemon_rig.url}/mcp", http_client=http)
        info = Implementation(name=name, version="1")
        async with Client(transport, mode=mode, client_info=info) as connected:
            yield connected


@contextlib.asynccontextmanager
async def client_with(
    daemon_rig: DaemonRig, *scopes: str, name: str = "test", **more: Any
) -> AsyncIterator[Client]:
    """One with a new key of these scopes; `more` as `key_of` takes it."""
    key = key_of(daemon_rig, *scopes, **more)
    daemon_rig.daemon.authenticator.look()
    async with client(daemon_rig, headers=key, name=name) as connected:
        yield connected


async def call(peer: Client, tool: str, **arguments: object) -> dict:
    result = await peer.call_tool(tool, arguments)
    assert not result.is_error, said(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def listed(peer: Client, **arguments: object) -> list[str]:
    return [one["path"] for one in (await call(peer, "list_notes", **arguments))["notes"]]


async def refused(peer: Client, tool: str, **arguments: object) -> str:
    result = await peer.call_tool(tool, arguments)
    assert result.is_error, said(result)
    return said(result)


def said(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


class RawMcpClient:
    def __init__(
        self, daemon_rig: DaemonRig, session: aiohttp.ClientSession, **headers: str
    ) -> None:
        self._url, self._session = f"{daemon_rig.url}/mcp", session
        self.headers = {**ACCEPT, **headers}

    async def post(self, body: object, **headers: str) -> tuple[int, Mapping[str, str], object]:
        """The status, the headers and the JSON of the answer; a text is sent as it is."""
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        raw = data.encode() if isinstance(data, str) else data
        kind = {"Content-Type": "application/json"}
        async with self._session.post(
            self._url, data=io.BytesIO(raw), headers={**kind, **self.headers, **headers}
        ) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, answer.headers, await answer.json() if is_json else None

    async def ask(self, method: str, params: object = None, **headers: str) -> dict:
        status, _headers, answer = await self.post(message(method, params), **headers)
        assert status == 200, answer
        assert isinstance(answer, dict)
        return answer["result"]

    async def open(self) -> dict[str, str]:
        """Begin a session: the headers that name it."""
        status, headers, answer = await self.post(message("initialize", INITIALIZE))
        assert status == 200, answer
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        return session


def message(method: str, params: object = None, number: int = 1) -> dict[str, object]:
    more = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "id": number, "method": method, **more}
