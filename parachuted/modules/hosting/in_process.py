"""A module whose code runs in the daemon's own process, with its failures contained.

Whatever it raises, however long it waits and whatever it starts is contained and reported as that
module's. Code that kills or blocks the process is not: such a module needs its own container.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from parachuted.access.authority import Authority
from parachuted.errors import ActRefusedError, ModuleFailedError, ParachuteError
from parachuted.modules.declare import is_offered
from parachuted.modules.hosting.host import (
    CALL_LIMIT_S,
    Args,
    MakeCallRun,
    ModuleHost,
    RequestArguments,
)
from parachuted.modules.hosting.loading import load_class, unload
from parachuted.modules.hosting.task_owner import OverdueError, TaskOwner, claim_tasks, traceback_of
from parachuted.modules.module import Module, is_every_modules
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import plan
from parachuted.modules.registry.declaration import (
    DeclaredError,
    ModuleDeclaration,
    describe,
    resolve_handler,
    unlisted,
)
from parachuted.modules.results import BytesResponse, FileResponse, Response, to_json
from parachuted.modules.services import Services
from parachuted.modules.settings import read_settings
from parachuted.modules.streams import OPENED, ServerEvent, Stream, StreamOpened

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_BEGIN_LIMIT_S, _DISABLE_LIMIT_S = 10.0, 5.0
_IMPORT = "the import"


class InProcessHost(ModuleHost):
    """One trusted module at work in this process.

    All on the event loop, but the loading of its code.
    """

    where = "in process"

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        make_run: MakeCallRun | None = None,
        *,
        begin_limit_s: float = _BEGIN_LIMIT_S,
        on_problem: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_problem` is called when `problem` may have become another one."""
        super().__init__(approved, services, make_run)
        self._begin_limit_s, self._on_problem = begin_limit_s, on_problem
        self._owner = TaskOwner(self.name, lambda said: self._note("in the background", said))
        self._problems: dict[str, str] = {}
        self._handlers: dict[str, _Handler] = {}
        self._module: Module | None = None
        self._interfaces: Mapping[str, object] = {}
        self._is_enabled = False

    @property
    def problem(self) -> str | None:
        return next(reversed(self._problems.values()), None)

    async def _start(self, authority: Authority) -> None:
        claim_tasks(asyncio.get_running_loop())
        approved, limit_s = self._approved, self._begin_limit_s
        try:
            cls, self._declared = await self._contained(
                _IMPORT, _in_thread(self._load, self.name), limit_s, authority
            )
            read_settings(cls.Settings, approved.config, approved.config_lines)
            module = self._module = await self._contained(
                "the constructor", _made(cls, self._services), limit_s, authority
            )
            self._is_enabled = True
            await self._contained("on_enable", module.on_enable(), limit_s, authority)
            found = await self._contained(
                "interfaces", _awaited(module.interfaces), limit_s, authority
            )
            named = dict(found) if isinstance(found, Mapping) else {}
            self._interfaces = {name: named.get(name, module) for name in self.declared.provides}
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._module is not None and self._is_enabled:
            self._is_enabled = False
            with contextlib.suppress(ModuleFailedError):  # it is in `problem`
                await self._contained(
                    "on_disable", self._module.on_disable(), _DISABLE_LIMIT_S, Authority()
                )
        if stubborn := await self._owner.end():
            self._note(
                "stop",
                f"{len(stubborn)} of its tasks do not end when they are cancelled "
                f"({', '.join(stubborn[:5])})",
            )
        self._module, self._interfaces = None, {}
        self._handlers.clear()
        unload(self.name, self._approved.tree)

    def provides(self, name: str) -> bool:
        return self._is_enabled and name in self._interfaces

    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], authority: Authority
    ) -> object:
        found = self._interfaces.get(name)
        if not is_offered(found, name, method) or is_every_modules(method, found):
            raise ActRefusedError(
                f"{name} has no method {method}: its provider declares one by @interface({name!r})"
            )
        function = getattr(found, method)
        inspect.signature(function).bind(*args, **kwargs)  # the caller's mistake, if it is one
        work = _awaited(function, *args, **kwargs)
        return await self._contained(
            f"{name}.{method}", work, CALL_LIMIT_S, authority, has_caller=True
        )

    async def _call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        timeout_s: float,
        authority: Authority,
        sent: RequestArguments,
    ) -> object:
        found = self._handler(handler)
        work = _answer(found.function, found.bind(arguments, sent))
        return await self._contained(handler, work, timeout_s, authority, has_caller=True)

    async def _tell(
        self, handler: str, data: Mapping[str, object], timeout_s: float, authority: Authority
    ) -> None:
        found = self._handler(handler)
        work = _awaited(found.function, **found.arguments.bind_data(data))
        await self._contained(handler, work, timeout_s, authority)

    async def _stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        after: str | None,
        authority: Authority,
        sent: RequestArguments,
    ) -> AsyncIterator[object]:
        """It runs as the module's own task and is one item ahead at most."""
        found = self._handler(handler)
        source = _streamed(found.function, found.bind(arguments, sent), after)
        channel = _ItemChannel()
        task = self._owner.begin(channel.run(source), authority)
        try:
            async for item in channel.items(task):
                yield item
        finally:
            task.cancel()
        await self._contained(
            handler, _awaited(lambda: task), CALL_LIMIT_S, authority, has_caller=True
        )

    def _load(self) -> tuple[type[Module], ModuleDeclaration]:
        approved = self._approved
        cls = load_class(
            approved.copy,
            approved.name,
            approved.manifest,
            approved.import_paths,
            tree=approved.tree,
        )
        declared = describe(cls, approved.manifest)
        if wrong := unlisted(declared, approved):
            unload(approved.name, approved.tree)
            raise DeclaredError(wrong)
        return cls, declared

    def _handler(self, name: str) -> _Handler:
        if self._module is None:
            raise ModuleFailedError(
                f"the module {self.name} is not running; `parachute modules status` says why"
            )
        if name not in self._handlers:
            self._handlers[name] = _Handler(resolve_handler(self._module, name))
        return self._handlers[name]

    async def _contained(
        self,
        what: str,
        work: Coroutine[Any, Any, Result],
        timeout_s: float,
        authority: Authority,
        *,
        has_caller: bool = False,
    ) -> Result:
        """Run the module's code with that authority.

        A failure is kept as the problem and raised as ModuleFailedError, which may reach anyone who
        calls, so it only says where to look. `has_caller`: a named error is an answer for the
        caller, and not the module's failure.
        """
        try:
            result = await self._owner.run(work, timeout_s, authority)
        except Exception as error:  # a wall: it is the module's code that failed
            is_answer = isinstance(error, ParachuteError) and not isinstance(
                error, ModuleFailedError
            )
            if has_caller and is_answer:
                self._problems.pop(what, None)
                raise
            if isinstance(error, OverdueError):
                said = f"{what} was not done after {timeout_s:g} s, and was ended"
            elif what is _IMPORT and isinstance(error, ModuleFailedError):
                said = str(error).rstrip()
            else:
                said = traceback_of(error)
            self._note(what, said, error)
            raise ModuleFailedError(
                f"the module {self.name} failed in {what}; `parachute modules status {self.name}` "
                "shows how"
            ) from error
        self._problems.pop(what, None)
        return result

    def _note(self, what: str, problem: str, error: Exception | None = None) -> None:
        """Keep and log a failure of the module, until that goes well or it is restarted."""
        self._problems.pop(what, None)
        self._problems[what] = problem
        self._on_problem()
        last = problem.rpartition("\n")[2]
        log.warning(
            "a module failed", exc_info=error, extra={"of": self.name, "in": what, "problem": last}
        )


