"""MCP servers of other people: approving them by their content, and calling their tools.

A server runs only as a person approved it: its definition and every file that it names are pinned,
by the mechanism that pins hooks, and its tools are those that it had then. A program runs in a
container without a network and without the vault, once for each run of an agent, or, where the
person trusts it, as a plain process; a server with a URL is asked over the network.
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
from typing import TYPE_CHECKING, Final

from parachuted.access.paths import is_hidden
from parachuted.access.private_parts import may_be_private
from parachuted.access.private_text import without_private
from parachuted.agents import ToolResult
from parachuted.agents.sandbox import ContainerProgram, Sandboxes
from parachuted.errors import (
    ActRefusedError,
    AgentUnavailableError,
    ConflictError,
    ParachuteError,
)
from parachuted.heavy import load_heavy
from parachuted.home_files.private import is_in
from parachuted.hooks import HookApprovals
from parachuted.mcp.definition import ServerDefinition
from parachuted.mcp.registry import KnownServer, ServerRegistry
from parachuted.runs.agent_tools import ServerTool

if TYPE_CHECKING:  # it brings mcp, which is loaded at its first use
    from parachuted.mcp.connection import ServerConnection

APPROVALS: Final = "mcp-approvals.json"
COMMAND: Final = "parachute mcp approve NAME"
_NO_CONTAINER: Final = (
    "the MCP server {0} runs in a container, and there is none here: {1}. Install and start "
    f"Docker, or trust it on the command line: `{COMMAND} --trusted`"
)
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_SECRET: Final = frozenset({".ssh", ".gnupg"})
_BETWEEN: Final = "__"
_LONGEST_NAME: Final = 64
_LONGEST_LINE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A server as it would be started: its words, the files that it names, what it may read, and
    what it is. One with a URL has none of these.
    """

    server: KnownServer
    definition: ServerDefinition
    words: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    runnable: tuple[Path, ...] = ()

    @property
    def pin(self) -> str:
        """What its approval is kept under."""
        return f"{self.server.source}:{self.server.name}"

    def mounted(self) -> tuple[Path, ...]:
        """What its container has besides the system's programs."""
        wanted = dict.fromkeys((*self.readable, *self.runnable))
        return tuple(path for path in wanted if not _is_of_system(path))

    def digest(self, *, is_trusted: bool) -> str:
        """What is pinned: the definition, which of its words are files that it gets, and whether
        it is trusted.
        """
        parts: list[object] = [self.definition.digest, self.words, list(map(str, self.files))]
        return _digest_of([*parts, "trusted"] if is_trusted else parts)


