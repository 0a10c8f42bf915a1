"""Agent tools: the tools of modules, and of other people's MCP servers, that an agent may call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from parachuted.access.caller import Caller
from parachuted.access.strangers import Taint
from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import ParachuteError

_LARGEST_ANSWER = 256 << 10


@runtime_checkable
class AnswerWithStatus(Protocol):
    """A module's answer that has a status of HTTP's, from 200 to 599, beside its body."""

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> object: ...


class DeclaredTool(Protocol):
    """`agent` empty: for all agents; `writes`: of no use to one that may not write."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, object]: ...

    @property
    def agent(self) -> str: ...

    @property
    def writes(self) -> bool: ...


CallTool = Callable[[str, str, Mapping[str, object]], Awaitable[object]]


def is_for(module: str, spec: DeclaredTool, agent: str) -> bool:
    return not spec.agent or agent == f"{module}/{spec.agent}"


def module_tools(
    offered: Iterable[tuple[str, DeclaredTool]],
    allowed: Sequence[str],
    own: str,
    taken: Iterable[str],
    call: CallTool,
) -> tuple[Tool, ...]:
    """The module's own first; one name from several other modules means none of them."""
    by_name: dict[str, list[tuple[str, DeclaredTool]]] = {}
    for module, spec in offered:
        by_name.setdefault(spec.name, []).append((module, spec))
    made, names = [], set(taken)
    for name in dict.fromkeys(allowed):
        found = [] if name in names else by_name.get(name, [])
        found = [one for one in found if one[0] == own] or found
        if len(found) == 1:
            made.append(_module_tool(*found[0], call))
    return tuple(made)


def _module_tool(module: str, spec: DeclaredTool, call: CallTool) -> Tool:
    async def called(arguments: Mapping[str, object]) -> ToolResult:
        try:
            answer = await call(module, spec.name, arguments)
        except ParachuteError as error:
            return ToolResult.of_error(error)
        failed = isinstance(answer, AnswerWithStatus) and answer.status >= 400  # noqa: PLR2004  as HTTP has it
        body = answer.body if isinstance(answer, AnswerWithStatus) else answer
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, indent=1)
        return ToolResult(text=_cut(text), is_error=failed)

    return Tool(
        name=spec.name,
        description=spec.description,
        schema=spec.schema,
        call=called,
        server=spec.agent or module,
    )


def _cut(text: str) -> str:
    if len(text) <= _LARGEST_ANSWER:
        return text
    return f"{text[:_LARGEST_ANSWER]}\n(cut: there are {len(text)} characters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTrust:
    """One that may not run is not trusted. `provides` names interfaces."""

    is_trusted: bool = True
    provides: tuple[str, ...] = ()


class ModuleTools(Protocol):
    """The running modules, to agents. `call_tool` raises NotFoundError."""

    def tools(self) -> Iterable[tuple[str, DeclaredTool]]: ...

    async def call_tool(
        self, module: str, tool: str, arguments: Mapping[str, object], caller: Caller
    ) -> object: ...

    def trust_of(self, module: str) -> ModuleTrust: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool of someone else's MCP server; agents call it `name`, its server `tool`."""

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, object]


class ServerToolCalls(Protocol):
    """How one run calls them: a failure is an answer too. `close` ends what the calls began."""

    async def call(self, server: str, tool: str, arguments: Mapping[str, object]) -> ToolResult: ...

    async def close(self) -> None: ...


class ServerTools(Protocol):
    """The tools of the MCP servers that a person approved. `tools` blocks on the disk."""

    def tools(self) -> Sequence[ServerTool]: ...

    def open(self) -> ServerToolCalls: ...


MCP_SERVERS = "mcp_servers"
"""Among the tools that a manifest asks for: those of all MCP servers that the person approves."""


def server_tools(
    offered: Iterable[ServerTool],
    allowed: Sequence[str],
    present: Iterable[Tool],
    calls: ServerToolCalls,
    taint: Taint,
) -> tuple[Tool, ...]:
    """Those whose names are allowed and free. What one answers is a stranger's text."""
    names = {tool.full_name for tool in present}
    made = (_server_tool(one, calls, taint) for one in offered if one.name in allowed)
    return tuple(tool for tool in made if tool.full_name not in names)


def _server_tool(tool: ServerTool, calls: ServerToolCalls, taint: Taint) -> Tool:
    async def called(arguments: Mapping[str, object]) -> ToolResult:
        answer = await calls.call(tool.server, tool.tool, arguments)
        taint.read(f"the MCP server {tool.server}")
        return replace(answer, text=_cut(answer.text))

    return Tool(
        name=tool.name,
        description=tool.description,
        schema=tool.schema,
        call=called,
        server=tool.server,
    )
