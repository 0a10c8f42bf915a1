"""Sandboxes: the containers of this daemon, one a run; files go in and come back as archives."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast
from uuid import uuid4

from parachuted.agents.job import RunFolder
from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    MARK,
    OUTSIDE_IN_BOX,
    VAULT_IN_BOX,
    ContainerOwner,
    ContainerProgram,
    Image,
    SandboxSpec,
    container_options,
    container_user,
    find_bundled_cli,
    packaged_text,
    program_options,
)
from parachuted.errors import AgentUnavailableError
from parachuted.processes.heavy import load_heavy
from parachuted.processes.own_thread import in_own_thread
from parachuted.processes.uninterrupted import run_uninterrupted

if TYPE_CHECKING:  # it brings docker, which is loaded at its first use
    from parachuted.agents.sandbox.engine import Engine

_BEGIN_S = 10.0
_NO_IMAGE = (
    "there is no image for sandboxes yet; `parachute sandbox build` makes it (with "
    "--offline: of this machine's own programs)"
)
_NO_CLI = (
    "Claude Code is not in the agent SDK's package for this system; agents with a shell cannot run "
    "here"
)


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
        self._in_use: set[RunFolder] = set()

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
        self._in_use.add(folder)
        try:
            await run_uninterrupted(make_folder, folder)
            yield folder
        finally:
            try:
                await in_own_thread(partial(shutil.rmtree, folder.path, ignore_errors=True))
            finally:
                self._in_use.discard(folder)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Container]:
        """Run the command in a container, of which nothing is left afterwards.

        /vault and /outside are filled from the archives first; a run's next container goes on
        with what the one before returned. What a writable /vault holds when this is left
        without an error is in `returned`.
        """
        folder = spec.sandbox.folder
        if folder not in self._in_use:
            raise AgentUnavailableError(
                "a container has the folder of one run, and no other is ever mounted; ask "
                "`prepare` for one"
            )
        engine, image = await self._ready()
        options = container_options(spec, image, self._owner)
        name = f"parachute-sandbox-{folder.path.name}"
        notes = folder.returned if folder.returned.exists() else folder.notes
        archives = {VAULT_IN_BOX: notes, OUTSIDE_IN_BOX: folder.outside}
        made = Container(name, engine, tells_its_end=True)
        async with _started(made, options) as container:
            await _check(container, folder)
            for place, archive in archives.items():
                if archive.exists():
                    await container.fill(place, archive)
            try:
                await container.write(b"\n")  # for which the first process waits
            except BrokenPipeError as error:
                raise AgentUnavailableError("the container ended before it began") from error
            yield container
            if spec.sandbox.is_writable:
                await container.stop()
                await container.read(f"{VAULT_IN_BOX}/.", folder.returned)

    @asynccontextmanager
    async def run(self, program: ContainerProgram) -> AsyncIterator[Container]:
        """A program of this machine in a container of its own; nothing of it is left afterwards."""
        engine = await self._connected()
        if engine.problem is not None:
            raise AgentUnavailableError(engine.problem)
        image = await asyncio.to_thread(engine.host_image)
        options = program_options(program, image, self._owner)
        name = f"parachute-program-{uuid4().hex[:12]}"
        async with _started(Container(name, engine), options) as container:
            yield container

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

        Without an engine an empty folder is left, so that its containers are looked for the next
        time. Raises OSError when a folder cannot be removed.
        """
        found, was_asked = 0, False
        with suppress(AgentUnavailableError):
            engine = await self._connected()
            for container in await asyncio.to_thread(engine.strays, self._owner):
                await asyncio.to_thread(engine.remove, container)
                found += 1
            was_asked = True
        left = await asyncio.to_thread(self._folders)
        ours = {folder.path for folder in self._in_use}
        for folder in left:
            if folder not in ours:
                await asyncio.to_thread(shutil.rmtree, folder)
                if not was_asked:
                    folder.mkdir(mode=0o700)
        return found

    async def close(self) -> None:
        """Leave the engine. Runs end their own containers."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None

    async def _connected(self) -> Engine:
        async with self._connecting:
            engine = self._engine
            if engine is None:
                module = await load_heavy("sandbox")
                engine = cast("Engine", await asyncio.to_thread(module.Engine, self._env))
            self._engine = engine
            return engine

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


@asynccontextmanager
async def _started(container: Container, options: Mapping[str, object]) -> AsyncIterator[Container]:
    try:
        await container.begin(options)
        yield container
    finally:
        await container.kill()


async def _check(container: Container, folder: RunFolder) -> None:
    """Wait until the first process has started, and sees the sockets of that run."""
    mark = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(_BEGIN_S):
            mark = await container.stdout.readline()
    if not mark.endswith(b"\n"):
        reason = container.complaint or f"it printed nothing within {_BEGIN_S:.0f} s"
        raise AgentUnavailableError(f"the container did not begin: {reason}")
    if mark.strip() != folder.path.name.encode():
        raise AgentUnavailableError(
            "the engine mounted another folder than the one it was given; it must run on this "
            "machine, not in another"
        )


def make_folder(folder: RunFolder) -> None:
    """Only this user can come near it; the sockets are readable in the container."""
    folder.path.mkdir(mode=0o700, parents=True)
    folder.sockets.mkdir()
    (folder.sockets / MARK).write_text(folder.path.name, "ascii")
    folder.sockets.chmod(0o755)
    (folder.sockets / MARK).chmod(0o444)
