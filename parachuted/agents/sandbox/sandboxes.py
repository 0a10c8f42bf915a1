"""Sandboxes: the containers of this daemon, one a run; files go in and come back as archives."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast
from uuid import uuid4

from parachuted.agents.job import RunFolder, RunSandbox
from parachuted.agents.sandbox.options import (
    OUTSIDE_IN_BOX,
    VAULT_IN_BOX,
    ContainerOwner,
    ContainerProgram,
    Image,
    container_user,
    find_bundled_cli,
    packaged_text,
    program_options,
    sandbox_options,
)
from parachuted.errors import AgentUnavailableError
from parachuted.processes.heavy import load_heavy
from parachuted.processes.own_thread import in_own_thread
from parachuted.processes.uninterrupted import run_uninterrupted

if TYPE_CHECKING:  # it brings docker, which is loaded at its first use
    from parachuted.agents.sandbox.engine import Engine

log = logging.getLogger(__name__)

_LINE_LIMIT = 32 * 1024 * 1024
_LOGGED_CHARS = 500
_HEADER, _STDOUT = 8, 1
_KILLED = 137
_OUT_OF_MEMORY = "it needed more memory than its sandbox has; `memory` in its sandbox raises that"
_NO_IMAGE = (
    "there is no image for sandboxes yet; `parachute sandbox build` makes it (with "
    "--offline: of this machine's own programs)"
)
_NO_CLI = (
    "Claude Code is not in the agent SDK's package for this system; agents with a shell cannot run "
    "here"
)


class _EngineStream(asyncio.StreamReaderProtocol):
    """Before each piece are eight bytes: of which output it is, and its length."""

    def __init__(
        self,
        stdout: asyncio.StreamReader,
        log_line: Callable[[bytes], None],
        ended: asyncio.Event,
    ) -> None:
        super().__init__(stdout)
        self._stdout, self._log_line, self._ended = stdout, log_line, ended
        self._rest = bytearray()

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= (end := _HEADER + int.from_bytes(self._rest[4:_HEADER], "big")):
            piece = bytes(self._rest[_HEADER:end])
            if self._rest[0] == _STDOUT:
                self._stdout.feed_data(piece)
            else:
                self._log_line(piece)
            del self._rest[:end]

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # however it was lost, the program has ended
        super().connection_lost(None)
        self._ended.set()


class Container:
    """`write` to its program's stdin, read its `stdout`, `wait` for its end, or `kill` it.

    `problem` says, for a person, why it was ended or what ended it.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self._engine = name, engine
        self.problem: str | None = None
        self.stdout = asyncio.StreamReader(limit=_LINE_LIMIT)
        self._making, self._is_wanted = threading.Lock(), True
        self._streams: list[socket.socket] = []
        self._program: str | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._has_ended_input = False
        self._ended, self._ending = asyncio.Event(), asyncio.Lock()
        self._code: int | None = None
        self._is_stopped = self._is_gone = False
        self._line = b""

    @property
    def is_ready(self) -> bool:
        is_open = self._writer is not None and not self._writer.is_closing()
        return is_open and not self._has_ended_input

    async def begin(self, options: Mapping[str, object]) -> None:
        """Its first process is the program. Raises AgentUnavailableError, and so do the others; a
        caller that is cancelled kills it.
        """
        await run_uninterrupted(self._make, options)
        await self._connect()

    async def hold(self, options: Mapping[str, object]) -> None:
        """Its first process is inside.py, and `run` starts the program."""
        await run_uninterrupted(self._make, options, is_held=True)

    async def run(self, command: Sequence[str]) -> None:
        await run_uninterrupted(self._start, command)
        await self._connect()

    async def fill(self, place: str, archive: Path) -> None:
        """Unpack an archive in a folder of it."""
        await in_own_thread(partial(self._engine.fill, self.name, place, archive))

    async def read(self, place: str, archive: Path) -> None:
        """Read a file or folder of it into an archive."""
        await in_own_thread(partial(self._engine.read, self.name, place, archive))

    async def write(self, data: bytes) -> None:
        """Waits while it does not read. BrokenPipeError when it has ended."""
        if not self.is_ready or self._writer is None:
            raise BrokenPipeError("the container has ended")
        self._writer.write(data)
        await self._writer.drain()

    async def end_input(self) -> None:
        if self.is_ready and self._writer is not None:
            self._has_ended_input = True
            self._writer.write_eof()

    async def wait(self) -> int:
        """The program's exit code."""
        await self._ended.wait()
        if self._code is None and not self._is_stopped:
            try:
                self._code, is_out_of_memory = await asyncio.to_thread(
                    self._engine.exit_code, self.name, self._program
                )
            except AgentUnavailableError:
                if not self._is_stopped:  # else it was removed while the engine was asked
                    raise
            else:
                if is_out_of_memory:
                    self.problem = self.problem or _OUT_OF_MEMORY
        return _KILLED if self._code is None else self._code

    async def stop(self) -> None:
        """Nothing in it runs on; its files can still be read."""
        async with self._ending:
            if not self._is_stopped:
                self._is_stopped = True
                self._disconnect()
                await in_own_thread(partial(self._engine.pause, self.name))

    async def kill(self) -> None:
        """End all that runs in it, and leave nothing of it."""
        self._is_stopped = True
        async with self._ending:
            if self._is_gone:
                return
            self._disconnect()  # the engine does not end one whose output is not read
            await in_own_thread(self._remove)
            self._is_gone = True
            for stream in self._streams:
                stream.close()

    def end_soon(self, problem: str) -> None:
        """End it from code that cannot wait; its streams end at once."""
        self.problem = self.problem or problem
        self._killing = asyncio.get_running_loop().create_task(
            self.kill(),
            name=f"the end of {self.name}",
            context=Context(),  # not that of the module whose call ends it
        )

    def _make(self, options: Mapping[str, object], *, is_held: bool = False) -> None:
        with self._making:
            if self._is_wanted:
                self._streams.append(self._engine.start(options, self.name, is_held=is_held))

    def _start(self, command: Sequence[str]) -> None:
        self._program, stream = self._engine.run(self.name, command)
        self._streams.append(stream)

    def _remove(self) -> None:
        """Also what is being made: a caller that is cancelled twice does not wait for that."""
        with self._making:
            self._is_wanted = False
            self._engine.remove(self.name)

    async def _connect(self) -> None:
        loop, stream = asyncio.get_running_loop(), self._streams[-1]
        stream.setblocking(False)  # noqa: FBT003  the standard library's
        transport, protocol = await loop.create_connection(
            lambda: _EngineStream(self.stdout, self._log, self._ended), sock=stream
        )
        self._writer = asyncio.StreamWriter(transport, protocol, self.stdout, loop)

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        else:
            self._ended.set()

    def _log(self, piece: bytes) -> None:
        *lines, rest = (self._line + piece).split(b"\n")
        self._line = rest[:_LOGGED_CHARS]
        for line in lines:
            text = line[:_LOGGED_CHARS].decode(errors="replace").strip()
            if text:
                log.info("the agent's container says: %s", text, extra={"container": self.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """Whether agents with a shell can run here.

    `problem` says what to install or to run; `engine` is the engine's version.
    """

    available: bool
    problem: str | None
    engine: str | None
    image: Literal["built", "host"] | None


class Sandboxes:
    """The containers of one vault. Everything that cannot be raises AgentUnavailableError.

    `label` is the vault's id, by which containers of an earlier life are known; `folder` holds the
    folders of runs and nothing else.
    """

    def __init__(self, *, folder: Path, env: Mapping[str, str], label: str) -> None:
        self.user = container_user()
        self._folder, self._env = folder, env
        self._owner = ContainerOwner(user=self.user, daemon=label, life=uuid4().hex)
        self._engine: Engine | None = None
        self._connecting = asyncio.Lock()
        self._in_use: set[Path] = set()

    async def status(self) -> SandboxStatus:
        try:
            engine, image = await self._look()
        except AgentUnavailableError as error:
            return SandboxStatus(available=False, problem=error.message, engine=None, image=None)
        problem = engine.problem or (_NO_IMAGE if image is None else None)
        if problem is None and await asyncio.to_thread(find_bundled_cli) is None:
            problem = _NO_CLI
        return SandboxStatus(
            available=problem is None,
            problem=problem,
            engine=engine.version,
            image=None if image is None else image.kind,
        )

    @asynccontextmanager
    async def prepare(self) -> AsyncIterator[RunFolder]:
        """A folder for a run, gone when it is left."""
        await self._ready()
        folder = RunFolder(self._folder / uuid4().hex[:12])
        self._in_use.add(folder.path)
        try:
            await run_uninterrupted(folder.make)
            yield folder
        finally:
            try:
                await in_own_thread(partial(shutil.rmtree, folder.path, ignore_errors=True))
            finally:
                self._in_use.discard(folder.path)

    @asynccontextmanager
    async def open(
        self, sandbox: RunSandbox, command: Sequence[str], env: Mapping[str, str], cli: Path
    ) -> AsyncIterator[Container]:
        """Run the command in a container, of which nothing is left afterwards; it and `env` use the
        container's paths.

        /vault and /outside are filled from the archives first; a run's next container goes on
        with what the one before returned. What a writable /vault holds when this is left
        without an error is in `returned`.
        """
        folder, (engine, image) = sandbox.folder, await self._ready()
        notes = folder.returned if folder.returned.exists() else folder.notes
        archives = {VAULT_IN_BOX: notes, OUTSIDE_IN_BOX: folder.outside}
        container = Container(f"parachute-sandbox-{folder.path.name}", engine)
        try:
            await container.hold(sandbox_options(sandbox, env, cli, image, self._owner))
            for place, archive in archives.items():
                if archive.exists():
                    await container.fill(place, archive)
            await container.run(command)
            yield container
            if sandbox.is_writable:
                await container.stop()
                await container.read(f"{VAULT_IN_BOX}/.", folder.returned)
        finally:
            await container.kill()

    @asynccontextmanager
    async def run(self, program: ContainerProgram) -> AsyncIterator[Container]:
        """A program of this machine in a container of its own; nothing of it is left afterwards."""
        engine = await self._connected()
        if engine.problem is not None:
            raise AgentUnavailableError(engine.problem)
        image = await asyncio.to_thread(engine.host_image)
        container = Container(f"parachute-program-{uuid4().hex[:12]}", engine)
        try:
            await container.begin(program_options(program, image, self._owner))
            yield container
        finally:
            await container.kill()

    async def build(self, *, offline: bool) -> AsyncGenerator[str, None]:
        engine = await self._connected()
        lines = engine.build_offline() if offline else engine.build(packaged_text("Dockerfile"))
        # a line may take minutes, and must not delay the daemon's end
        while (line := await in_own_thread(lambda: next(lines, None))) is not None:
            yield line

    def has_left_something(self) -> bool:
        """Whether an earlier life has left folders, and so perhaps containers. Asks no engine."""
        return bool(self._folders())

    async def sweep(self) -> int:
        """Remove what an earlier life left: containers (the answer is how many) and folders.

        Without an engine empty folders stay, by which the containers are looked for at the next
        start. Raises OSError when a folder cannot be removed.
        """
        strays: list[str] | None = None
        try:
            engine = await self._connected()
            strays = await asyncio.to_thread(engine.strays, self._owner)
            for container in strays:
                await asyncio.to_thread(engine.remove, container)
        except AgentUnavailableError:
            strays = None
        for folder in set(await asyncio.to_thread(self._folders)) - self._in_use:
            await asyncio.to_thread(shutil.rmtree, folder)
            if strays is None:
                folder.mkdir(mode=0o700)
        return len(strays or ())

    async def close(self) -> None:
        """Leave the engine. Runs end their own containers."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None

    async def _connected(self) -> Engine:
        async with self._connecting:
            if self._engine is None:
                module = await load_heavy("sandbox")
                self._engine = cast("Engine", await asyncio.to_thread(module.Engine, self._env))
            return self._engine

    async def _look(self) -> tuple[Engine, Image | None]:
        engine = await self._connected()
        try:
            return engine, await asyncio.to_thread(engine.image)
        except AgentUnavailableError:  # one that was restarted meanwhile is connected to again
            self._engine = None
        engine = await self._connected()
        return engine, await asyncio.to_thread(engine.image)

    async def _ready(self) -> tuple[Engine, Image]:
        engine, image = await self._look()
        if engine.problem is not None or image is None:
            raise AgentUnavailableError(engine.problem or _NO_IMAGE)
        return engine, image

    def _folders(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []
