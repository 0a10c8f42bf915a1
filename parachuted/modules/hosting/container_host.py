"""An untrusted module, whose code runs in a container and reaches the daemon by its HTTP API.

The container has no network and sees Python, the approved copy, its data folder and the sockets of
the API and of its own. It is hostile: what it answers is checked like any input from outside.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import (
    AsyncExitStack,
    aclosing,
    suppress,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from parachuted.access.authority import Authority
from parachuted.access.origin import Taint
from parachuted.agents.sandbox import Container
from parachuted.agents.sandbox.slots import container_user
from parachuted.errors import AgentUnavailableError, ModuleFailedError
from parachuted.modules.hosting.host import (
    CALL_LIMIT_S,
    Args,
    MakeCallRun,
    ModuleHost,
    RequestArguments,
)
from parachuted.modules.hosting.module_clients import ModuleClient
from parachuted.modules.hosting.module_connection import ModuleConnection, item_of
from parachuted.modules.hosting.module_containers import (
    LIMITS,
    ContainerPlace,
    ModuleContainers,
    module_program,
    start_document,
)
from parachuted.modules.hosting.module_runs import ModuleRuns
from parachuted.modules.hosting.module_state import watch_size
from parachuted.modules.hosting.service_calls import (
    json_of,
    remote_value,
)
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import ModuleDeclaration, unlisted
from parachuted.modules.results import to_json
from parachuted.modules.services import Services
from parachuted.visible import visible

log = logging.getLogger(__name__)

_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)
_WITHOUT_DOCKER = (
    "an untrusted module runs in a container: install and start Docker, then `parachute modules "
    "restart {0}`; or, if you trust its code, `parachute modules approve {0} --trust trusted` ({1})"
)
_START_LIMIT_S, _STOP_LIMIT_S = 90.0, 7.0
_FIRST_WAIT_S, _LONGEST_WAIT_S, _WELL_S = 0.5, 60.0, 60.0
_ENDS_S = 0.2
_MOST_PROBLEM, _MOST_LOGGED, _MOST_LINES_A_SECOND = 20_000, 4_000, 100


class ContainerHost(ModuleHost):
    """One untrusted module.

    A container that dies is restarted after a growing delay; meanwhile its calls fail.
    """

    where, limits = "container", LIMITS

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        make_run: MakeCallRun | None,
        containers: ModuleContainers,
        *,
        first_wait_s: float = _FIRST_WAIT_S,
    ) -> None:
        """`first_wait_s` goes by before the first restart."""
        super().__init__(approved, services, make_run)
        self._containers, self._first_wait_s = containers, first_wait_s
        self._log = CappedLog(services.log)
        self._taint, self._own = Taint(), Authority()
        self._connection: ModuleConnection | None = None
        self._runner: asyncio.Task[None] | None = None
        self._down: str | None = None
        self._problem: str | None = None
        self._is_stopped = False

    @property
    def problem(self) -> str | None:
        return self._down or self._problem

    async def _start(self, authority: Authority) -> None:
        self._own, self._is_stopped = authority, False
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        self._runner = loop.create_task(
            self._keep(started),
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
        connection, runner = self._connection, self._runner
        if connection is not None:
            with suppress(Exception):  # however it goes, the container ends now
                await connection.ask("stop", {}, _STOP_LIMIT_S, Authority())
        if runner is not None:
            runner.cancel()
            await asyncio.wait((runner,))
            self._runner = None

    async def _call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        timeout_s: float,
        authority: Authority,
        sent: RequestArguments,
    ) -> object:
        body = {**_body(handler, arguments, sent), "timeout_s": timeout_s}
        answer = await self._usable().ask("call", body, timeout_s, authority, sent.get("source"))
        return item_of(answer)

    async def _tell(
        self, handler: str, data: Mapping[str, object], timeout_s: float, authority: Authority
    ) -> None:
        body = {"handler": handler, "data": to_json(data), "timeout_s": timeout_s}
        await self._usable().ask("tell", body, timeout_s, authority)

    async def _stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        after: str | None,
        authority: Authority,
        sent: RequestArguments,
    ) -> AsyncIterator[object]:
        """A slow reader slows the module."""
        body = {**_body(handler, arguments, sent), "after": after}
        lines = self._usable().lines("stream", body, authority, sent.get("source"))
        async with aclosing(lines) as found:  # type: ignore[type-var]
            async for item in found:
                yield item_of(item)

    def provides(self, name: str) -> bool:
        return self._connection is not None and name in self.declared.provides

    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], authority: Authority
    ) -> object:
        body = {"name": name, "method": method, "args": to_json(args), "kwargs": to_json(kwargs)}
        return remote_value(await self._usable().ask("interface", body, CALL_LIMIT_S, authority))

    def _usable(self) -> ModuleConnection:
        if self._connection is None:
            raise ModuleFailedError(
                self._down
                or f"the module {self.name} is not running; `parachute modules status` says why"
            )
        return self._connection

    async def _keep(self, started: asyncio.Future[None]) -> None:
        wait_s = self._first_wait_s
        while True:
            started_at = time.monotonic()
            try:
                why = await self._live(started)
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
            if self._is_stopped or started.exception() is not None:
                return
            if time.monotonic() - started_at > _WELL_S:
                wait_s = self._first_wait_s
            self._down = (
                f"the container of the module {self.name} is down and restarts in {wait_s:g} s: "
                f"{why}"
            )[:_MOST_PROBLEM]
            self._log.say(logging.ERROR, self._down)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _live(self, started: asyncio.Future[None]) -> str:
        """One container from its beginning to its end; why it ended."""
        client = ModuleClient(self._services, self._own, self._taint)
        data = await asyncio.to_thread(self._data_folder)
        self._problem = None
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(self._containers.place())
            key = stack.enter_context(self._containers.clients.admitted(client))
            program = module_program(self._approved, place, data)
            container = await stack.enter_async_context(self._containers.run(program))
            stack.callback(self._lost)
            group = await stack.enter_async_context(_Tasks())
            first = start_document(self._approved, self._services, place, data, key)
            await container.write(first.encode() + b"\n")
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            group.begin(self._listen(container, ready))
            ended = group.begin(container.wait())
            for folder in (data, place.own):
                group.begin(watch_size(folder, container.end_soon))
            begun = group.begin(self._begin(container, client, place, ready, started))
            await asyncio.wait((ended, begun), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((ended,), timeout=_ENDS_S)  # which tells more than a lost connection
            if not ended.done() and (error := begun.exception()) is not None:
                raise error
            code = await ended
            return container.problem or f"it ended with the code {code}"

    def _data_folder(self) -> Path:
        folder = self._services.data_folder
        os.chown(folder, *container_user(), follow_symlinks=False)
        return folder

    def _lost(self) -> None:
        """Nothing waits for a container that has ended, nor for what it had agents do."""
        self._connection = None
        if isinstance(self._services.runs, ModuleRuns):
            self._services.runs.close()

    async def _begin(
        self,
        container: Container,
        client: ModuleClient,
        place: ContainerPlace,
        ready: asyncio.Future[None],
        started: asyncio.Future[None],
    ) -> None:
        """Let it enable itself; it can be asked until this ends."""
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                await ready
        except TimeoutError as error:
            raise ModuleFailedError(f"it was not ready after {_START_LIMIT_S:g} s") from error
        connection = ModuleConnection(self.name, place, client, container, self._report)
        try:
            declared = await connection.ask("start", {}, _START_LIMIT_S)
            self._declared = self._checked(declared)
            self._connection, self._down = connection, None
            if not started.done():
                started.set_result(None)
            await asyncio.Event().wait()
        finally:
            self._connection = None
            await connection.close()

    def _report(self, problem: object) -> None:
        self._problem = None if problem is None else str(problem)[-_MOST_PROBLEM:]

    def _checked(self, found: object) -> ModuleDeclaration:
        """What the module declares, checked against what was approved.

        Raises ModuleFailedError.
        """
        try:
            declared = _DECLARED.validate_python(found)
        except ValueError as error:
            raise ModuleFailedError(
                f"what the module {self.name} declares is invalid: {error}"
            ) from error
        manifest = self._approved.manifest
        says = (declared.name, declared.version, declared.prefix)
        if says != (self.name, manifest.version, manifest.prefix):
            raise ModuleFailedError(
                f"the container of the module {self.name} says that it is {declared.name} "
                f"{declared.version} at {declared.prefix}"
            )
        if wrong := unlisted(declared, self._approved):
            raise ModuleFailedError("; ".join(wrong))
        if self._declared is not None and declared != self._declared:
            raise ModuleFailedError(
                f"the module {self.name} declares something else than when it was started; "
                "restart it"
            )
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
            said: Mapping[str, object] = {}
            with suppress(ModuleFailedError):
                found = json_of(line) if text.startswith("{") else {}
                said = found if isinstance(found, dict) else {}
            if "ready" in said and not ready.done():
                ready.set_result(None)
            elif "problem" in said:
                self._report(said["problem"])
            elif text:
                level = said.get("level")
                number = level if isinstance(level, int) else logging.INFO
                self._log.say(
                    min(max(number, logging.DEBUG), logging.CRITICAL), str(said.get("text", text))
                )


@dataclass(slots=True)
class _Tasks:
    """Tasks that end with a block, however that ends."""

    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def begin(self, work: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.gather(*self.tasks, return_exceptions=True)


class CappedLog:
    """What is left out is counted."""

    def __init__(self, logger: logging.Logger) -> None:
        self._log = logger
        self._second, self._lines, self._left_out = 0, 0, 0

    def say(self, level: int, text: str) -> None:
        """Log it, unless there were too many in this second."""
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                self._log.warning("%d lines of its log were left out", self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        self._lines += 1
        if self._lines > _MOST_LINES_A_SECOND:
            self._left_out += 1
        else:
            self._log.log(level, "%s", visible(text[-_MOST_LOGGED:], keep="\n\t"))


def _body(
    handler: str, arguments: Mapping[str, object], sent: RequestArguments
) -> dict[str, object]:
    return {
        "handler": handler,
        "arguments": to_json(arguments),
        "path": dict(sent.get("path", {})),
        "query": dict(sent.get("query", {})),
        "tolerant": sent.get("tolerant", False),
    }
