"""What the containers of untrusted modules share: folders, sockets and keys of the API.

A key opens the routes of `api/routes/module_services.py` at the socket of its container alone,
where the GrantedVault of its module's services decides about files, by the manifest and by the call
that a request names. A module can name another of its calls than the one that it works on; so what
it may do by its permissions, it can reveal to any caller, and strangers' text read on one call
marks all.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import parachuted
from parachuted.access.agent_config import SandboxConfig
from parachuted.access.caller import Caller, acting
from parachuted.access.strangers import Taint
from parachuted.agents.gateway.listeners import listen_in
from parachuted.agents.sandbox import Container, ContainerProgram, Sandboxes
from parachuted.errors import (
    ActRefusedError,
    AgentUnavailableError,
    EditRefusedError,
    ModuleFailedError,
)
from parachuted.keys import KeyRing, Scope, mint
from parachuted.modules.hosting.service_calls import API_SOCKET, METHODS, OwnServices
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.services import Services

SCOPE = "module-services"
LARGEST = 8 << 20
MOST_OPEN, _MOST_ENDED = 256, 1_000
_SMALL, _AT_ONCE = 1 << 20, 4
_READS = frozenset({"vault.read", "vault.read_bytes", "vault.note", "notes_at", "folders.read"})

LIMITS = "a container with 1 GB of memory, one processor, 64 processes and no network"
_CONFIG = SandboxConfig(memory="1g", cpus=1.0, pids_limit=64)
# A scan of all installed packages for plugins of pydantic takes a sixth of a start.
_BOOT = (
    "import os, sys; os.environ['PYDANTIC_DISABLE_PLUGINS'] = '__all__'; "
    "sys.path += [path for path in sys.argv[1:] if path not in sys.path]; from "
    "parachuted.modules.hosting.container_main import main; main()"
)
# without the site module: packages come by _BOOT alone, as the interpreter is not the environment's
_PYTHON_OPTIONS = ("-I", "-S", "-B", "-u", "-X", "utf8", "-c", _BOOT)


class ModuleClient:
    """One untrusted module as a client of the API."""

    def __init__(self, services: Services, own: Caller, taint: Taint) -> None:
        """`own` is the module itself as a caller; `taint` outlives this client."""
        self.name, self._services, self._own = services.name, services, OwnServices(services)
        self._taint, self.own_call = taint, uuid4().hex
        self._large = asyncio.Semaphore(_AT_ONCE)
        self._open = {self.own_call: replace(own, taint=taint)}
        self._ended: dict[str, Caller] = {}  # what they began may go on

    @contextmanager
    def opened(self, caller: Caller) -> Iterator[str]:
        """The id of a call while it lasts. Raises ModuleFailedError while there are too many."""
        if len(self._open) >= MOST_OPEN:
            raise ModuleFailedError(
                f"the module {self.name} still works on {MOST_OPEN} calls, and gets no more until "
                f"some have ended; `parachute modules restart {self.name}` ends them"
            )
        call = uuid4().hex
        self._open[call] = caller
        self._has_read(caller)
        try:
            yield call
        finally:
            self._ended[call] = self._open.pop(call)
            if len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    def room(self, service: str, length: int | None) -> AbstractAsyncContextManager[object]:
        """Room for a request of that length, while it is read and answered."""
        is_small = length is not None and length <= _SMALL and service not in _READS
        return nullcontext() if is_small else self._large

    async def answer(self, service: str, body: bytes, call: str) -> bytes:
        """Raises what the service raises, and ModuleFailedError for an invalid request."""
        if service not in METHODS:
            raise ModuleFailedError(f"a module in a container cannot ask for {service[:80]!r}")
        access, _, name = service.rpartition(".")
        owner: Any = getattr(self._services, access) if access else self._own
        method = METHODS[service]
        asked = method.load_body(body)
        with self._acting(call):
            result = getattr(owner, name)(*asked.args, **asked.kwargs)
            result = await result if inspect.isawaitable(result) else result
        answer = await asyncio.to_thread(method.dump_result, result)
        if len(answer) > LARGEST:
            raise EditRefusedError(
                f"it is larger than {LARGEST >> 20} MB, which a module in a container is not given "
                "at once"
            )
        return answer

    @contextmanager
    def _acting(self, call: str) -> Iterator[None]:
        caller = self._open.get(call) or self._ended.get(call)
        if caller is None:
            raise ActRefusedError(
                f"what the module {self.name} asks names no call of the daemon, or one that ended "
                "long ago: only work that a call led to can ask for anything"
            )
        caller.taint.read_by(self._taint, f"what the module {self.name} read before")
        try:
            with acting(caller):
                yield
        finally:
            self._has_read(caller)

    def _has_read(self, caller: Caller) -> None:
        self._taint.read_by(caller.taint, "in another call")


ServeModule = Callable[[socket.socket, ModuleClient], Awaitable[Callable[[], Awaitable[None]]]]


class ModuleContainers:
    """`serve` has the API answer a module at a socket until what it returns is called."""

    def __init__(
        self,
        folder: Path,
        secret: Iterable[Path],
        sandboxes: Sandboxes | None,
        ring: KeyRing,
        clock: Callable[[], datetime],
    ) -> None:
        """`folder` is a private folder of the home; no container may see one of `secret`."""
        self._folder, self._secret, self.sandboxes = folder, tuple(secret), sandboxes
        self._ring, self._clock = ring, clock
        self.serve: ServeModule | None = None

    @asynccontextmanager
    async def served(self, client: ModuleClient) -> AsyncIterator[tuple[Path, str]]:
        """A folder with a socket at which the API answers that module, and a key for it."""
        if self.serve is None:
            raise ModuleFailedError("the API is not open yet")
        scope = Scope(module=SCOPE, capabilities=frozenset({"write"}))
        made = mint(f"module {client.name}", [scope], now=self._clock())
        folder = self._folder / uuid4().hex[:12]
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o755)
            end = await self.serve(listen_in(folder, API_SOCKET), client)
            try:
                with self._ring.lent(made.key):
                    yield folder, made.secret
            finally:
                await end()
        finally:
            shutil.rmtree(folder)

    def run(
        self, approved: ApprovedModule, api: Path, data: Path
    ) -> AbstractAsyncContextManager[Container]:
        """Raises ModuleFailedError where the container would see a secret."""
        if self.sandboxes is None:
            raise AgentUnavailableError("no sandboxes are made here")
        package = Path(parachuted.__file__).resolve().parent
        packages = [Path(path) for path in sys.path if Path(path).name.endswith("-packages")]
        wanted = {*packages, package, approved.copy, *approved.import_paths, api}
        # An environment's interpreter is a copy, or a link to a link elsewhere, and is not mounted.
        python = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
        wanted |= {Path(path).resolve() for path in (sys.base_prefix, sys.base_exec_prefix)}
        wanted = {
            path for path in wanted if path.is_dir() and path not in {Path("/usr"), Path("/")}
        }
        readable = sorted(path for path in wanted if wanted.isdisjoint(path.parents))
        for path in readable:
            for secret in self._secret:
                if secret.is_relative_to(path.resolve()):
                    raise ModuleFailedError(
                        f"{secret} lies in {path}, which Python needs: nothing can keep a module's "
                        "container out of it"
                    )
        return self.sandboxes.run(
            ContainerProgram(
                command=(python, *_PYTHON_OPTIONS, str(package.parent), *map(str, packages)),
                env={},
                readable=tuple(readable),
                writable=(data,),
                config=_CONFIG,
            )
        )

    async def sweep(self) -> None:
        """Remove what an earlier daemon left. Docker is asked only if there is something."""
        if self.sandboxes is not None and self._folder.is_dir():
            await self.sandboxes.sweep()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