class _Handler:
    """A function of the module's, and what it takes."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.arguments = plan(function)

    def bind(self, body: Mapping[str, object], sent: RequestArguments) -> dict[str, object]:
        return self.arguments.bind(
            sent.get("path", {}),
            sent.get("query", {}),
            body,
            tolerant=sent.get("tolerant", False),
            source=sent.get("source"),
        )


async def _made(cls: type[Module], services: Services) -> Module:
    return cls(services)


async def _awaited(function: Callable[..., object], *args: object, **kwargs: object) -> object:
    result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def _answer(function: Callable[..., object], bound: Mapping[str, object]) -> object:
    result = function(**bound)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, Response):
        return replace(result, body=to_json(result.body))
    return result if isinstance(result, FileResponse | BytesResponse) else to_json(result)


async def _streamed(
    function: Callable[..., object], bound: Mapping[str, object], after: str | None
) -> AsyncGenerator[object, None]:
    made = function(**bound)
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, Stream):
        yield OPENED
        made = made.read(after)
    if not inspect.isasyncgen(made):
        raise ModuleFailedError("the handler returns something else than the Stream it declares")
    async with contextlib.aclosing(made) as items:
        async for item in items:
            yield item


def _plain_item(item: object) -> object:
    if isinstance(item, ServerEvent):
        return replace(item, data=to_json(item.data))
    return item if isinstance(item, StreamOpened) else to_json(item)


class _ItemChannel:
    """Passes a generator's items, one at a time, from the module's task to the caller's."""

    def __init__(self) -> None:
        self._item: list[object] = []
        self._ready, self._consumed = asyncio.Event(), asyncio.Event()

    async def run(self, source: AsyncGenerator[object, None]) -> None:
        """The module's side. It goes on when the item was taken."""
        async with contextlib.aclosing(source):
            async for item in source:
                self._consumed.clear()
                self._item.append(_plain_item(item))
                self._ready.set()
                await self._consumed.wait()

    async def items(self, task: asyncio.Task[None]) -> AsyncIterator[object]:
        task.add_done_callback(lambda _task: self._ready.set())
        while self._item or not task.done():
            if not self._item:
                await self._ready.wait()
                self._ready.clear()
                continue
            yield self._item.pop()
            self._consumed.set()


async def _in_thread(function: Callable[[], Result], name: str) -> Result:
    """Run it in a daemon thread, which exit does not wait for: an import may never return."""
    future = concurrent.futures.Future[Result]()
    future.set_running_or_notify_cancel()  # so that it takes the result also when no one waits

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  a module's code: it goes to the caller
            future.set_exception(error)

    threading.Thread(target=run, name=f"loading {name}", daemon=True).start()
    return await asyncio.wrap_future(future)
