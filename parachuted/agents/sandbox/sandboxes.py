"""The containers of this daemon: one a run, on folders that were made for that run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    BUILT_IMAGE,
    HOST_IMAGE,
    ContainerOwner,
    ContainerProgram,
    Image,
    SandboxSlot,
    SandboxSpec,
    check_cli,
    container_options,
    program_options,
)
from parachuted.agents.sandbox.slots import (
    container_user,
    drop_slot,
    drop_tree,
    make_slot,
    name_slot,
    watch_disk,
)
from parachuted.errors import AgentUnavailableError
from parachuted.heavy import load_heavy
from parachuted.processes.own_thread import in_own_thread

if TYPE_CHECKING:  # it brings docker, which is loaded at its first use
    from parachuted.agents.sandbox.engine import Engine, LaunchedContainer


_USUAL = "/var/run/docker.sock"
_ANSWER_S = 1.0
_BEGIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProbe:
    is_there: bool
    has_image: bool


async def probe_engine(env: Mapping[str, str]) -> EngineProbe:
    host = env.get("DOCKER_HOST") or f"unix://{_USUAL}"
    if not host.startswith("unix:"):
        return EngineProbe(is_there=False, has_image=False)
    path = f"/{host.removeprefix('unix:').lstrip('/')}"
    statuses = [await _status(path, f"/images/{image}/json") for image in (BUILT_IMAGE, HOST_IMAGE)]
    return EngineProbe(
        is_there=any(status is not None for status in statuses), has_image=b"200" in statuses
    )


async def _status(path: str, url: str) -> bytes | None:
    """The engine's HTTP status; None if it does not answer."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(f"GET {url} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
                _, status, *_ = (await reader.readline()).split(b" ")
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return None
    return status


