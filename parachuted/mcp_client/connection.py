"""Server connection: one MCP server that runs, and the requests that it answers.

A small part of the protocol is enough: its tools. What a server asks of us is refused.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.host_process import ModuleHostProcess
from parachuted.modules.hosting.isolation import IsolatedLaunch

log = logging.getLogger(__name__)

_VERSION: Final = "2025-06-18"
_NO_METHOD: Final = -32601
_LONGEST_LINE: Final = 8 << 20
_START_S: Final = 60.0
_CALL_S: Final = 300.0
_MOST_TOOLS, _MOST_PAGES = 200, 20
_LONGEST_TEXT: Final = 4_000


class ServerConnection:
    """Made by `open`; `close` leaves nothing of the program."""

    def __init__(self, name: str, process: ModuleHostProcess) -> None:
        self._name, self._process = name, process
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._number = 0
        loop = asyncio.get_running_loop()
        self._tasks = [  # `close` awaits them
            loop.create_task(self._read(), name=f"MCP server {name}"),
            loop.create_task(process.listen(self._said), name=f"words of MCP server {name}"),
        ]

    @classmethod
    async def open(cls, name: str, launch: IsolatedLaunch, mark: str) -> ServerConnection:
        """Start the program and greet it. Raises ModuleFailedError."""
        connection = cls(name, await ModuleHostProcess.start(launch, mark))
        try:
            await connection._ask(
                "initialize",
                {
                    "protocolVersion": _VERSION,
                    "capabilities": {},
                    "clientInfo": {"name": "parachuted", "version": "0"},
                },
                _START_S,
            )
            connection._send({"method": "notifications/initialized"})
        except BaseException:
            await connection.close()
            raise
        return connection

    async def tools(self) -> list[dict[str, object]]:
        """Its tools: `name`, `description` and `schema` of each. Raises ModuleFailedError."""
        found: list[dict[str, object]] = []
        cursor: object = None
        for _ in range(_MOST_PAGES):
            asked = {} if cursor is None else {"cursor": cursor}
            answer = await self._ask("tools/list", asked, _START_S)
            listed = answer.get("tools")
            for one in listed if isinstance(listed, list) else ():
                if isinstance(one, Mapping) and isinstance(one.get("name"), str):
                    schema = one.get("inputSchema")
                    found.append(
                        {
                            "name": one["name"],
                            "description": str(one.get("description") or "")[:_LONGEST_TEXT],
                            "schema": schema if isinstance(schema, dict) else {"type": "object"},
                        }
                    )
            cursor = answer.get("nextCursor")
            if cursor is None or len(found) >= _MOST_TOOLS:
                break
        return found[:_MOST_TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """What a tool answers as text, and whether it failed. Raises ModuleFailedError."""
        answer = await self._ask(
            "tools/call", {"name": tool, "arguments": dict(arguments)}, _CALL_S
        )
        content = answer.get("content")
        texts = [_text_of(one) for one in (content if isinstance(content, list) else ())]
        structured = answer.get("structuredContent")
        if not any(texts) and structured is not None:
            texts = [json.dumps(structured, ensure_ascii=False)]
        return "\n\n".join(filter(None, texts)), answer.get("isError") is True

    async def close(self) -> None:
        """End it."""
        await self._process.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._process.let_go()

    async def _ask(
        self, method: str, params: Mapping[str, object], within_s: float
    ) -> Mapping[str, Any]:
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        reading = self._tasks[0]
        try:
            async with asyncio.timeout(within_s):
                await asyncio.wait({answer, reading}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            self._process.kill(f"it did not answer {method} within {within_s:g} s")
            raise self._failed(self._process.reason) from error
        finally:
            self._waiting.pop(number, None)
        if not answer.done():
            raise self._failed(self._process.reason)
        found = answer.result()
        if "error" in found:
            problem = found["error"]
            said = problem.get("message") if isinstance(problem, Mapping) else problem
            raise self._failed(str(said)[:_LONGEST_TEXT])
        result = found.get("result")
        return result if isinstance(result, Mapping) else {}

    async def _read(self) -> None:
        async for line in self._process.lines(_LONGEST_LINE):
            with suppress(ValueError, RecursionError):  # anything else was printed
                message = json.loads(line)
                if isinstance(message, Mapping):
                    self._take(message)

    def _take(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        if "method" in message:
            if number is None:
                return
            if message["method"] == "ping":
                self._send({"id": number, "result": {}})
            else:
                refused = {"code": _NO_METHOD, "message": "this client does nothing for a server"}
                self._send({"id": number, "error": refused})
            return
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _send(self, message: Mapping[str, object]) -> None:
        self._process.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _said(self, line: str) -> None:
        log.info("an MCP server says", extra={"server": self._name, "said": line[:_LONGEST_TEXT]})

    def _failed(self, why: str) -> ModuleFailedError:
        return ModuleFailedError(f"the MCP server {self._name} failed: {why}")


def _text_of(block: object) -> str:
    if not isinstance(block, Mapping):
        return ""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"({block.get('type')}, which cannot be shown as text)"
