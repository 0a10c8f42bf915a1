"""Streams: what a client hears of changes while it listens, and answers that go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from parachuted.api.http.answers import json_bytes
from parachuted.keys import Identity
from parachuted.mcp_server.changes import ClientChanges
from parachuted.mcp_server.clients import McpClient

_HEADERS = {
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


class ChangeStream:
    """One client that listens. What changed twice before it was told is told once."""

    def __init__(self, client: McpClient, request: web.Request) -> None:
        self.client, self._request = client, request
        self._updated: set[str] = set()
        self._lists: set[str] = set()
        self._awake, self._is_over = asyncio.Event(), False

    @property
    def identity(self) -> Identity:
        """Who listens."""
        return self.client.identity

    def tell(self, changes: ClientChanges) -> None:
        """Tell the client of these, as far as it subscribed to them."""
        self._updated |= changes.updated & self.client.subscribed
        self._lists |= {_NEW_LIST} if changes.has_new_list else set()
        self._lists |= {_NEW_TOOLS} if changes.has_new_tools else set()
        if self._updated or self._lists:
            self._awake.set()

    def end(self) -> None:
        """End the stream."""
        self._is_over = True
        self._awake.set()

    async def serve(self, session: str) -> web.StreamResponse:
        """Answer until the reader has gone, takes nothing, or `end`."""
        response = web.StreamResponse(headers={**_HEADERS, "Mcp-Session-Id": session})
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
        """Tell the application that the reader has gone, which ends a stream."""
        self._is_over.set()

    async def receive(self) -> dict[str, Any]:
        """The body; after it, that the reader has gone."""
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:  # noqa: ANN401  as ASGI has it
        """Take a part of the answer."""
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
        """The answer, once the application is done."""
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
