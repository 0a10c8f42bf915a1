"""MCP servers of other people: approving them by their content, and calling their tools.

A server runs only as a person approved it: its definition and every file that it names are pinned,
by the mechanism that pins hooks, and its tools are those that it had then. It runs behind the
kernel's walls, without a network and without the vault, once for each run of an agent.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parachuted.agents import ToolResult
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.hooks import HookApprovals
from parachuted.mcp_client.connection import ServerConnection
from parachuted.mcp_client.definition import ServerDefinition
from parachuted.mcp_client.registry import KnownServer, ServerRegistry
from parachuted.modules.hosting.host_process import new_mark
from parachuted.modules.hosting.isolation import IsolationFactory
from parachuted.private import is_in
from parachuted.runs.agent_tools import ServerTool

APPROVALS: Final = "mcp-approvals.json"
COMMAND: Final = "parachute mcp approve NAME"
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_BETWEEN: Final = "__"
_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """What is started: its words, the files that it names, and what it may read and run."""

    words: tuple[str, ...]
    files: tuple[Path, ...]
    readable: tuple[Path, ...]
    runnable: tuple[Path, ...]


class McpServers:
    """`vault` is where relative paths of a definition begin; of the `home` no server reads, and of
    the vault the files that a definition names.
    """

    def __init__(
        self,
        registry: ServerRegistry,
        approvals: HookApprovals,
        cages: IsolationFactory,
        *,
        vault: Path,
        home: Path,
        env: Mapping[str, str],
    ) -> None:
        self.registry, self._approvals, self._cages = registry, approvals, cages
        self._vault, self._home, self._env = vault.resolve(), home.resolve(), env

    def problem(self, server: KnownServer) -> str | None:
        """Why it does not run, or None. Blocks on the disk."""
        if server.definition is None:
            return server.problem
        try:
            program = self._program(server.definition)
        except ActRefusedError as error:
            return error.message
        name = _pin(server)
        return self._approvals.objection(name, server.definition.digest, program.files)

    def tools(self) -> list[ServerTool]:
        """The tools of all servers that may run, as they were approved. Blocks on the disk."""
        found: list[ServerTool] = []
        for server in self.registry.all():
            if self.problem(server) is None:
                found += _tools(server.name, self.registry.tools_of(server.name))
        return found

    async def approve(self, name: str) -> list[ServerTool]:
        """Let it run as it is now, and its tools be called as they are now.

        NotFoundError; ActRefusedError for one that cannot be read, ModuleFailedError for one that
        does not start: then it is not approved.
        """
        server = await asyncio.to_thread(self.registry.get, name)
        if server.definition is None:
            raise ActRefusedError(f"{name} cannot be approved: {server.problem}")
        program = await asyncio.to_thread(self._program, server.definition)
        tools = await self._listed(server.name, server.definition, program)
        pins = {_pin(server): server.definition.digest}
        await asyncio.to_thread(self._approvals.approve, program.files, pins)
        await asyncio.to_thread(self.registry.keep_tools, name, tools)
        problem = await asyncio.to_thread(self.problem, server)
        if problem is not None:
            raise ActRefusedError(f"{name} is not approved: {problem}")
        return _tools(name, tools)

    async def look(self, name: str) -> list[ServerTool]:
        """Start an approved one, and list the tools that it has now.

        NotFoundError; ActRefusedError where it may not run; ModuleFailedError.
        """
        definition, program = await asyncio.to_thread(self._ready, name)
        return _tools(name, await self._listed(name, definition, program))

    def open(self) -> ServerCalls:
        """What one run calls them by."""
        return ServerCalls(self)

    async def connect(self, name: str) -> ServerConnection:
        """Start an approved one. Raises what `look` raises."""
        definition, program = await asyncio.to_thread(self._ready, name)
        return await self._connect(name, definition, program)

    def _ready(self, name: str) -> tuple[ServerDefinition, _Program]:
        server = self.registry.get(name)
        problem = self.problem(server)
        if problem is not None or server.definition is None:
            raise ActRefusedError(f"the MCP server {name} does not run: {problem}")
        return server.definition, self._program(server.definition)

    async def _listed(
        self, name: str, definition: ServerDefinition, program: _Program
    ) -> list[dict[str, object]]:
        connection = await self._connect(name, definition, program)
        try:
            return await connection.tools()
        finally:
            await connection.close()

    async def _connect(
        self, name: str, definition: ServerDefinition, program: _Program
    ) -> ServerConnection:
        mark = new_mark()
        path = self._env.get("PATH", os.defpath)
        launch = await self._cages.hold_program(
            program.words,
            mark,
            env={"PATH": path, **definition.env},
            runnable=program.runnable,
            readable=program.readable,
        )
        return await ServerConnection.open(name, launch, mark)

    def _program(self, definition: ServerDefinition) -> _Program:
        """Raises ActRefusedError for a program that is not there, or a folder that is kept out."""
        named = Path(definition.command).expanduser()
        if "/" in definition.command:
            found: Path | None = self._vault / named
        else:
            which = shutil.which(definition.command, path=self._env.get("PATH"))
            found = Path(which) if which else None
        if found is None or not found.is_file():
            raise ActRefusedError(f"there is no program {definition.command[:200]}")
        files, readable, words = [], [], [str(found)]
        if "/" in definition.command and not str(found).startswith(
            tuple(f"{one}/" for one in _SYSTEM)
        ):
            files.append(found)
        for text in definition.args:
            path = self._vault / Path(text).expanduser() if _may_be_path(text) else None
            if path is None or not path.exists():
                words.append(text)
                continue
            self._refuse_kept_out(path)
            words.append(str(path))
            readable.append(path)
            files += [path] if path.is_file() else []
        runnable = [one for one in _prefixes(found) if not self._holds_kept_out(one)]
        return _Program(
            words=tuple(words),
            files=tuple(files),
            readable=tuple(readable),
            runnable=(*runnable, found, found.resolve()),
        )

    def _refuse_kept_out(self, path: Path) -> None:
        """A file is what was approved; a folder of notes, or of keys, is more than that."""
        real = path.resolve()
        is_kept_out = self._holds_kept_out(real) or is_in(real, self._home)
        if is_kept_out or (path.is_dir() and is_in(real, self._vault)):
            raise ActRefusedError(
                f"{path} is, or holds, the vault or the home of parachuted, which no MCP server "
                "reads"
            )

    def _holds_kept_out(self, path: Path) -> bool:
        return any(is_in(kept, path.resolve()) for kept in (self._home, self._vault))


class ServerCalls:
    """The servers that one run calls: each is started at its first call, and ends with the run."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._open: dict[str, ServerConnection] = {}
        self._starting = asyncio.Lock()

    async def call(self, server: str, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """What the tool answers; a failure is an answer too."""
        try:
            connection = await self._connection(server)
            text, is_error = await connection.call(tool, arguments)
        except ParachuteError as error:
            return ToolResult.of_error(error)
        return ToolResult(text=text, is_error=is_error)

    async def close(self) -> None:
        """End them all."""
        for connection in self._open.values():
            await connection.close()
        self._open.clear()

    async def _connection(self, server: str) -> ServerConnection:
        async with self._starting:
            if server not in self._open:
                self._open[server] = await self._servers.connect(server)
            return self._open[server]


def _pin(server: KnownServer) -> str:
    return f"{server.source}:{server.name}"


def _tools(server: str, tools: Sequence[Mapping[str, object]]) -> list[ServerTool]:
    """As agents call them; one whose name is too long for a model has none."""
    return [
        ServerTool(
            name=name,
            server=server,
            tool=str(one["name"]),
            description=f"(MCP server {server}) {one['description']}",
            schema=schema,
        )
        for one in tools
        if len(name := f"{server}{_BETWEEN}{one['name']}") <= _LONGEST_NAME
        and isinstance(schema := one.get("schema"), dict)
    ]


def _may_be_path(text: str) -> bool:
    return bool(text) and not text.startswith("-") and "://" not in text


def _prefixes(program: Path) -> list[Path]:
    """Where the rest of an installed program lies: beside its `bin`, for the name and for what it
    is a link to.
    """
    found = [one.parent.parent for one in (program, program.resolve()) if one.parent.name == "bin"]
    return [one for one in found if len(one.parts) > 2 and one != Path.home()]  # noqa: PLR2004  below the root
