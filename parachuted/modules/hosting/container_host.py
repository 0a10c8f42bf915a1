"""An untrusted module, whose code runs in a container without a network and reaches the daemon by
its HTTP API. What it answers is checked like any input from outside.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import TypeAdapter

from parachuted.access.caller import Caller
from parachuted.access.strangers import Taint
from parachuted.agents.sandbox import Container
from parachuted.agents.sandbox.options import container_user
from parachuted.errors import AgentUnavailableError, ModuleFailedError
from parachuted.modules.hosting.host import (
    CALL_LIMIT_S,
    Args,
    HandlerCall,
    MakeCallRun,
    ModuleHost,
)
from parachuted.modules.hosting.module_agents import ModuleRuns
from parachuted.modules.hosting.module_containers import (
    LIMITS,
    ContainerPlace,
    ModuleClient,
    ModuleContainers,
)
from parachuted.modules.hosting.module_state import watch_size
from parachuted.modules.hosting.service_calls import (
    CALL_HEADER,
    answer_of,
    body_document,
    error_of,
    json_of,
    remote_value,
)
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import ModuleDeclaration, unlisted
from parachuted.modules.results import dump_json
from parachuted.modules.services import Services
from parachuted.texts.visible import visible

log = logging.getLogger(__name__)

_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)
_WITHOUT_DOCKER = (
    "an untrusted module runs in a container: {1}. Once that is mended, `parachute modules restart "
    "{0}`; or, if you trust its code, `parachute modules approve {0} --trust trusted`"
)
_START_LIMIT_S, _STOP_LIMIT_S, _GRACE_S = 90.0, 7.0, 2.0
_ENDS_S = 0.2
_MOST_PROBLEM, _MOST_LOGGED, _MOST_LINES_A_SECOND = 20_000, 4_000, 100
_LARGEST_ANSWER = 64 << 20
_LARGE = 1 << 16  # takes long enough to read that the loop leaves it to a thread
_SENT = ("name", "copy", "digest", "tree", "trust", "import_paths", "config")


class ContainerHost(ModuleHost):
    """Once its container has ended, its calls fail until it is restarted by hand."""

    where, limits = "container", LIMITS

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        make_run: MakeCallRun | None,
        containers: ModuleContainers,
    ) -> None:
        super().__init__(approved, services, make_run)
        self._containers, self._log = containers, CappedLog(services.log)
        self._taint = Taint()
        self._connection: ModuleConnection | None = None
        self._runner: asyncio.Task[None] | None = None
        self._down: str | None = None
        self._problem: str | None = None
        self._is_stopped = False

    @property
    def problem(self) -> str | None:
        return self._down or self._problem

    async def _start(self, caller: Caller) -> None:
        self._is_stopped = False
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        self._runner = loop.create_task(
            self._live(caller, started),
            name=f"the container of module {self.name}",
            context=contextvars.Context(),  # its life is not part of whatever began it
        )
        try:
            await asyncio.shield(started)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        self._is_stopped = True
        if self._connection is not None:
            with suppress(Exception):  # however it goes, the container ends now
                await self._connection.ask("stop", {}, _STOP_LIMIT_S, Caller())
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.wait((self._runner,))
            self._runner = None

    async def _call(self, call: HandlerCall) -> object:
        return answer_of(await self._ask("call", call))

    async def _tell(self, call: HandlerCall) -> None:
        await self._ask("tell", call)

    async def _stream(self, call: HandlerCall) -> AsyncIterator[object]:
        raise ModuleFailedError(f"{call.handler} streams, which no module in a container can")
        yield  # a generator, as the interface says

    def provides(self, name: str) -> bool:
        return self._connection is not None and name in self.declared.provides

    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], caller: Caller
    ) -> object:
        body = {"name": name, "method": method, "args": args, "kwargs": kwargs}
        answer = await self._usable().ask("interface", body, CALL_LIMIT_S, caller)
        return remote_value(answer.get("value"))

    async def _ask(self, verb: str, call: HandlerCall) -> Mapping[str, Any]:
        body = {
            "handler": call.handler,
            "arguments": call.arguments,
            "timeout_s": call.timeout_s,
            "request": replace(call.request, source=None),
            "source": await body_document(call.request.source),
        }
        return await self._usable().ask(verb, body, call.timeout_s, call.caller)

    def _usable(self) -> ModuleConnection:
        if self._connection is None:
            raise ModuleFailedError(
                self._down
                or f"the module {self.name} is not running; `parachute modules status` says why"
            )
        return self._connection

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
        elif not self._is_stopped:
            self._down = (
                f"the container of the module {self.name} has ended, and `parachute modules "
                f"restart {self.name}` starts another: {why}"
            )[:_MOST_PROBLEM]
            self._log.say(logging.ERROR, self._down)

    async def _run_container(self, caller: Caller, started: asyncio.Future[None]) -> str:
        """Why it ended."""
        client = ModuleClient(self._services, caller, self._taint)
        data = await asyncio.to_thread(self._data_folder)
        self._problem, loop = None, asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(self._containers.place())
            key = stack.enter_context(self._containers.admitted(client))
            container = await stack.enter_async_context(
                self._containers.run(self._approved, place, data)
            )
            await container.write(self._start_document(place, data, key))
            ready: asyncio.Future[None] = loop.create_future()
            ended = loop.create_task(container.wait())
            tasks: list[asyncio.Task[Any]] = [
                ended,
                loop.create_task(self._listen(container, ready)),
                *(loop.create_task(watch_size(at, container.end_soon)) for at in (data, place.own)),
            ]
            stack.push_async_callback(_cancel, tasks)
            await asyncio.wait(
                (ended, ready), timeout=_START_LIMIT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not (ended.done() or ready.done()):
                raise ModuleFailedError(f"it was not ready after {_START_LIMIT_S:g} s")
            try:
                if ready.done():
                    connection = ModuleConnection(place, client, container, self._report)
                    stack.push_async_callback(connection.close)
                    stack.callback(self._lost)
                    answer = await connection.ask("start", {}, _START_LIMIT_S)
                    self._declared = self._checked(answer.get("value"))
                    self._connection, self._down = connection, None
                    started.set_result(None)
                    await asyncio.wait((ended,))
            except ModuleFailedError:  # the container's end tells more than a lost connection
                await asyncio.wait((ended,), timeout=_ENDS_S)
                if not ended.done():
                    raise
            code = await ended
            return container.problem or f"it ended with the code {code}"

    def _data_folder(self) -> Path:
        folder = self._services.data_folder
        os.chown(folder, *container_user(), follow_symlinks=False)
        return folder

    def _start_document(self, place: ContainerPlace, data: Path, key: str) -> bytes:
        """One line; the manifest is in the copy."""
        document = {
            "module": {name: getattr(self._approved, name) for name in _SENT},
            "data_folder": data,
            "has_model": self._services.has_model,
            "key": key,
            "api": place.api,
            "own": place.own,
        }
        return dump_json(document) + b"\n"

    def _lost(self) -> None:
        """Nothing waits for a container that has ended, nor for what it had agents do."""
        self._connection = None
        if isinstance(self._services.runs, ModuleRuns):
            self._services.runs.close()

    def _report(self, problem: object) -> None:
        self._problem = None if problem is None else str(problem)[-_MOST_PROBLEM:]

    def _checked(self, found: object) -> ModuleDeclaration:
        """Raises ModuleFailedError for what was not approved."""
        try:
            declared = _DECLARED.validate_python(found)
        except ValueError as error:
            raise ModuleFailedError(
                f"what the module {self.name} declares is invalid: {error}"
            ) from error
        manifest = self._approved.manifest
        says = (declared.name, declared.version, declared.prefix)
        wrong = unlisted(declared, self._approved.manifest)
        if says != (self.name, manifest.version, manifest.prefix):
            wrong.append(f"its container says that it is {says}")
        if wrong:
            raise ModuleFailedError("; ".join(wrong))
        return declared

    async def _listen(self, container: Container, ready: asyncio.Future[None]) -> None:
        """What it prints; a line of JSON is our program's, as far as one can know."""
        while True:
            try:
                line = await container.stdout.readline()
            except ValueError:  # a line beyond all measure
                container.end_soon("it printed a line of more than 32 MB")
                return
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            entry: Mapping[str, object] = {}
            with suppress(ModuleFailedError):
                found = json_of(line) if text.startswith("{") else {}
                entry = found if isinstance(found, dict) else {}
            if "ready" in entry and not ready.done():
                ready.set_result(None)
            elif "problem" in entry:
                self._report(entry["problem"])
            elif text:
                level = entry.get("level")
                number = level if isinstance(level, int) else logging.INFO
                self._log.say(
                    min(max(number, logging.DEBUG), logging.CRITICAL), str(entry.get("text", text))
                )


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class CappedLog:
    def __init__(self, logger: logging.Logger) -> None:
        self._log, self._second, self._lines = logger, 0, 0

    def say(self, level: int, text: str) -> None:
        """Log it, unless there were too many in this second."""
        second = int(time.monotonic())
        self._lines = self._lines + 1 if second == self._second else 1
        self._second = second
        if self._lines == _MOST_LINES_A_SECOND:
            self._log.warning("lines of its log are left out")
        elif self._lines < _MOST_LINES_A_SECOND:
            self._log.log(level, "%s", visible(text[-_MOST_LOGGED:], keep="\n\t"))