class McpServers:
    """`vault` is where relative paths of a definition begin; of the `home` no server reads, and of
    the vault the files that a definition names.
    """

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
        self._vault, self._home, self._env = vault.resolve(), home.resolve(), env

    def problem(self, server: KnownServer) -> str | None:
        """Why it does not run, or None. Blocks on the disk."""
        try:
            program = self._program(server)
        except ActRefusedError as error:
            return error.message
        pinned = program.digest(is_trusted=self.registry.is_trusted(server.name))
        return self._approvals.objection(program.pin, pinned, program.files)

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
        try:
            return _digest_of(sorted(self._pins(self._program(server)).items()))
        except ActRefusedError:
            return None

    async def approve(
        self, name: str, digest: str, *, is_here: bool = False, is_trusted: bool = False
    ) -> list[ServerTool]:
        """Let it run as it was shown with that `digest`, and its tools be called as they are now.
        Only who `is_here`, at the command line of this machine, lets it read files outside the
        vault, or run with the person's own rights (`is_trusted`).

        NotFoundError; ConflictError where it has changed since it was shown; ActRefusedError for
        one that cannot be read, ModuleFailedError for one that does not start: then it is not
        approved.
        """
        server = await asyncio.to_thread(self.registry.get, name)
        program = await asyncio.to_thread(self._program, server)
        pins = await asyncio.to_thread(self._pins, program)
        if _digest_of(sorted(pins.items())) != digest:
            raise ConflictError(
                f"{name} has changed since it was shown; look at it again in `parachute mcp "
                "servers`",
                base=b"",
                ours=b"",
                theirs=b"",
                is_known=False,
            )
        if is_trusted and (not is_here or program.definition.url):
            raise ActRefusedError(
                f"{name} is a program to be trusted only on the command line of this machine, with "
                f"`{COMMAND} --trusted`"
            )
        outside = await asyncio.to_thread(self._outside, program)
        if outside and not is_here:
            raise ActRefusedError(
                f"{name} names {', '.join(outside)}, outside the vault; it is approved on the "
                f"command line of this machine, with `{COMMAND}`"
            )
        tools = await self._listed(program, is_trusted=is_trusted)
        pins[program.pin] = program.digest(is_trusted=is_trusted)
        await asyncio.to_thread(self._approvals.approve, (), pins)
        await asyncio.to_thread(self.registry.keep_tools, name, tools, is_trusted=is_trusted)
        problem = await asyncio.to_thread(self.problem, server)
        if problem is not None:
            raise ActRefusedError(f"{name} is not approved: {problem}")
        return _tools(name, tools)

    async def look(self, name: str) -> list[ServerTool]:
        """Start an approved one, and list the tools that it has now.

        NotFoundError; ActRefusedError where it may not run; ModuleFailedError.
        """
        program, is_trusted = await asyncio.to_thread(self._ready, name)
        return _tools(name, await self._listed(program, is_trusted=is_trusted))

    def open(self) -> ServerCalls:
        """What one run calls them by."""
        return ServerCalls(self)

    async def connect(self, name: str) -> ServerConnection:
        """Start an approved one. Raises what `look` raises."""
        program, is_trusted = await asyncio.to_thread(self._ready, name)
        return await self._connect(program, is_trusted=is_trusted)

    def _pins(self, program: _Program) -> dict[str, str]:
        own = {program.pin: program.digest(is_trusted=False)}
        return own | self._approvals.digests(program.files)

    def _ready(self, name: str) -> tuple[_Program, bool]:
        server = self.registry.get(name)
        problem = self.problem(server)
        if problem is not None:
            raise ActRefusedError(f"the MCP server {name} does not run: {problem}")
        return self._program(server), self.registry.is_trusted(name)

    async def _listed(self, program: _Program, *, is_trusted: bool) -> list[dict[str, object]]:
        connection = await self._connect(program, is_trusted=is_trusted)
        try:
            return await connection.tools()
        finally:
            await connection.close()

    async def _connect(self, program: _Program, *, is_trusted: bool) -> ServerConnection:
        made = await load_heavy("mcp_client")
        name, definition = program.server.name, program.definition
        env = {"PATH": self._env.get("PATH", os.defpath)}
        if definition.url:
            transport = made.address_of(definition)
        elif is_trusted:
            logs = self._home / "logs"
            await asyncio.to_thread(logs.mkdir, mode=0o700, exist_ok=True)
            transport = made.process_of(definition, env, self._vault, logs / f"mcp-{name}.log")
        elif self._sandboxes is None:
            raise ActRefusedError(_NO_CONTAINER.format(name, "no Docker engine is used here"))
        else:
            env |= definition.env
            transport = made.container_of(
                self._sandboxes.run(
                    ContainerProgram(command=program.words, env=env, readable=program.mounted())
                )
            )
        try:
            connection: ServerConnection = await made.ServerConnection.open(name, transport)
        except AgentUnavailableError as error:
            raise ActRefusedError(_NO_CONTAINER.format(name, error.message)) from error
        return connection

    def _program(self, server: KnownServer) -> _Program:
        """Raises ActRefusedError for a program that is not there, or a folder that is kept out."""
        definition = server.definition
        if definition is None:
            raise ActRefusedError(server.problem)
        if definition.url:
            return _Program(server=server, definition=definition)
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
        runs = (found, *_interpreter_of(found))
        libraries = [library for program in runs for library in _libraries(program)]
        libraries = [one for one in libraries if not self._is_kept_out(one.resolve())]
        return _Program(
            server=server,
            definition=definition,
            words=tuple(words),
            files=tuple(files),
            readable=tuple(readable),
            runnable=(*libraries, *runs, *(program.resolve() for program in runs)),
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


def _digest_of(parts: Sequence[object]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


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


def _interpreter_of(script: Path) -> tuple[Path, ...]:
    """What a script's first line names."""
    with script.open("rb") as file:
        first = file.readline(_LONGEST_LINE).decode(errors="replace")
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    return tuple(path for path in map(Path, words[:1]) if path.is_absolute() and path.is_file())


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
