"""MCP servers of other people: approving them by their content, and calling their tools.

The definition and every file that it names are pinned, as hooks are, with the tools that it had
then. A program runs in a container without a network and without the vault, once for each run of an
agent, or, where the person trusts it, as a plain process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from parachuted.access.paths import is_hidden
from parachuted.agents.job import ToolResult
from parachuted.agents.sandbox import ContainerProgram, Sandboxes
from parachuted.errors import ActRefusedError, AgentUnavailableError, ParachuteError
from parachuted.home_files.private import is_in, real_path
from parachuted.hooks import HookApprovals
from parachuted.mcp.registry import (
    KnownServer,
    ServerDefinition,
    ServerRegistry,
    conflict,
    digest_of,
)
from parachuted.processes.heavy import load_heavy
from parachuted.runs.agent_tools import ServerTool

if TYPE_CHECKING:  # it brings mcp, which is loaded at its first use
    from parachuted.mcp.connection import ServerConnection

APPROVALS: Final = "mcp-approvals.json"
COMMAND: Final = "parachute mcp approve NAME"
_APPROVE: Final = "parachute mcp approve {0}"
_NO_CONTAINER: Final = (
    "the MCP server {0} runs in a container, and there is none here: {1}. Install and start "
    f"Docker, or trust it on the command line: `{_APPROVE} --trusted`"
)
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_BETWEEN: Final = "__"
_LONGEST_NAME: Final = 64
_LONGEST_LINE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A server as it would be started; one with a URL has only a definition."""

    server: KnownServer
    definition: ServerDefinition
    words: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    mounted: tuple[Path, ...] = ()

    @property
    def pin(self) -> str:
        """What its approval is kept under."""
        return f"{self.server.source}:{self.server.name}"

    def digest(self, *, is_trusted: bool) -> str:
        """The definition, which of its words are files that it gets, and whether it is trusted."""
        parts: list[object] = [self.definition.digest, self.words, list(map(str, self.files))]
        return digest_of([*parts, "trusted"] if is_trusted else parts)


