"""An untrusted module, whose code runs in an isolated process behind a pipe.

Its requests are carried out here, by services that hold its rights; the process has none.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from pydantic import TypeAdapter, ValidationError

from parachuted.access.authority import NO_AUTHORITY, Authority, acting
from parachuted.access.origin import Taint
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.answer_codec import OpenBodies, has_bytes, item_of, result_of
from parachuted.modules.hosting.framing import AskFrame, LogFrame
from parachuted.modules.hosting.host_process import CappedLog, ModuleHostProcess, new_mark
from parachuted.modules.hosting.isolation import IsolationFactory, IsolationKind
from parachuted.modules.hosting.module_state import watch_size
from parachuted.modules.hosting.remote_interface import RemoteInterface
from parachuted.modules.hosting.request_server import OpenCalls, RequestServer
from parachuted.modules.hosting.rpc import RpcConnection
from parachuted.modules.hosting.running_module import CALL_LIMIT_S, RequestArguments
from parachuted.modules.hosting.start_frame import StartFrame
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.code_inspection import CodeInspection, found_in_copy, unshown
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.registry.describing import unapproved
from parachuted.modules.results import MOST_BYTES, to_json
from parachuted.modules.services import Services

log = logging.getLogger(__name__)

_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)
_START_LIMIT_S = (
    90.0  # its import, its constructor, on_enable: each has a limit of its own, in the process
)
_STOP_LIMIT_S = 5.0
_GRACE_S = 2.0
_LAST_WORDS_S = 1.0
_LONGEST_WAIT_S, _WELL_S = 60.0, 60.0
_MOST_STREAMS = 64
_MOST_PROBLEM = 20_000
_PROBLEM = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDelays:
    """Seconds before the first restart, between health checks, and for their answers."""

    first_wait_s: float = 0.5
    ping_every_s: float = 15.0
    ping_limit_s: float = 10.0


class ModuleHost:
    """One untrusted module.

    A process that dies is restarted after a growing delay; meanwhile its calls fail.
    """

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        isolation: IsolationFactory,
        *,
        pace: RestartDelays | None = None,
    ) -> None:
        self._approved = approved
        self._name = approved.name
        self._isolation = isolation
        self._services = services
        self._serving = RequestServer(services)
        self._log = CappedLog(services.log)
        self._pace = pace or RestartDelays()
        self._declared: ModuleDeclaration | None = None
        self._in_code = CodeInspection()
        self._connection: RpcConnection | None = None
        self._taint = Taint()
        self._own = Authority()
        self._calls = OpenCalls(self._name, self._taint)
        self._process: ModuleHostProcess | None = None
        self._runner: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self._down: str | None = None
        self._problem: str | None = None
        self._streams = itertools.count(1)
        self._open_streams = 0
        self._bodies = OpenBodies(self._name)
        self.isolated_by: IsolationKind | None = None

    @property
    def declared(self) -> ModuleDeclaration:
        if self._declared is None:
            raise ModuleFailedError(
                f"the module {self._name} is not loaded; `parachute modules status` says why"
            )
        return self._declared

    @property
    def problem(self) -> str | None:
        return self._down or self._problem

    @property
    def limits(self) -> str | None:
        return self._process.limits if self._process else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self, authority: Authority | None = None) -> None:
        self._own = authority or Authority()
        loop = asyncio.get_running_loop()
        self._in_code = await asyncio.to_thread(found_in_copy, self._approved.copy)
        self._stopping.clear()
        self._started = loop.create_future()
        context = contextvars.Context()  # its life is not part of whatever began it
        self._runner = loop.create_task(
            self._keep(self._started), name=f"the process of module {self._name}", context=context
        )
        try:
            await asyncio.shield(self._started)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        self._stopping.set()
        connection, runner = self._connection, self._runner
        try:
            if connection is not None:
                with suppress(Exception):  # however it goes, the process ends now
                    await connection.ask(
                        "stop",
                        {},
                        urgent=True,
                        timeout_s=_STOP_LIMIT_S,
                        opened=self._opening(Authority()),
                    )
        finally:
            if self._process is not None:
                self._process.kill("it was stopped")
        if runner is not None:
            await asyncio.wait((runner,))
            self._runner = None

    async def call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> object:
        number = next(self._streams)
        with self._bodies.opened(sent.get("source")) as opened:
            body = {
                **_body(handler, arguments, sent),
                "timeout_s": timeout_s,
                "source": opened,
                "stream": number,
            }
            answer = await self._ask("call", body, timeout_s, authority)
        if not has_bytes(answer):
            return result_of(answer)
        data = b""
        async with aclosing(self._items(number, authority)) as items:  # type: ignore[type-var]
            async for item in items:
                data += item if isinstance(item, bytes) else b""
                if len(data) > MOST_BYTES:
                    raise ModuleFailedError(f"the answer is longer than {MOST_BYTES:,} bytes")
        return result_of(answer, data)

    async def tell(
        self,
        handler: str,
        data: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
    ) -> None:
        await self._ask(
            "tell",
            {"handler": handler, "data": to_json(data), "timeout_s": timeout_s},
            timeout_s,
            authority,
        )

    async def stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        after: str | None = None,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> AsyncIterator[object]:
        """What a streaming handler yields: asked for one by one, so that a slow reader slows the
        module and fills nothing.
        """
        if self._open_streams >= _MOST_STREAMS:
            raise ModuleFailedError(
                f"the module {self._name} has {_MOST_STREAMS} streams open already; try again later"
            )
        number = next(self._streams)
        self._open_streams += 1
        try:
            with self._bodies.opened(sent.get("source")) as opened:
                asked = _body(handler, arguments, sent)
                await self._ask(
                    "stream",
                    {"stream": number, **asked, "source": opened, "after": after},
                    CALL_LIMIT_S,
                    authority,
                )
                async with aclosing(self._items(number, authority)) as items:  # type: ignore[type-var]
                    async for item in items:
                        yield item
        finally:
            self._open_streams -= 1

    async def _items(self, number: int, authority: Authority) -> AsyncIterator[object]:
        """What the process has under that number, one by one; it is closed at the end."""
        try:
            while True:
                self._calls.check_room()
                found = await self._usable().ask(
                    "next", {"stream": number}, urgent=True, opened=self._opening(authority)
                )
                if found == {}:
                    return
                yield found if isinstance(found, bytes) else item_of(found)
        finally:
            with suppress(ModuleFailedError):  # its process is gone, and the stream with it
                await self._ask("close", {"stream": number}, CALL_LIMIT_S, authority, urgent=True)

    def interface(self, name: str, authority: Authority = NO_AUTHORITY) -> object | None:
        is_there = (
            self._connection is not None
            and self._declared is not None
            and name in self._declared.provides
        )
        if not is_there:
            return None
        return RemoteInterface(
            name, lambda body: self._ask("interface", body, CALL_LIMIT_S, authority)
        )

    def _usable(self) -> RpcConnection:
        if self._connection is None:
            raise ModuleFailedError(
                self._down
                or f"the module {self._name} is not running; `parachute modules status` says why"
            )
        return self._connection

    async def _ask(
        self,
        verb: str,
        body: Mapping[str, object],
        timeout_s: float,
        authority: Authority,
        *,
        urgent: bool = False,
    ) -> object:
        """Call the process.

        It enforces the limit itself; one that does not answer even so is blocked, and is ended.
        """
        connection, process = self._usable(), self._process
        if not urgent:
            self._calls.check_room()
        try:
            answer = await connection.ask(
                verb,
                body,
                urgent=urgent,
                timeout_s=timeout_s + _GRACE_S,
                opened=self._opening(authority),
            )
        except TimeoutError as error:
            said = f"the process of the module {self._name} did not answer within {timeout_s:g} s"
            if process is not None:
                process.kill(said)
            raise ModuleFailedError(f"{said}, and was ended") from error
        if isinstance(answer, bytes):
            raise ModuleFailedError("the module's process gave an invalid answer")
        return answer

    def _opening(self, authority: Authority) -> Callable[[int], None]:
        """What it asks while it works on that, and after, is done on that authority."""
        return lambda asked: self._calls.open(asked, authority)

    async def _serve(self, calls: OpenCalls, ask: AskFrame) -> object:
        authority = calls.find(ask.of)
        try:
            with acting(authority):
                served = self._bodies if ask.verb.startswith("body.") else self._serving
                return await served.serve(ask)
        finally:
            calls.read(authority)

    async def _keep(self, started: asyncio.Future[None]) -> None:
        wait_s = self._pace.first_wait_s
        while True:
            started_at = time.monotonic()
            try:
                why = await self._live(started)
            except ModuleFailedError as error:
                why = str(error)
            except (
                Exception
            ) as error:  # a wall: whatever it was, the module is down and nothing else
                log.exception("a module's process was lost", extra={"of": self._name})
                why = repr(error)
            if not started.done():
                started.set_exception(
                    ModuleFailedError(f"the module {self._name} could not be started: {why}")
                )
            if self._stopping.is_set() or started.exception() is not None:
                return
            wait_s = self._pace.first_wait_s if time.monotonic() - started_at > _WELL_S else wait_s
            self._down = (
                f"the process of the module {self._name} is down and restarts in "
                f"{wait_s:g} s: {why}"
            )[:_MOST_PROBLEM]
            self._log.say(logging.ERROR, self._down)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._stopping.wait()
                    return
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _live(self, started: asyncio.Future[None]) -> str:
        """One process from its beginning to its end; why it ended."""
        mark = new_mark()
        data = await asyncio.to_thread(lambda: self._services.data_folder)
        launch = await self._isolation.hold(self._approved, mark, data=data)
        self.isolated_by = launch.kind
        process = self._process = await ModuleHostProcess.start(launch, mark)
        if self._stopping.is_set():  # `stop` found no process to end
            process.kill("it was stopped")
        self._problem = None
        try:
            async with asyncio.TaskGroup() as group:
                calls = self._calls = OpenCalls(self._name, self._taint)
                connection = RpcConnection(
                    process.send,
                    partial(self._serve, calls),
                    group,
                    say=self._hear,
                    ended=calls.close,
                )
                printed = group.create_task(
                    process.listen(self._print), name=f"what {self._name} prints"
                )
                frame = StartFrame.of(
                    self._approved,
                    launch.rules,
                    data_folder=data,
                    has_model=self._services.has_model,
                )
                begin = self._begin(connection, process, frame, started)
                tending = group.create_task(begin, name=f"tending {self._name}")
                watching = group.create_task(process.watch(), name=f"watching {self._name}")
                sizing = group.create_task(
                    watch_size(data, process.kill), name=f"data of {self._name}"
                )
                try:
                    await process.read(connection)
                finally:
                    watching.cancel()
                    sizing.cancel()
                    self._connection = None
                    connection.end(
                        ModuleFailedError(
                            f"the process of the module {self._name} ended before it had answered"
                        )
                    )
                    tending.cancel()
                    await process.close()
                    await asyncio.wait((printed,), timeout=_LAST_WORDS_S)
                    printed.cancel()
                    process.let_go()
        finally:
            self._process = None
            self._serving.close()
        return process.reason

    async def _begin(
        self,
        connection: RpcConnection,
        process: ModuleHostProcess,
        body: Mapping[str, object],
        started: asyncio.Future[None],
    ) -> None:
        try:
            answer = await connection.ask(
                "start",
                body,
                urgent=True,
                timeout_s=_START_LIMIT_S,
                opened=self._opening(replace(self._own, taint=Taint())),
            )
            declared = self._checked(answer)
        except (ModuleFailedError, TimeoutError) as error:
            why = str(error) or f"it was not ready after {_START_LIMIT_S:g} s"
            if (
                not connection.is_ended and not started.done()
            ):  # the reason why a process ended is known better where it is kept
                started.set_exception(ModuleFailedError(why))
            process.kill(why)
            return
        self._declared, self._connection, self._down = declared, connection, None
        if not started.done():
            started.set_result(None)
        try:
            while True:
                await asyncio.sleep(self._pace.ping_every_s)
                await connection.ask("ping", {}, urgent=True, timeout_s=self._pace.ping_limit_s)
        except TimeoutError:
            process.kill("it stood still: something in it blocks")
        except ModuleFailedError:
            return  # it has ended

    def _checked(self, declared: object) -> ModuleDeclaration:
        """The process's declaration, checked against what the daemon knows.

        Raises ModuleFailedError.
        """
        try:
            found = _DECLARED.validate_python(declared)
        except ValidationError as error:
            raise ModuleFailedError(
                f"what the module {self._name} declares is invalid: {error}"
            ) from error
        manifest = self._approved.manifest
        if (found.name, found.version, found.prefix) != (
            self._name,
            manifest.version,
            manifest.prefix,
        ):
            raise ModuleFailedError(
                f"the process of the module {self._name} says that it is {found.name} "
                f"{found.version} at {found.prefix}"
            )
        if wrong := unapproved(found.agents, manifest) or unshown(found, manifest, self._in_code):
            raise ModuleFailedError("; ".join(wrong))
        if self._declared is not None and found != self._declared:
            raise ModuleFailedError(
                f"the module {self._name} declares something else than when it was started; "
                "restart it"
            )
        return found

    def _hear(self, said: LogFrame) -> None:
        if said.level == _PROBLEM:
            self._problem = said.text[:_MOST_PROBLEM] or None
        else:
            self._log.say(min(max(said.level, logging.DEBUG), logging.CRITICAL), said.text)

    def _print(self, line: str) -> None:
        self._log.say(logging.INFO, line)


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
