"""An untrusted module, whose code runs in a container without a network and reaches the daemon by
its HTTP API. What it answers is checked like any input from outside.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from parachuted.modules.hosting.module_containers import (
    LIMITS,
    ModuleClient,
    ModuleContainers,
)
from parachuted.modules.hosting.module_state import watch_size
from parachuted.modules.hosting.service_calls import (
    LARGEST_BODY,
    LINES,
    ModuleLine,
    read_sent,
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
_MOST_PROBLEM, _MOST_LOGGED, _MOST_LINES_A_SECOND = 20_000, 4_000, 100
_LARGE = 1 << 16  # takes long enough to read that the loop leaves it to a thread
_SENT = ("name", "copy", "digest", "tree", "trust", "import_paths", "config")


@dataclass(frozen=True, slots=True)
class _Running:
    """A container with its module; `answers` are those that calls wait for, by the call's id."""

    client: ModuleClient
    container: Container
    answers: dict[str, asyncio.Future[ModuleLine]] = field(default_factory=dict)

    async def ask(self, call: str, verb: str, asked: object, timeout_s: float) -> object:
        """Its answer, or its error. A container that exceeds the limit is ended."""
        name = self.client.name
        answer = self.answers[call] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s + _GRACE_S):
                line = dump_json({"call": call, "verb": verb, "asked": asked})
                await self.container.write(line + b"\n")
                return (await answer).result()
        except TimeoutError as error:
            why = f"the container of the module {name} did not answer within {timeout_s:g} s"
            self.container.end_soon(why)
            raise ModuleFailedError(f"{why}, and was ended") from error
        except ConnectionError as error:
            raise _ended(name) from error
        finally:
            del self.answers[call]

    def end(self, _ended_task: object) -> None:
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(_ended(self.client.name))


def _ended(name: str) -> ModuleFailedError:
    return ModuleFailedError(f"the container of the module {name} ended before it had answered")


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
        self._running: _Running | None = None
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

    async def _call(self, call: HandlerCall) -> object:
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
        return await self._ask("call", asked, call.timeout_s, call.caller)

    async def _stream(self, call: HandlerCall) -> AsyncIterator[object]:
        raise ModuleFailedError(f"{call.handler} streams, which no module in a container can")
        yield  # a generator, as the interface says

    def provides(self, name: str) -> bool:
        return self._running is not None and name in self.declared.provides

    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], caller: Caller
    ) -> object:
        asked = {"name": name, "method": method, "args": args, "kwargs": kwargs}
        return remote_value(await self._ask("interface", asked, CALL_LIMIT_S, caller))

    async def _ask(
        self, verb: str, asked: Mapping[str, object], timeout_s: float, caller: Caller
    ) -> object:
        running = self._running
        if running is None:
            raise ModuleFailedError(self._down) if self._down else self._not_running()
        with running.client.opened(caller) as call:
            return await running.ask(call, verb, asked, timeout_s)

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
        data = await asyncio.to_thread(self._data_folder)
        self._problem, loop = None, asyncio.get_running_loop()
        async with (
            self._containers.served(client) as (api, key),
            self._containers.run(self._approved, api, data) as container,
        ):
            running = _Running(client, container)
            ended = loop.create_task(container.wait())
            ended.add_done_callback(running.end)
            listening = loop.create_task(self._listen(running))
            watching = loop.create_task(watch_size(data, container.end_soon))
            try:
                document = {
                    "module": {name: getattr(self._approved, name) for name in _SENT},
                    "data_folder": data,
                    "has_model": self._services.has_model,
                    "key": key,
                    "api": api,
                }
                found = await running.ask(client.own_call, "start", document, _START_LIMIT_S)
                self._declared = self._checked(found)
                self._running, self._down = running, None
                started.set_result(None)
                await asyncio.wait((ended,))
            except ModuleFailedError:
                if not ended.done():  # else its end tells more
                    raise
            finally:
                self._running = None
                self._on_stop()
                for task in (ended, listening, watching):
                    task.cancel()
            return container.problem or f"it ended with the code {ended.result()}"

    def _data_folder(self) -> Path:
        folder = self._services.data_folder
        os.chown(folder, *container_user(), follow_symlinks=False)
        return folder

    def _checked(self, found: object) -> ModuleDeclaration:
        """Raises ModuleFailedError for what was not approved."""
        try:
            declared = _DECLARED.validate_python(found)
        except ValueError as error:
            raise ModuleFailedError(f"what it declares is invalid: {error}") from error
        manifest = self._approved.manifest
        says = (declared.name, declared.version, declared.prefix)
        wrong = unlisted(declared, self._approved.manifest)
        if says != (self.name, manifest.version, manifest.prefix):
            wrong.append(f"its container says that it is {says}")
        if wrong:
            raise ModuleFailedError("; ".join(wrong))
        return declared

    async def _listen(self, running: _Running) -> None:
        """What it prints; a ModuleLine is our program's, as far as one can know."""
        while True:
            try:
                line = await running.container.stdout.readline()
            except ValueError:  # a line beyond all measure
                running.container.end_soon("it printed a line of more than 32 MB")
                return
            if not line:
                return
            try:
                is_large = len(line) > _LARGE
                reading = asyncio.to_thread(read_sent, LINES, line) if is_large else None
                said = read_sent(LINES, line) if reading is None else await reading
            except ModuleFailedError:
                self._log(logging.INFO, line.decode(errors="replace").rstrip())
                continue
            self._problem = said.problem and said.problem[-_MOST_PROBLEM:]
            answer = running.answers.get(said.call)
            if answer is not None and not answer.done():
                answer.set_result(said)
            elif said.text:
                self._log(said.level, said.text)

    def _log(self, level: int, text: str) -> None:
        """Log it, unless there were too many in this second."""
        second = int(time.monotonic())
        self._lines = self._lines + 1 if second == self._second else 1
        self._second = second
        if self._lines == _MOST_LINES_A_SECOND:
            self._services.log.warning("lines of its log are left out")
        elif self._lines < _MOST_LINES_A_SECOND:
            self._services.log.log(level, "%s", visible(text[-_MOST_LOGGED:], keep="\n\t"))