class McpServers:
    """Relative paths of a definition begin at `vault`; of the `home` no server reads."""

    def __init__(
        self,
        registry: ServerRegistry,
        approvals: HookApprovals,
        sandboxes: Sandboxes | None,
        *,
        vault: Path,
        home: Path,
        env: Mapping[str, str],
    ) -> None:
        self.registry, self._approvals, self._sandboxes = registry, approvals, sandboxes
        self._vault, self._home, self._env = real_path(vault), real_path(home), env

    def problem(self, server: KnownServer) -> str | None:
        """Why it does not run, or None. Blocks on the disk."""
        try:
            program = self._program(server)
            self._check_files(program)
        except ActRefusedError as error:
            return error.message
        pinned = program.digest(is_trusted=server.is_trusted)
        return self._approvals.objection(program.pin, pinned, program.files)

    def tools(self) -> list[ServerTool]:
        """Of all servers that may run, as they were approved. Blocks on the disk."""
        runnable = (server for server in self.registry.all() if self.problem(server) is None)
        return [tool for server in runnable for tool in callable_tools(server)]

    def digest(self, server: KnownServer) -> str | None:
        """Names all that `approve` pins; None for one that cannot run. Blocks on the disk."""
        try:
            return digest_of(sorted(self._pins(self._program(server)).items()))
        except ActRefusedError:
            return None

    async def approve(
        self, name: str, digest: str, *, is_here: bool = False, is_trusted: bool = False
    ) -> list[ServerTool]:
        """Let it run as it was shown with that `digest`, with its tools as they are now. Only who
        `is_here`, at the command line of this machine, lets it run with the person's own rights
        (`is_trusted`).

        NotFoundError; ConflictError where it has changed since it was shown; ActRefusedError for
        one that cannot be read, ModuleFailedError for one that does not start: then it is not
        approved.
        """
        program, pins = await asyncio.to_thread(
            self._approvable, name, digest, is_here=is_here, is_trusted=is_trusted
        )
        tools = await self._listed(program)
        pins[program.pin] = program.digest(is_trusted=is_trusted)
        await asyncio.to_thread(self._approvals.approve, (), pins)
        await asyncio.to_thread(self.registry.keep_tools, name, tools, is_trusted=is_trusted)
        await asyncio.to_thread(self._runnable, name, "{} is not approved: {}")
        return callable_tools(replace(program.server, tools=tools))

    def _approvable(
        self, name: str, digest: str, *, is_here: bool, is_trusted: bool
    ) -> tuple[_Program, dict[str, str]]:
        server = replace(self.registry.get(name), is_trusted=is_trusted)
        program = self._program(server)
        self._check_files(program)
        pins = self._pins(program)
        if digest_of(sorted(pins.items())) != digest:
            raise conflict(
                f"{name} has changed since it was shown; look at it again in `parachute mcp "
                "servers`"
            )
        if is_trusted and (not is_here or program.definition.url):
            raise ActRefusedError(
                f"{name} is a program to be trusted only on the command line of this machine, with "
                f"`{_APPROVE.format(name)} --trusted`"
            )
        return program, pins

    async def look(self, name: str) -> list[ServerTool]:
        """The tools that it has now. NotFoundError; ActRefusedError; ModuleFailedError."""
        program = await asyncio.to_thread(self._runnable, name)
        return callable_tools(replace(program.server, tools=await self._listed(program)))

    def open(self) -> ServerCalls:
        return ServerCalls(self)

    async def connect(self, name: str) -> ServerConnection:
        """Raises what `look` raises."""
        program = await asyncio.to_thread(self._runnable, name)
        return await self._connect(program)

    def _pins(self, program: _Program) -> dict[str, str]:
        """The definition, and each file that it names, trusted or not."""
        own = {program.pin: program.digest(is_trusted=False)}
        return own | self._approvals.digests(program.files)

    def _runnable(self, name: str, why_not: str = "the MCP server {} does not run: {}") -> _Program:
        server = self.registry.get(name)
        problem = self.problem(server)
        if problem is not None:
            raise ActRefusedError(why_not.format(name, problem))
        return self._program(server)

    async def _listed(self, program: _Program) -> list[dict[str, object]]:
        connection = await self._connect(program)
        try:
            return await connection.tools()
        finally:
            await connection.close()

    async def _connect(self, program: _Program) -> ServerConnection:
        made = await load_heavy("mcp_client")
        name, definition = program.server.name, program.definition
        env = {"PATH": self._env.get("PATH", os.defpath)}
        if definition.url:
            transport = made.address_of(definition)
        elif program.server.is_trusted:
            logs = self._home / "logs"
            await asyncio.to_thread(logs.mkdir, mode=0o700, exist_ok=True)
            transport = made.process_of(definition, env, self._vault, logs / f"mcp-{name}.log")
        elif self._sandboxes is None:
            raise ActRefusedError(_NO_CONTAINER.format(name, "no Docker engine is used here"))
        else:
            contained = ContainerProgram(
                command=program.words, env=env | definition.env, readable=program.mounted
            )
            transport = made.container_of(self._sandboxes.run(contained))
        try:
            connection: ServerConnection = await made.ServerConnection.open(name, transport)
        except AgentUnavailableError as error:
            raise ActRefusedError(_NO_CONTAINER.format(name, error.message)) from error
        return connection

    def _program(self, server: KnownServer) -> _Program:
        """Raises ActRefusedError for a program that is not there, or a file that is not for it."""
        definition = server.definition
        if definition is None:
            raise ActRefusedError(server.problem)
        if definition.url:
            return _Program(server=server, definition=definition)
        command: str | Path = definition.command
        if "/" in definition.command:
            command = self._vault / Path(definition.command).expanduser()
        found = shutil.which(command, path=self._env.get("PATH"))
        if found is None:
            raise ActRefusedError(f"there is no program {definition.command[:200]}")
        program, named = Path(found), dict[str, Path]()
        for text in definition.args:
            is_path = text and not text.startswith("-") and "://" not in text
            path = self._vault / Path(text).expanduser()
            if is_path and path.is_file():
                named[text] = path
        runs = (program, *_interpreter_of(program))
        around = [folder for path in runs for folder in _python_around(path)]
        around = [folder for folder in around if not self._is_ours(folder.resolve())]
        wanted = (*named.values(), *around, *runs, *(path.resolve() for path in runs))
        own = [] if _is_of_system(program) else [program]
        return _Program(
            server=server,
            definition=definition,
            words=(str(found), *(str(named.get(text, text)) for text in definition.args)),
            files=(*own, *named.values()),
            mounted=tuple(path for path in dict.fromkeys(wanted) if not _is_of_system(path)),
        )

    def _check_files(self, program: _Program) -> None:
        """Raises ActRefusedError for what a container is not given: what is outside the vault, but
        for the program, and what is a note, hidden, or the home's.
        """
        for path in () if program.server.is_trusted else program.files:
            real = path.resolve()
            if is_in(real, self._home):
                raise ActRefusedError(
                    f"{path} is in the home of parachuted, which no MCP server reads"
                )
            if not is_in(real, self._vault):
                if str(path) == program.words[0]:
                    continue
                raise ActRefusedError(
                    f"{path} is outside the vault, so only a trusted one reads it"
                )
            inside = real.relative_to(self._vault).as_posix()
            if is_hidden(inside) or is_hidden(path.name) or real.suffix.lower() == ".md":
                raise ActRefusedError(f"{path} is a note or hidden, and no MCP server reads those")

    def _is_ours(self, path: Path) -> bool:
        """Whether the vault or the home is there, or around or below it."""
        return any(is_in(path, own) or is_in(own, path) for own in (self._home, self._vault))


