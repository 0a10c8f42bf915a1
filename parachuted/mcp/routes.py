"""Routes of MCP: streamable HTTP at `/mcp`, on the port of the API, for the same keys.

The middleware of the API has checked who asks, from where and with which key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web
from typing_extensions import TypedDict

from parachuted.api.http.answers import json_answer, json_bytes, json_value
from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import ApiCall, AppRequestModel, MediaBody
from parachuted.heavy import load_heavy
from parachuted.keys import Identity
from parachuted.mcp.clients import ClientTable, McpClient
from parachuted.mcp.resources import ClientChanges, NoteResources, VaultChanges
from parachuted.mcp.tools import McpTools

if TYPE_CHECKING:  # it brings mcp, which is loaded when the first client connects
    from parachuted.mcp.protocol import McpProtocol

_STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_STREAMED = b"text/event-stream"
_STILL_HERE = b": still here\n\n"
_HEARTBEAT_S, _WRITE_S = 15.0, 30.0
_ACCEPT = b"application/json, text/event-stream"  # what a client says of it changes nothing
_UPDATED = "notifications/resources/updated"
_NEW_LIST = "notifications/resources/list_changed"
_NEW_TOOLS = "notifications/tools/list_changed"
LARGEST = 2 << 20
_PATH = "/mcp"
_MODULE = "vault"
_SESSION = "Mcp-Session-Id"
_VERSION = "MCP-Protocol-Version"
_INFO = "io.modelcontextprotocol/clientInfo"
_NO_SESSION = -32001
_HEADERS = {
    _SESSION: "The session, as the answer to `initialize` gave it.",
    _VERSION: "The version of the protocol.",
}


class ChangeStream:
    """One client that listens. Several changes of one note before a message are one."""

    def __init__(self, client: McpClient, request: web.Request) -> None:
        self.client, self._request = client, request
        self._updated: set[str] = set()
        self._lists: set[str] = set()
        self._awake, self._is_over = asyncio.Event(), False

    @property
    def identity(self) -> Identity:
        return self.client.identity

    def tell(self, changes: ClientChanges) -> None:
        self._updated |= changes.updated & self.client.subscribed
        self._lists |= {_NEW_LIST} if changes.has_new_list else set()
        self._lists |= {_NEW_TOOLS} if changes.has_new_tools else set()
        if self._updated or self._lists:
            self._awake.set()

    def end(self) -> None:
        self._is_over = True
        self._awake.set()

    async def serve(self, session: str) -> web.StreamResponse:
        """Answer until the reader has gone, takes nothing, or `end`."""
        response = web.StreamResponse(headers={**_STREAM_HEADERS, "Mcp-Session-Id": session})
        try:
            await response.prepare(self._request)
            await _write(response, b": parachuted\n\n")
            while not self._is_over:
                await _write(response, await self._next())
        except (ConnectionError, TimeoutError):
            if self._request.transport is not None:
                self._request.transport.abort()
        return response

    async def _next(self) -> bytes:
        """What is to be written next; a sign of life where nothing happened."""
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                await self._awake.wait()
        except TimeoutError:
            return _STILL_HERE
        self._awake.clear()
        return b"".join(self._frames())

    def _frames(self) -> Iterator[bytes]:
        updated, lists = sorted(self._updated), sorted(self._lists)
        self._updated.clear()
        self._lists.clear()
        for address in updated:
            yield _frame({"method": _UPDATED, "params": {"uri": address}})
        for method in lists:
            yield _frame({"method": method})


class AsgiBridge:
    """One request as an ASGI application takes it, and its answer, whole or as a stream."""

    def __init__(self, request: web.Request, identity: Identity, path: str, body: bytes) -> None:
        self.identity, self._request = identity, request
        self._body: bytes | None = body
        self._status, self._headers = 500, dict[str, str]()
        self._parts: list[bytes] = []
        self._stream: web.StreamResponse | None = None
        self._is_over = asyncio.Event()
        self.scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": request.method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"accept", _ACCEPT), *_others(request)],
        }

    def end(self) -> None:
        self._is_over.set()

    async def receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:  # noqa: ANN401  as ASGI has it
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in headers.items()
                if name.lower() not in {b"content-length", b"connection"}
            }
            if headers.get(b"content-type", b"").startswith(_STREAMED):
                self._stream = web.StreamResponse(headers=self._headers)
                await self._stream.prepare(self._request)
        elif self._stream is None:
            self._parts.append(message.get("body", b""))
        else:
            try:
                await _write(self._stream, message.get("body", b""))
            except (ConnectionError, TimeoutError):
                self.end()

    def response(self) -> web.StreamResponse:
        return self._stream or web.Response(
            status=self._status, headers=self._headers, body=b"".join(self._parts)
        )


def _others(request: web.Request) -> Iterator[tuple[bytes, bytes]]:
    for name, value in request.raw_headers:
        if name.lower() != b"accept":
            yield name.lower(), value


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_WRITE_S):
        await response.write(data)


def _frame(message: dict[str, object]) -> bytes:
    return b"event: message\ndata: " + json_bytes({"jsonrpc": "2.0", **message}) + b"\n\n"


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
    def __init__(
        self,
        clients: ClientTable,
        tools: McpTools,
        resources: NoteResources,
        changes: VaultChanges,
        holds: Callable[[Identity], bool],
    ) -> None:
        """`holds` says whether an identity still may ask."""
        self.clients, self._tools, self._resources = clients, tools, resources
        self._changes, self._holds = changes, holds
        self._streams: set[ChangeStream | AsgiBridge] = set()
        self._protocol: McpProtocol | None = None

    def recheck(self) -> None:
        self.clients.recheck()
        for stream in tuple(self._streams):
            if not self._holds(stream.identity):
                stream.end()

    async def close(self) -> None:
        for stream in tuple(self._streams):
            stream.end()

    @post(
        _PATH,
        _MODULE,
        "read",
        reach="paths",
        body=McpRequest,
        headers=_HEADERS,
        answers={200: McpResponse, 202: None, 400: McpResponse, 404: McpResponse},
        largest_body=LARGEST,
    )
    async def message(self, call: ApiCall) -> web.StreamResponse:
        """One message of the Model Context Protocol (streamable HTTP)."""
        body = await call.content()
        asked = _document(body)
        session = call.request.headers.get(_SESSION)
        is_opening = session is None and asked.get("method") == "initialize"
        client = self._client(call, session, asked, is_opening=is_opening)
        if client is None:
            return _no_session(asked.get("id"))
        protocol = await self._loaded()
        bridge = AsgiBridge(call.request, call.identity, _PATH, body)
        self._streams.add(bridge)
        try:
            await protocol.answer(client, call, bridge.scope, bridge.receive, bridge.send)
        finally:
            self._streams.discard(bridge)
        response = bridge.response()
        if is_opening and response.status == web.HTTPOk.status_code:
            self.clients.keep(client)
            response.headers[_SESSION] = client.id
        return response

    @get(
        _PATH,
        _MODULE,
        "read",
        reach="paths",
        headers=_HEADERS,
        has_head=False,
        answers={
            200: MediaBody(
                type="text/event-stream",
                says="Notifications; this is the `data` of each.",
                item=McpRequest,
            ),
            404: McpResponse,
        },
    )
    async def listen(self, call: ApiCall) -> web.StreamResponse:
        """The notifications of a session of the Model Context Protocol, as they happen.

        One stream for each session: a second one ends the first.
        """
        session = call.request.headers.get(_SESSION, "")
        client = self.clients.find(session, call.identity)
        if client is None:
            return _no_session(None)
        for other in tuple(self._streams):
            if isinstance(other, ChangeStream) and other.client is client:
                other.end()
        stream = ChangeStream(client, call.request)
        self._streams.add(stream)
        end = self._changes.subscribe(client, stream.tell)
        try:
            return await stream.serve(session)
        finally:
            end()
            self._streams.discard(stream)

    @delete(
        _PATH,
        _MODULE,
        "read",
        reach="paths",
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
        self,
        call: ApiCall,
        session: str | None,
        asked: Mapping[str, object],
        *,
        is_opening: bool,
    ) -> McpClient | None:
        if session is not None:
            return self.clients.find(session, call.identity)
        name = _client_name(asked)
        if is_opening:
            return self.clients.make(call.identity, name)
        return self.clients.sessionless(call.identity, name)

    async def _loaded(self) -> McpProtocol:
        if self._protocol is None:
            part = await load_heavy("mcp")
            self._protocol = part.McpProtocol(
                self._tools, self._resources, self._changes, largest_body=LARGEST
            )
        return self._protocol


def _document(body: bytes) -> Mapping[str, object]:
    """The message, as far as it is one; the protocol says what is wrong with others."""
    try:
        document = json_value(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


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