_UNSWEPT = "unswept"
_NO_IMAGE = (
    "there is no image for sandboxes yet; `parachute sandbox build` makes it (with "
    "--offline: of this machine's own programs)"
)
_ROOTLESS = (
    "the engine runs without root, where its users are others than this machine's; agents "
    "with a shell need one that runs as root"
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
    """The containers of one vault.

    `label` is the vault's id, by which those of an earlier life are known; `folder` holds the slots
    and nothing else; `most` is how many runs may have one at a time, and as many conversations,
    which wait for none of those. Everything that cannot be raises AgentUnavailableError.
    """

    def __init__(
        self,
        *,
        folder: Path,
        env: Mapping[str, str],
        label: str,
        most: int = 8,
    ) -> None:
        self._folder, self._env, self._most = folder, env, most
        self._owner = ContainerOwner(user=container_user(), daemon=label, life=uuid4().hex)
        self._engine: Engine | None = None
        self._connecting = asyncio.Lock()
        self._in_use: dict[Path, SandboxSlot] = {}
        self._of_conversations: set[Path] = set()

    @property
    def user(self) -> tuple[int, int]:
        """The user and group that own an agent's files, and that must own what it reads."""
        return self._owner.user

    async def status(self) -> SandboxStatus:
        try:
            engine = await self._connected()
            image = await asyncio.to_thread(engine.image)
        except AgentUnavailableError as error:
            self._engine = None
            return SandboxStatus(available=False, problem=error.message, engine=None, image=None)
        kind = None if image is None else image.kind
        problem = _objection(engine) or (_NO_IMAGE if image is None else None)
        return SandboxStatus(
            available=problem is None, problem=problem, engine=engine.version, image=kind
        )

    async def probe_engine(self) -> EngineProbe:
        """Whether an engine answers and has our image: cheap, for a page that is looked at every
        few seconds.
        """
        return await probe_engine(self._env)

    @asynccontextmanager
    async def prepare(self, *, is_conversation: bool = False) -> AsyncIterator[SandboxSlot]:
        """Folders for a run, gone when it is left."""
        await self._ready()
        conversations = len(self._of_conversations)
        alike = conversations if is_conversation else len(self._in_use) - conversations
        if alike >= self._most:
            raise AgentUnavailableError(
                f"{self._most} agents are at work in sandboxes already; try again when one of "
                "them has ended"
            )
        slot = name_slot(self._folder)
        self._in_use[slot.work] = slot
        if is_conversation:
            self._of_conversations.add(slot.work)
        try:
            await asyncio.to_thread(make_slot, slot)
            yield slot
        finally:
            await in_own_thread(partial(drop_slot, slot))
            self._of_conversations.discard(slot.work)
            del self._in_use[slot.work]

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Container]:
        """Run the command in a container on the folders of that slot; nothing of it is left
        afterwards.
        """
        slot = self._in_use.get(spec.sandbox.work)
        if slot is None or (spec.sandbox.home, spec.sandbox.sockets) != (slot.home, slot.sockets):
            raise AgentUnavailableError(
                "a box has the folders of one slot, and no others are ever mounted; ask `prepare` "
                "for one"
            )
        checked = replace(spec, cli=await asyncio.to_thread(check_cli, spec.cli))
        engine, image = await self._ready()
        options = container_options(checked, slot, image, self._owner)
        async with self._started(engine, options, f"parachute-sandbox-{slot.id}") as container:
            await _check(container, slot)
            watch = asyncio.get_running_loop().create_task(
                watch_disk(slot, container.end_soon), name="what a sandbox puts on the disk"
            )
            try:
                yield container
            finally:
                watch.cancel()

    @asynccontextmanager
    async def run(self, program: ContainerProgram) -> AsyncIterator[Container]:
        """Run a program of this machine in a container of its own; nothing of it is left
        afterwards.
        """
        engine = await self._connected()
        if (problem := _objection(engine)) is not None:
            raise AgentUnavailableError(problem)
        image = await asyncio.to_thread(engine.host_image)
        options = program_options(program, image, self._owner)
        name = f"parachute-program-{uuid4().hex[:12]}"
        async with self._started(engine, options, name) as container:
            yield container

    @asynccontextmanager
    async def _started(
        self, engine: Engine, options: Mapping[str, object], name: str
    ) -> AsyncIterator[Container]:
        launched = await _finished(partial(engine.start, options, name), engine)
        container = Container(
            launched.id,
            exit_code=partial(engine.exit_code, launched.id),
            remove=partial(engine.remove, launched.id),
        )
        try:
            await container.begin(launched.stream)
            yield container
        finally:
            await container.kill()

    async def build(
        self, *, offline: bool, dockerfile: str | None = None
    ) -> AsyncGenerator[str, None]:
        engine = await self._connected()
        lines = engine.build_offline() if offline else engine.build(dockerfile or dockerfile_text())
        while (
            line := await in_own_thread(lambda: next(lines, None))
        ) is not None:  # which may take minutes, and must not delay the daemon's end
            yield line

    def has_left_something(self) -> bool:
        """Whether an earlier life has left folders, and so perhaps containers.

        It reads the disk, and asks no engine.
        """
        return bool(self._folders())

    async def sweep(self) -> int:
        """Remove what an earlier life left: containers, and the folders of their slots.

        How many containers.

        Runs may begin meanwhile: what is theirs is asked after what there is. Without an engine
        none is removed, and a mark is left for the next time. Raises OSError when a folder cannot
        be removed.
        """
        found, was_asked = 0, False
        with suppress(AgentUnavailableError):
            engine = await self._connected()
            for container in await asyncio.to_thread(engine.strays, self._owner):
                await asyncio.to_thread(engine.remove, container)
                found += 1
            was_asked = True
        left = await asyncio.to_thread(self._folders)
        ours = {slot.id for slot in self._in_use.values()}
        await asyncio.to_thread(
            self._drop_folders,
            [folder for folder in left if folder.name not in ours],
            is_last=was_asked,
        )
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
                made: Engine = await asyncio.to_thread(module.Engine, self._env)
                engine = self._engine = made
            return engine

    async def _ready(self) -> tuple[Engine, Image]:
        engine = await self._connected()
        try:
            image = await asyncio.to_thread(engine.image)
        except (
            AgentUnavailableError
        ):  # an engine that was restarted meanwhile is connected to again
            self._engine = None
            engine = await self._connected()
            image = await asyncio.to_thread(engine.image)
        problem = _objection(engine)
        if image is None or problem is not None:
            raise AgentUnavailableError(problem or _NO_IMAGE)
        return engine, image

    def _folders(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []

    def _drop_folders(self, folders: list[Path], *, is_last: bool) -> None:
        for folder in folders:
            drop_tree(folder)
        if folders and not is_last:
            (self._folder / _UNSWEPT).mkdir(mode=0o700)


def dockerfile_text() -> str:
    return (files("parachuted.agents.sandbox") / "Dockerfile").read_text("utf-8")


async def _check(container: Container, slot: SandboxSlot) -> None:
    """Wait until the first process has started, and sees the folders of that slot."""
    try:
        async with asyncio.timeout(_BEGIN_S):
            mark = (await container.stdout.readline()).decode("ascii", "replace")
    except TimeoutError:
        mark = ""
    if not mark.endswith("\n"):
        reason = container.complaint or f"it printed nothing within {_BEGIN_S:.0f} s"
        raise AgentUnavailableError(f"the container did not begin: {reason}")
    if mark.strip() != slot.id:
        raise AgentUnavailableError(
            "the engine mounted other folders than those it was given; it must run on this "
            "machine, not in another"
        )


async def _finished(
    launching: Callable[[], LaunchedContainer], engine: Engine
) -> LaunchedContainer:
    """What was launched. A caller that is cancelled meanwhile leaves nothing of it."""
    started = asyncio.get_running_loop().run_in_executor(None, launching)
    try:
        return await asyncio.shield(started)
    except asyncio.CancelledError:
        with suppress(AgentUnavailableError):
            await asyncio.wait([started])
            launched = started.result()
            launched.stream.close()
            await in_own_thread(partial(engine.remove, launched.id))
        raise


def _objection(engine: Engine) -> str | None:
    if engine.is_rootless:
        return _ROOTLESS
    return (
        f"the engine has no {', '.join(engine.lacks)}, without which no agent runs a shell"
        if engine.lacks
        else None
    )
