"""An untrusted module, whose code runs in a container without a network and reaches the daemon by
its HTTP API. What it answers is checked like any input from outside.

A key opens the routes of `api/routes/module_services.py` at the socket of its container alone,
where the GrantedVault of its module's services decides about files, by the manifest and by the call
that a request names. A module can name another of its calls than the one that it works on; so what
it may do by its permissions, it can reveal to any caller, and strangers' text read on one call
marks all.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import inspect
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

import parachuted
from parachuted.access.agent_config import SandboxConfig
from parachuted.access.caller import Caller, acting
from parachuted.access.strangers import Taint
from parachuted.agents.gateway.listeners import listen_in
from parachuted.agents.sandbox import Container, ContainerProgram, Sandboxes
from parachuted.agents.sandbox.options import container_user
from parachuted.errors import (
    ActRefusedError,
    AgentUnavailableError,
    EditRefusedError,
    ModuleFailedError,
)
from parachuted.keys import KeyRing, KeyScope, mint
from parachuted.modules.hosting.host import (
    CALL_LIMIT_S,
    Args,
    HandlerCall,
    MakeCallRun,
    ModuleHost,
)
from parachuted.modules.hosting.service_calls import (
    API_SOCKET,
    LARGEST_BODY,
    LINES,
    METHODS,
    ModuleLine,
    OwnServices,
    read_sent,
    remote_value,
)
from parachuted.modules.module_state import watch_size
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import ModuleDeclaration, unlisted
from parachuted.modules.results import dump_json
from parachuted.modules.services import Services
from parachuted.texts.visible import visible

log = logging.getLogger(__name__)

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

_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)
_WITHOUT_DOCKER = (
    "an untrusted module runs in a container: {1}. Once that is mended, `parachute modules restart "
    "{0}`; or, if you trust its code, `parachute modules approve {0} --trust trusted`"
)
_START_LIMIT_S, _STOP_LIMIT_S, _GRACE_S = 90.0, 7.0, 2.0
_MOST_PROBLEM, _MOST_LOGGED, _MOST_LINES_A_SECOND = 20_000, 4_000, 100
_SENT = ("name", "copy", "digest", "tree", "trust", "import_paths", "config")


class ModuleClient:
    """One untrusted module: what it asks of the API, and what it is asked in its container."""

    container: Container

    def __init__(self, services: Services, own: Caller, taint: Taint) -> None:
        """`own` is the module itself as a caller; `taint` outlives this client."""
        self.name, self._services, self._own = services.name, services, OwnServices(services)
        self._taint, self.own_call = taint, uuid4().hex
        self._large = asyncio.Semaphore(_AT_ONCE)
        self._open = {self.own_call: replace(own, taint=taint)}
        self._ended: dict[str, Caller] = {}  # what they began may go on
        self.answers: dict[str, asyncio.Future[ModuleLine]] = {}  # that calls wait for

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

    async def ask(self, call: str, verb: str, asked: object, timeout_s: float) -> object:
        """Its answer, or its error. A container that exceeds the limit is ended."""
        answer = self.answers[call] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s + _GRACE_S):
                line = dump_json({"call": call, "verb": verb, "asked": asked})
                await self.container.write(line + b"\n")
                return (await answer).result()
        except TimeoutError as error:
            why = f"the container of the module {self.name} did not answer within {timeout_s:g} s"
            self.container.end_soon(why)
            raise ModuleFailedError(f"{why}, and was ended") from error
        except ConnectionError as error:
            raise self._gone() from error
        finally:
            del self.answers[call]

    def end(self, _ended_task: object) -> None:
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(self._gone())

    def _gone(self) -> ModuleFailedError:
        return ModuleFailedError(
            f"the container of the module {self.name} ended before it had answered"
        )

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
        arguments = method.load_body(body)
        with self._acting(call):
            result = getattr(owner, name)(*arguments.args, **arguments.kwargs)
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
        scope = KeyScope(module=SCOPE, capabilities=frozenset({"write"}))
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
        wanted = {path for path in wanted - {Path("/usr"), Path("/")} if path.is_dir()}
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
        if self.sandboxes is not None and any(self._folder.glob("*")):
            await self.sandboxes.sweep()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class ContainerHost(ModuleHost):
    """Once its container has ended, its calls fail until it is restarted by hand."""

    where, limits = "container", LIMITS

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        make_run: MakeCallRun | None,
        on_stop: Callable[[], None],
        containers: ModuleContainers,
    ) -> None:
        super().__init__(approved, services, make_run, on_stop)
        self._containers, self._taint = containers, Taint()
        self._client: ModuleClient | None = None  # while it serves
        self._runner: asyncio.Task[None] | None = None
        self._down: str | None = None
        self._problem: str | None = None
        self._second = self._lines = 0

    @property
    def problem(self) -> str | None:
        return self._down or self._problem

    async def _start(self, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        self._runner = loop.create_task(
            self._live(caller, started),
            name=f"the container of module {self.name}",
            context=contextvars.Context(),  # its life is not part of whatever began it
        )
        await asyncio.shield(started)

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        with suppress(Exception):  # however it goes, the container ends now
            await self._ask("stop", {}, _STOP_LIMIT_S, Caller())
        runner.cancel()
        await asyncio.wait((runner,))

    async def _call(self, call: HandlerCall, caller: Caller) -> object:
        source = call.request.source
        data = await source.read(LARGEST_BODY) if source is not None else b""
        asked = {
            "handler": call.handler,
            "arguments": call.arguments,
            "timeout_s": call.timeout_s,
            "is_event": call.is_event,
            "request": replace(call.request, source=None),
            "body": source and [source.content_type, base64.b64encode(data).decode()],
        }
        return await self._ask("call", asked, call.timeout_s, caller)

    async def _stream(self, call: HandlerCall, _caller: Caller) -> AsyncIterator[object]:
        raise ModuleFailedError(f"{call.handler} streams, which no module in a container can")
        yield  # a generator, as the interface says

    def provides(self, name: str) -> bool:
        return self._client is not None and name in self.declared.provides

    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], caller: Caller
    ) -> object:
        asked = {"name": name, "method": method, "args": args, "kwargs": kwargs}
        return remote_value(await self._ask("interface", asked, CALL_LIMIT_S, caller))

    async def _ask(
        self, verb: str, asked: Mapping[str, object], timeout_s: float, caller: Caller
    ) -> object:
        client = self._client
        if client is None:
            raise ModuleFailedError(self._down) if self._down else self._not_running()
        with client.opened(caller) as call:
            return await client.ask(call, verb, asked, timeout_s)

    async def _live(self, caller: Caller, started: asyncio.Future[None]) -> None:
        try:
            why = await self._run_container(caller, started)
        except AgentUnavailableError as error:
            why = _WITHOUT_DOCKER.format(self.name, error.message)
        except ModuleFailedError as error:
            why = str(error)
        except Exception as error:  # a wall: the module is down and nothing else
            log.exception("a module's container was lost", extra={"of": self.name})
            why = repr(error)
        if not started.done():
            started.set_exception(
                ModuleFailedError(f"the module {self.name} could not be started: {why}")
            )
        elif self._runner is not None:
            self._down = (
                f"the container of the module {self.name} has ended, and `parachute modules "
                f"restart {self.name}` starts another: {why}"
            )[:_MOST_PROBLEM]
            self._log(logging.ERROR, self._down)

    async def _run_container(self, caller: Caller, started: asyncio.Future[None]) -> str:
        """Why it ended."""
        client = ModuleClient(self._services, caller, self._taint)
        data = self._services.data_folder
        os.chown(data, *container_user(), follow_symlinks=False)
        self._problem, loop = None, asyncio.get_running_loop()
        async with (
            self._containers.served(client) as (api, key),
            self._containers.run(self._approved, api, data) as container,
        ):
            client.container = container
            ended = loop.create_task(container.wait())
            ended.add_done_callback(client.end)
            listening = loop.create_task(self._listen(client))
            watching = loop.create_task(watch_size(data, container.end_soon))
            try:
                document = {
                    "module": {name: getattr(self._approved, name) for name in _SENT},
                    "data_folder": data,
                    "has_model": self._services.has_model,
                    "key": key,
                    "api": api,
                }
                found = await client.ask(client.own_call, "start", document, _START_LIMIT_S)
                self._declared = self._checked(found)
                self._client, self._down = client, None
                started.set_result(None)
                await asyncio.wait((ended,))
            except ModuleFailedError:
                if not ended.done():  # else its end tells more
                    raise
            finally:
                self._client = None
                self._on_stop()
                for task in (ended, listening, watching):
                    task.cancel()
            return container.problem or f"it ended with the code {ended.result()}"

    def _checked(self, found: Any) -> ModuleDeclaration:  # noqa: ANN401  JSON
        """Raises ModuleFailedError for what was not approved."""
        manifest = self._approved.manifest
        own = {"name": self.name, "version": manifest.version, "prefix": manifest.prefix}
        try:
            declared = _DECLARED.validate_python({**found, **own})
        except (ValueError, TypeError) as error:
            raise ModuleFailedError(f"what it declares is invalid: {error}") from error
        if wrong := unlisted(declared, manifest):
            raise ModuleFailedError("; ".join(wrong))
        return declared

    async def _listen(self, client: ModuleClient) -> None:
        """What it prints; a ModuleLine is our program's, as far as one can know."""
        while True:
            try:
                line = await client.container.stdout.readline()
            except ValueError:  # a line beyond all measure
                client.container.end_soon("it printed a line of more than 32 MB")
                return
            if not line:
                return
            try:
                module_line = await asyncio.to_thread(read_sent, LINES, line)
            except ModuleFailedError:
                self._log(logging.INFO, line.decode(errors="replace").rstrip())
                continue
            self._problem = module_line.problem and module_line.problem[-_MOST_PROBLEM:]
            answer = client.answers.get(module_line.call)
            if answer is not None and not answer.done():
                answer.set_result(module_line)
            elif module_line.text:
                self._log(module_line.level, module_line.text)

    def _log(self, level: int, text: str) -> None:
        """Log it, unless there were too many in this second."""
        second = int(time.monotonic())
        self._lines = self._lines + 1 if second == self._second else 1
        self._second = second
        if self._lines == _MOST_LINES_A_SECOND:
            self._services.log.warning("lines of its log are left out")
        elif self._lines < _MOST_LINES_A_SECOND:
            self._services.log.log(level, "%s", visible(text[-_MOST_LOGGED:], keep="\n\t"))