class ServerCalls:
    """Those of one run: each server is started at its first call, and ends with the run."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._open: dict[str, ServerConnection] = {}
        self._starting = asyncio.Lock()

    async def call(self, server: str, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        try:
            return await (await self._connection(server)).call(tool, arguments)
        except ParachuteError as error:
            return ToolResult.of_error(error)

    async def close(self) -> None:
        for connection in self._open.values():
            await connection.close()
        self._open.clear()

    async def _connection(self, server: str) -> ServerConnection:
        async with self._starting:
            if server not in self._open:
                self._open[server] = await self._servers.connect(server)
            return self._open[server]


def callable_tools(server: KnownServer) -> list[ServerTool]:
    """As agents call them; one whose name is too long for a model has none."""
    return [
        ServerTool(
            name=name,
            server=server.name,
            tool=str(tool["name"]),
            description=f"(MCP server {server.name}) {tool['description']}",
            schema=schema,
        )
        for tool in server.tools
        if len(name := f"{server.name}{_BETWEEN}{tool['name']}") <= _LONGEST_NAME
        and isinstance(schema := tool.get("schema"), dict)
    ]


def _is_of_system(path: Path) -> bool:
    """Whether every program may read it anyway."""
    return any(is_in(path, Path(folder)) for folder in _SYSTEM)


def _interpreter_of(script: Path) -> tuple[Path, ...]:
    with script.open("rb") as file:
        first = file.readline(_LONGEST_LINE).decode(errors="replace")
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    return tuple(path for path in map(Path, words[:1]) if path.is_absolute() and path.is_file())


def _python_around(program: Path) -> list[Path]:
    """The folders of a Python and its libraries."""
    folders = (path.parent.parent for path in (program, program.resolve()))
    return [
        folder
        for folder in folders
        if (folder / "pyvenv.cfg").is_file() or any(folder.glob("lib/python3*/os.py"))
    ]
