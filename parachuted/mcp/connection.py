"""Server connection: one MCP server of somebody else's, on the `mcp` package's client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import Implementation, Tool, jsonrpc_message_adapter

from parachuted.agents.job import ToolResult
from parachuted.agents.sandbox import Container
from parachuted.errors import AgentUnavailableError, ModuleFailedError
from parachuted.mcp.registry import ServerDefinition

log = logging.getLogger(__name__)

_START_S: Final = 60.0
_CALL_S: Final = 300.0
_MOST_TOOLS, _MOST_PAGES = 200, 20
_LONGEST_TEXT: Final = 4_000

Transport = AbstractAsyncContextManager[tuple[Any, Any]]


class ServerConnection:
    """Made by `open`; `close` leaves nothing of the server."""

    def __init__(self, name: str, transport: Transport) -> None:
        self._name = name
        loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Client] = loop.create_future()
        self._closing = asyncio.Event()
        # the client has to be left by the task that entered it
        self._life = loop.create_task(self._live(transport), name=f"MCP server {name}")

    @classmethod
    async def open(cls, name: str, transport: Transport) -> ServerConnection:
        """Raises ModuleFailedError, and AgentUnavailableError where there is no container."""
        connection = cls(name, transport)
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.shield(connection._client)
        except BaseException as error:
            await connection.close()
            if isinstance(error, TimeoutError):
                raise connection._failed(f"it did not begin within {_START_S:g} s") from error
            raise
        return connection

    async def tools(self) -> list[dict[str, object]]:
        """`name`, `description` and `schema` of each. Raises ModuleFailedError."""
        client, tools, cursor = await self._client, list[Tool](), None
        with self._failing():
            for _ in range(_MOST_PAGES):
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None or len(tools) >= _MOST_TOOLS:
                    break
        return [
            {
                "name": tool.name,
                "description": (tool.description or "")[:_LONGEST_TEXT],
                "schema": tool.input_schema,
            }
            for tool in tools[:_MOST_TOOLS]
        ]

    async def call(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """As text. Raises ModuleFailedError."""
        client = await self._client
        with self._failing():
            answer = await client.call_tool(tool, dict(arguments))
        texts = [_text_of(block) for block in answer.content]
        if not any(texts) and answer.structured_content is not None:
            texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
        text = "\n\n".join(filter(None, texts))
        return ToolResult(text=text, is_error=answer.is_error is True)

    async def close(self) -> None:
        self._closing.set()
        if not self._client.done():
            self._life.cancel()
        await asyncio.wait([self._life])

    async def _live(self, transport: Transport) -> None:
        try:
            async with Client(
                transport,
                client_info=Implementation(name="parachuted", version="0"),
                read_timeout_seconds=_CALL_S,
                mode="legacy",
            ) as client:
                self._client.set_result(client)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001  a wall: what a server does ends nothing else
            if not self._client.done():
                reason = error if isinstance(error, AgentUnavailableError) else None
                self._client.set_exception(reason or self._failed(_why(error)))
            elif not self._closing.is_set():
                log.info("an MCP server ended", extra={"server": self._name, "reason": _why(error)})

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever the server's answer led to
            raise self._failed(_why(error)) from error

    def _failed(self, why: str) -> ModuleFailedError:
        return ModuleFailedError(f"the MCP server {self._name} failed: {why}")


@contextlib.asynccontextmanager
async def process_of(
    definition: ServerDefinition, env: Mapping[str, str], folder: Path, stderr: Path
) -> AsyncIterator[tuple[Any, Any]]:
    """A plain process, with your rights; what it says on stderr is in `stderr`."""
    started = StdioServerParameters(
        command=definition.command,
        args=list(definition.args),
        env={**env, **definition.env},
        cwd=folder,
    )
    with stderr.open("w") as log_file:
        async with stdio_client(started, log_file) as streams:
            yield streams


@contextlib.asynccontextmanager
async def address_of(definition: ServerDefinition) -> AsyncIterator[tuple[Any, Any]]:
    async with (
        httpx2.AsyncClient(headers=dict(definition.headers), timeout=_CALL_S) as client,
        streamable_http_client(definition.url, http_client=client) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def container_of(
    running: AbstractAsyncContextManager[Container],
) -> AsyncIterator[tuple[Any, Any]]:
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def listen() -> None:
        async with incoming:
            while line := await container.stdout.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue  # anything else was printed
                await incoming.send(SessionMessage(message))
            raise await ended()

    async def ended() -> ModuleFailedError:
        return ModuleFailedError(f"it ended with code {await container.wait()}")

    async def speak() -> None:
        async with outgoing:
            async for sent in outgoing:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await container.write(text.encode() + b"\n")
                except BrokenPipeError:
                    raise await ended() from None

    async with running as container, anyio.create_task_group() as group:
        group.start_soon(listen)
        group.start_soon(speak)
        yield read, write
        group.cancel_scope.cancel()


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = next(
            (inner for inner in error.exceptions if isinstance(inner, ModuleFailedError)),
            error.exceptions[0],
        )
    return (str(error) or type(error).__name__)[:_LONGEST_TEXT]


def _text_of(block: object) -> str:
    if isinstance(text := getattr(block, "text", None), str):
        return text
    if isinstance(text := getattr(getattr(block, "resource", None), "text", None), str):
        return text
    return f"({getattr(block, 'type', 'a part')}, which cannot be shown as text)"
