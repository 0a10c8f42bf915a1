"""The containers of this daemon.

A slot is reserved before a run, with a container already starting on it. Each serves one run, and
the next one of the same shape is started ahead.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    ContainerShape,
    Image,
    SandboxSlot,
    SandboxSpec,
    check_cli,
    find_cli,
    make_frame,
)
from parachuted.agents.sandbox.slots import (
    DiskWatch,
    container_user,
    drop_slot,
    drop_tree,
    make_slot,
    name_slot,
)
from parachuted.errors import AgentUnavailableError
from parachuted.heavy import load_heavy
from parachuted.processes.own_thread import in_own_thread

if TYPE_CHECKING:  # it brings docker, which is loaded at its first use
    from parachuted.agents.sandbox.engine import Engine, LaunchedContainer


from parachuted.agents.sandbox.options import BUILT_IMAGE, HOST_IMAGE

_USUAL = "/var/run/docker.sock"
_ANSWER_S = 1.0


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


_THREADS = 8
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


@dataclass(slots=True, kw_only=True, eq=False)
class _PreparedSlot:
    """A slot and the container that is starting on it."""

    slot: SandboxSlot
    shape: ContainerShape | None
    image: Image
    engine: Engine
    start: Future[LaunchedContainer] | None = None
    is_conversation: bool = False


class Sandboxes:
    """The containers of one vault.

    `label` is the vault's id, by which those of an earlier life are known; `folder` holds the slots
    and nothing else; `most` is how many runs may have one at a time, and as many conversations,
    which wait for none of those, `warm_s` how long one that was
    started ahead waits for a run, in seconds. Everything that cannot be raises
    AgentUnavailableError.
    """

    def __init__(
        self,
        *,
        folder: Path,
        env: Mapping[str, str],
        label: str,
        most: int = 8,
        cli: Path | None = None,
        is_pooled: bool = True,
        warm_s: float = 900.0,
    ) -> None:
        self._folder, self._env, self._label, self._most = folder, env, label, most
        self._cli = cli or find_cli()
        self._is_pooled = is_pooled
        self._engine: Engine | None = None
        self._connecting = asyncio.Lock()
        self._prepared: dict[Path, _PreparedSlot] = {}
        self._warm: _PreparedSlot | None = None
        self._warm_s = warm_s
        self._tiring: asyncio.TimerHandle | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sandbox")
        self._is_closed = False

    @property
    def user(self) -> tuple[int, int]:
        """The user and group that own an agent's files, and that must own what it reads."""
        return container_user()

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
    async def prepare(
        self,
        config: SandboxConfig | None = None,
        *,
        is_writable: bool = True,
        is_conversation: bool = False,
    ) -> AsyncIterator[SandboxSlot]:
        """Folders for a run, gone when it is left.

        A container starts on them while they are filled, or has already done so.
        """
        engine, image = await self._ready()
        alike = [one for one in self._prepared.values() if one.is_conversation == is_conversation]
        if len(alike) >= self._most:
            raise AgentUnavailableError(
                f"{self._most} agents are at work in sandboxes already; try again when one of "
                "them has ended"
            )
        shape = (
            None
            if self._cli is None
            else ContainerShape(
                config=config or SandboxConfig(), is_writable=is_writable, cli=self._cli
            )
        )
        prepared = self._take_warm(shape, image) or _PreparedSlot(
            slot=name_slot(self._folder), shape=shape, image=image, engine=engine
        )
        prepared.is_conversation = is_conversation
        self._prepared[prepared.slot.work] = prepared
        try:
            if prepared.start is None:
                await asyncio.to_thread(make_slot, prepared.slot)
                self._begin(prepared)
            yield prepared.slot
        finally:
            del self._prepared[prepared.slot.work]
            await self._end(prepared)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Container]:
        """Run the command in the container of the sandbox's slot; nothing of it is left
        afterwards.
        """
        prepared = self._prepared.get(spec.sandbox.work)
        if prepared is None or (spec.sandbox.home, spec.sockets) != (
            prepared.slot.home,
            prepared.slot.sockets,
        ):
            raise AgentUnavailableError(
                "a box has the folders of one slot, and no others are ever mounted; ask `prepare` "
                "for one"
            )
        shape = ContainerShape(
            config=spec.sandbox.config,
            is_writable=spec.sandbox.is_writable,
            cli=await asyncio.to_thread(check_cli, spec.cli),
        )
        launched = await self._launched(prepared, shape)
        engine = prepared.engine
        container = Container(
            launched.id,
            exit_code=partial(engine.exit_code, launched.id),
            remove=partial(engine.remove, launched.id),
        )
        watch = DiskWatch(prepared.slot, container.end_soon)
        try:
            await container.begin(launched.stream, make_frame(spec))
            watch.start()
            yield container
        finally:
            watch.stop()
            await container.kill()
            self._keep_warm(shape, engine)

    async def build(
        self, *, offline: bool, dockerfile: str | None = None
    ) -> AsyncGenerator[str, None]:
        engine = await self._connected()
        lines = engine.build_offline() if offline else engine.build(dockerfile or dockerfile_text())
        while (
            line := await in_own_thread(lambda: next(lines, None))
        ) is not None:  # which may take minutes, and must not delay the daemon's end
            yield line
        self._drop_warm()

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
            for container, slot in (await asyncio.to_thread(engine.strays, self._label)).items():
                if slot not in self._slots():
                    await asyncio.to_thread(engine.remove, container)
                    found += 1
            was_asked = True
        left = await asyncio.to_thread(self._folders)
        ours = self._slots()
        await asyncio.to_thread(
            self._drop_folders,
            [folder for folder in left if folder.name not in ours],
            is_last=was_asked,
        )
        return found

    async def close(self) -> None:
        """End what is started ahead. Runs end their own."""
        self._is_closed = True
        self._drop_warm()
        await asyncio.to_thread(self._threads.shutdown)
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

    def _begin(self, prepared: _PreparedSlot, *, makes_folders: bool = False) -> None:
        if prepared.shape is None:
            return
        prepared.start = self._threads.submit(
            _launch,
            prepared,
            prepared.shape,
            user=self.user,
            daemon=self._label,
            makes_folders=makes_folders,
        )

    async def _launched(self, prepared: _PreparedSlot, shape: ContainerShape) -> LaunchedContainer:
        """The container started ahead on the slot, if it matches and is alive; else a new one."""
        if prepared.start is not None:
            with suppress(AgentUnavailableError):
                launched = await _started(prepared)
                if prepared.shape == shape and _is_alive(launched.stream):
                    return launched
                launched.stream.close()
                await in_own_thread(partial(prepared.engine.remove, launched.id))
        prepared.shape = shape
        prepared.engine, prepared.image = await self._ready()
        self._begin(prepared)
        return await _started(prepared)

    def _take_warm(self, shape: ContainerShape | None, image: Image) -> _PreparedSlot | None:
        prepared = self._warm
        if prepared is None or (prepared.shape, prepared.image) != (shape, image):
            return None
        if (
            prepared.start is not None
            and prepared.start.done()
            and prepared.start.exception() is not None
        ):
            self._drop_warm()
            return None
        self._warm = None
        self._drop_warm()  # its timer
        return prepared

    def _keep_warm(self, shape: ContainerShape, engine: Engine) -> None:
        """Start one ahead, of the shape that was wanted last: what runs once mostly runs again."""
        if (
            self._is_closed
            or not self._is_pooled
            or (self._warm is not None and self._warm.shape == shape)
        ):
            return
        image = next(
            (prepared.image for prepared in self._prepared.values() if prepared.shape == shape),
            None,
        )
        self._drop_warm()
        if image is not None:
            self._warm = _PreparedSlot(
                slot=name_slot(self._folder), shape=shape, image=image, engine=engine
            )
            self._begin(self._warm, makes_folders=True)
            self._tiring = asyncio.get_running_loop().call_later(self._warm_s, self._drop_warm)

    def _drop_warm(self) -> None:
        if self._tiring is not None:
            self._tiring.cancel()
            self._tiring = None
        prepared, self._warm = self._warm, None
        if prepared is not None:
            self._threads.submit(_end_here, prepared)

    async def _end(self, prepared: _PreparedSlot) -> None:
        await in_own_thread(partial(_end_here, prepared))

    def _slots(self) -> set[str]:
        return {
            prepared.slot.id
            for prepared in (*self._prepared.values(), *([self._warm] if self._warm else []))
        }

    def _folders(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []

    def _drop_folders(self, folders: list[Path], *, is_last: bool) -> None:
        for folder in folders:
            drop_tree(folder)
        if folders and not is_last:
            (self._folder / _UNSWEPT).mkdir(mode=0o700)


def dockerfile_text() -> str:
    return (files("parachuted.agents.sandbox") / "Dockerfile").read_text("utf-8")


def _launch(
    prepared: _PreparedSlot,
    shape: ContainerShape,
    *,
    user: tuple[int, int],
    daemon: str,
    makes_folders: bool,
) -> LaunchedContainer:
    if makes_folders:
        make_slot(prepared.slot)
    return prepared.engine.launch(shape, prepared.slot, prepared.image, user=user, daemon=daemon)


async def _started(prepared: _PreparedSlot) -> LaunchedContainer:
    """What started on the seat, which is from now on the caller's to end.

    A caller that is cancelled meanwhile leaves it to the seat.
    """
    if prepared.start is None:
        raise AgentUnavailableError("no container was started")
    launched = await asyncio.shield(asyncio.wrap_future(prepared.start))
    prepared.start = None
    return launched


def _end_here(prepared: _PreparedSlot) -> None:
    """In a thread: end the container that no run took, and remove the folders."""
    start, prepared.start = prepared.start, None
    try:
        if start is not None and start.exception() is None:
            launched = start.result()
            launched.stream.close()
            prepared.engine.remove(launched.id)
    finally:
        drop_slot(prepared.slot)


def _objection(engine: Engine) -> str | None:
    if engine.is_rootless:
        return _ROOTLESS
    return (
        f"the engine has no {', '.join(engine.lacks)}, without which no agent runs a shell"
        if engine.lacks
        else None
    )


def _is_alive(stream: socket.socket) -> bool:
    """Whether the first process still waits: an engine that was restarted meanwhile has ended
    it.
    """
    with suppress(BlockingIOError):
        return bool(stream.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    return True
