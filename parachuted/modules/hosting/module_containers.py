"""The containers of untrusted modules: the sockets of each, and what it sees of the machine."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import parachuted
from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.gateway.listeners import listen_in
from parachuted.agents.sandbox import Container, ContainerProgram, Sandboxes
from parachuted.agents.sandbox.slots import container_user, drop_tree
from parachuted.errors import AgentUnavailableError, ModuleFailedError
from parachuted.modules.hosting.module_clients import ModuleClients
from parachuted.modules.hosting.service_calls import API_SOCKET, MODULE_SOCKET, StartDocument
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.services import Services

log = logging.getLogger(__name__)

LIMITS = "a container with 1 GB of memory, one processor, 64 processes and no network"
_CONFIG = SandboxConfig(memory="1g", cpus=1.0, pids_limit=64)
# A scan of all installed packages for plugins of pydantic takes a sixth of a start.
_BOOT = (
    "import os, sys; os.environ['PYDANTIC_DISABLE_PLUGINS'] = '__all__'; "
    "sys.path += [one for one in sys.argv[1:] if one not in sys.path]; from "
    "parachuted.modules.hosting.container_main import main; main()"
)


ServeModules = Callable[[socket.socket], Awaitable[Callable[[], Awaitable[None]]]]


class ModuleContainers:
    """What the containers of all modules share.

    `serve` has the API answer at a socket until what it returns is called; it is set once the API
    is there.
    """

    def __init__(
        self,
        folder: Path,
        secret: Iterable[Path],
        sandboxes: Sandboxes | None,
        clients: ModuleClients,
    ) -> None:
        """`folder` is a private folder of the home; no container may see one of `secret`."""
        self._folder, self._secret = folder, tuple(secret)
        self.sandboxes, self.clients = sandboxes, clients
        self.serve: ServeModules | None = None

    @asynccontextmanager
    async def place(self) -> AsyncIterator[ContainerPlace]:
        """Folders for one container, gone when it is left; the API answers at a socket there."""
        place = ContainerPlace(self._folder / uuid4().hex[:12])
        if self.serve is None:
            raise ModuleFailedError("the API is not open yet")
        try:
            await asyncio.to_thread(place.make)
            end = await self.serve(listen_in(place.api, API_SOCKET))
            try:
                yield place
            finally:
                await end()
        finally:
            await asyncio.to_thread(drop_tree, place.folder)

    def run(self, program: ContainerProgram) -> AbstractAsyncContextManager[Container]:
        """Raises ModuleFailedError where the program would see a secret."""
        if self.sandboxes is None:
            raise AgentUnavailableError("no sandboxes are made here")
        for path in program.readable:
            for secret in self._secret:
                if secret == path.resolve() or path.resolve() in secret.parents:
                    raise ModuleFailedError(
                        f"{secret} lies in {path}, which Python needs: nothing can keep a module's "
                        "container out of it"
                    )
        return self.sandboxes.run(program)

    async def sweep(self) -> None:
        """Remove what an earlier daemon left. Docker is asked only if there is something."""
        left = await asyncio.to_thread(self._left)
        if left and self.sandboxes is not None:
            await self.sandboxes.sweep()
        for folder in left:
            try:
                await asyncio.to_thread(drop_tree, folder)
            except OSError as error:
                log.warning("a module's folder was not removed", extra={"reason": str(error)})

    def _left(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []


class ContainerPlace:
    """The folders of one container: `api` holds the daemon's socket, `own` the module's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.api, self.own = folder, folder / "api", folder / "own"

    def make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True)
        for one in (self.api, self.own):
            one.mkdir(mode=0o755)
        os.chown(self.own, *container_user())

    def socket(self) -> int:
        """The module's socket, by a descriptor: what lies there is the module's, which could put a
        link to another socket in its place.
        """
        found = os.open(self.own / MODULE_SOCKET, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            os.close(found)
            raise ModuleFailedError("the module has no socket where it should be")
        return found


def module_program(approved: ApprovedModule, place: ContainerPlace, data: Path) -> ContainerProgram:
    """Our program, with all that it needs to run and nothing else."""
    package = Path(parachuted.__file__).resolve().parent
    packages = [Path(one) for one in sys.path if Path(one).name.endswith("-packages")]
    wanted = {*packages, package, approved.copy, *approved.import_paths, place.api}
    wanted |= {Path(one) for one in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    wanted = {one for one in wanted if one.is_dir() and one not in {Path("/usr"), Path("/")}}
    return ContainerProgram(
        command=(
            sys.executable,
            "-I",
            "-B",
            "-u",
            "-X",
            "utf8",
            "-c",
            _BOOT,
            str(package.parent),
            *map(str, packages),
        ),
        env={},
        readable=tuple(
            one for one in sorted(wanted) if not any(other in one.parents for other in wanted)
        ),
        writable=(place.own, data),
        config=_CONFIG,
    )


def start_document(
    approved: ApprovedModule, services: Services, place: ContainerPlace, data: Path, key: str
) -> str:
    return StartDocument(
        name=approved.name,
        copy_at=approved.copy,
        digest=approved.digest,
        tree=approved.tree,
        trust=approved.trust,
        import_paths=approved.import_paths,
        overrides=dict(approved.overrides),
        config=dict(approved.config),
        config_lines=dict(approved.config_lines),
        data_folder=data,
        has_model=services.has_model,
        key=key,
        api=place.api,
        own=place.own,
    ).model_dump_json()
