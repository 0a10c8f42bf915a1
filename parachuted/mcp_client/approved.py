"""MCP servers of other people: approving them by their content, and calling their tools.

A server runs only as a person approved it: its definition and every file that it names are pinned,
by the mechanism that pins hooks, and its tools are those that it had then. It runs behind the
kernel's walls, without a network and without the vault, once for each run of an agent.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parachuted.access.paths import is_hidden
from parachuted.access.private_parts import may_be_private
from parachuted.access.private_text import without_private
from parachuted.agents import ToolResult
from parachuted.errors import ActRefusedError, ConflictError, ParachuteError
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
_SECRET: Final = frozenset({".ssh", ".gnupg"})
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
        isolation: IsolationFactory,
        *,
        vault: Path,
        home: Path,
        env: Mapping[str, str],
    ) -> None:
        self.registry, self._approvals, self._isolation = registry, approvals, isolation
        self._vault, self._home, self._env = vault.resolve(), home.resolve(), env

    def problem(self, server: KnownServer) -> str | None:
        """Why it does not run, or None. Blocks on the disk."""
        if server.definition is None:
            return server.problem
        try:
            program = self._program(server.definition)
        except ActRefusedError as error:
            return error.message
        pinned = _digest(server.definition, program)
        return self._approvals.objection(_pin(server), pinned, program.files)

    def tools(self) -> list[ServerTool]:
        """The tools of all servers that may run, as they were approved. Blocks on the disk."""
        found: list[ServerTool] = []
        for server in self.registry.all():
            if self.problem(server) is None:
                found += _tools(server.name, self.registry.tools_of(server.name))
        return found

    def digest(self, server: KnownServer) -> str | None:
        """What names all that `approve` pins: its definition, and each file that this names; None
        for one that cannot run. Blocks on the disk.
        """
        if server.definition is None:
            return None
        try:
            program = self._program(server.definition)
        except ActRefusedError:
            return None
        return _digest_of(self._pins(server, server.definition, program))

    async def approve(self, name: str, digest: str, *, is_here: bool = False) -> list[ServerTool]:
        """Let it run as it was shown with that `digest`, and its tools be called as they are now.
        Only who `is_here`, at the command line of this machine, lets it read files outside the
        vault.

        NotFoundError; ConflictError where it has changed since it was shown; ActRefusedError for
        one that cannot be read, ModuleFailedError for one that does not start: then it is not
        approved.
        """
        server = await asyncio.to_thread(self.registry.get, name)
        if server.definition is None:
            raise ActRefusedError(f"{name} cannot be approved: {server.problem}")
        program = await asyncio.to_thread(self._program, server.definition)
        pins = await asyncio.to_thread(self._pins, server, server.definition, program)
        if _digest_of(pins) != digest:
            raise ConflictError(
                f"{name} has changed since it was shown; look at it again in `parachute mcp "
                "servers`",
                base=b"",
                ours=b"",
                theirs=b"",
                is_known=False,
            )
        outside = await asyncio.to_thread(self._outside, program)
        if outside and not is_here:
            raise ActRefusedError(
                f"{name} names {', '.join(outside)}, outside the vault; it is approved on the "
                f"command line of this machine, with `{COMMAND}`"
            )
        tools = await self._listed(server.name, server.definition, program)
        await asyncio.to_thread(self._approvals.approve, (), pins)
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

    def _pins(
        self, server: KnownServer, definition: ServerDefinition, program: _Program
    ) -> dict[str, str]:
        own = {_pin(server): _digest(definition, program)}
        return own | self._approvals.digests(program.files)

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
        launch = await self._isolation.hold_program(
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
        self._refuse_kept_out(found)
        if not _is_of_system(found):
            files.append(found)
        for text in definition.args:
            path = self._vault / Path(text).expanduser() if _may_be_path(text) else None
            if path is None or not path.exists():
                words.append(text)
                continue
            self._refuse_kept_out(path)
            words.append(str(path))
            readable.append(path)
            files.append(path)
        libraries = [one for one in _libraries(found) if not self._is_kept_out(one.resolve())]
        return _Program(
            words=tuple(words),
            files=tuple(files),
            readable=tuple(readable),
            runnable=(*libraries, found, found.resolve()),
        )

    def _refuse_kept_out(self, path: Path) -> None:
        """A file is what was approved; a folder may hold more tomorrow, and some files are for no
        server.
        """
        real = path.resolve()
        if self._holds_kept_out(real) or is_in(real, self._home):
            raise ActRefusedError(
                f"{path} is, or holds, the vault or the home of parachuted, which no MCP server "
                "reads"
            )
        if not real.is_file():
            raise ActRefusedError(f"{path} is not a file; an MCP server reads only single files")
        if is_in(real, self._vault):
            inside = real.relative_to(self._vault).as_posix()
            if is_hidden(inside) or is_hidden(path.name) or _holds_private(real):
                raise ActRefusedError(
                    f"{path} is hidden or private, and no MCP server reads what is"
                )
        elif not _SECRET.isdisjoint(real.parts):
            raise ActRefusedError(f"{path} lies among keys, which no MCP server reads")

    def _outside(self, program: _Program) -> list[str]:
        """The files that it names and that lie neither in the vault nor among the system's."""
        real = [one.resolve() for one in program.readable]
        return [str(one) for one in real if not _is_of_system(one) and not is_in(one, self._vault)]

    def _is_kept_out(self, path: Path) -> bool:
        return self._holds_kept_out(path) or any(
            is_in(path, kept) for kept in (self._home, self._vault)
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


def _digest_of(pins: Mapping[str, str]) -> str:
    said = json.dumps(sorted(pins.items()))
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"


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


def _is_of_system(path: Path) -> bool:
    """Whether every program may read it anyway."""
    return str(path).startswith(tuple(f"{one}/" for one in _SYSTEM))


def _holds_private(file: Path) -> bool:
    """Whether a note, or a part of it, is for no agent."""
    data = file.read_bytes() if file.suffix.lower() == ".md" else b""
    return may_be_private(data) and without_private(data) != data


def _digest(definition: ServerDefinition, program: _Program) -> str:
    """What is pinned: the definition, and which of its words are files that it gets."""
    said = json.dumps([definition.digest, program.words, list(map(str, program.files))])
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"


def _libraries(program: Path) -> list[Path]:
    """What a Python that is not the system's reads besides itself: its own libraries, and those of
    its virtual environment.
    """
    found: list[Path] = []
    for one in (program, program.with_name("python")):
        for python in (one, one.resolve()):
            prefix = python.parent.parent
            if python.parent.name != "bin" or not python.is_file():
                continue
            libraries = sorted(prefix.glob("lib/python3*"))
            if (prefix / "pyvenv.cfg").is_file():
                found += [prefix / "pyvenv.cfg", *libraries]
            elif python.name.startswith("python"):
                found += [each for each in libraries if (each / "os.py").is_file()]
                found += [python, *prefix.glob("lib/libpython3*")]
    return found