class ModuleConnection:
    """Calls of one container over its unix socket, each with an id that its requests name."""

    def __init__(
        self,
        place: ContainerPlace,
        client: ModuleClient,
        container: Container,
        report: Callable[[object], None],
    ) -> None:
        """`report` takes the module's problem, which each answer tells."""
        self._name, self._report = client.name, report
        self._client, self._container = client, container
        self._socket = place.socket()
        self._session = aiohttp.ClientSession(
            "http://module",
            connector=aiohttp.UnixConnector(f"/proc/self/fd/{self._socket}", limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        await self._session.close()
        os.close(self._socket)

    async def ask(
        self,
        verb: str,
        body: Mapping[str, object],
        timeout_s: float,
        caller: Caller | None = None,
    ) -> Mapping[str, Any]:
        """Its answer, or its error. A container that exceeds the limit is ended."""
        own = nullcontext(self._client.own_call)
        try:
            with own if caller is None else self._client.opened(caller) as call:
                async with asyncio.timeout(timeout_s + _GRACE_S):
                    data = await self._send(verb, body, call)
        except TimeoutError as error:
            why = f"the container of the module {self._name} did not answer within {timeout_s:g} s"
            self._container.end_soon(why)
            raise ModuleFailedError(f"{why}, and was ended") from error
        except aiohttp.ClientError as error:
            raise ModuleFailedError(
                f"the container of the module {self._name} ended before it had answered"
            ) from error
        answer = await asyncio.to_thread(json_of, data) if len(data) > _LARGE else json_of(data)
        if not isinstance(answer, dict):
            raise error_of(answer)
        self._report(answer.get("problem"))
        if "error" in answer:
            raise error_of(answer)
        return answer

    async def _send(self, verb: str, body: Mapping[str, object], call: str) -> bytes:
        async with self._session.post(
            f"/{verb}",
            data=BytesIO(dump_json(body)),
            headers={"Content-Type": "application/json", CALL_HEADER: call},
            allow_redirects=False,
        ) as response:
            data = bytearray()
            async for piece in response.content.iter_any():
                data += piece
                if len(data) > _LARGEST_ANSWER:
                    raise ModuleFailedError(f"its answer is longer than {_LARGEST_ANSWER:,} bytes")
            return bytes(data)
