"""A module whose code runs in the daemon's own process, with its failures contained.

Whatever it raises, however long it waits and whatever it starts is contained and reported as that
module's. Code that kills or blocks the process is not: such a module needs its own process.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar, Unpack, cast

from parachuted.access.authority import NO_AUTHORITY, Authority
from parachuted.errors import ModuleFailedError, ParachuteError
from parachuted.modules.declare import is_offered
from parachuted.modules.hosting.loading import load_class, unload
from parachuted.modules.hosting.running_module import CALL_LIMIT_S, RequestArguments
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

BEGIN_LIMIT_S = 10.0
DISABLE_LIMIT_S = 5.0  # as a module in a process of its own has
_IMPORT = "the import"
_BACKGROUND = "in the background"


class InProcessHost:
    """One trusted module at work in this process.

    All on the event loop, but the loading of its code.
    """

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        *,
        begin_limit_s: float = BEGIN_LIMIT_S,
        most_tasks: int = 1000,
        on_problem: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_problem` is called when `problem` may have become another one."""
        self._approved = approved
        self._services = services
        self._begin_limit_s = begin_limit_s
        self._name = approved.name
        self._owner = TaskOwner(approved.name, self._failed_unseen, most_tasks=most_tasks)
        self._problems: dict[str, str] = {}
        self._on_problem = on_problem
        self._handlers: dict[str, _Handler] = {}
        self._module: Module | None = None
        self._declared: ModuleDeclaration | None = None
        self._interfaces: Mapping[str, object] = {}
        self._is_enabled = False

    @property
    def declared(self) -> ModuleDeclaration:
        if self._declared is None:
            raise ModuleFailedError(
                f"the module {self._name} is not loaded; `parachute modules status` says why"
            )
        return self._declared

    @property
    def problem(self) -> str | None:
        return next(reversed(self._problems.values()), None)

    @property
    def limits(self) -> None:
        return

    def blame(self, subject: str, problem: str) -> None:
        """Record a problem of the module that was noticed from outside, until it is restarted."""
        self._problems.pop(subject, None)
        self._problems[subject] = problem
        self._on_problem()

    async def start(self, authority: Authority | None = None) -> None:
        claim_tasks(asyncio.get_running_loop())
        own, limit_s = authority or Authority(), self._begin_limit_s
        try:
            made, self._declared = await self._contained(
                _IMPORT, _in_thread(self._load, self._name), limit_s, own
            )
            approved = self._approved
            read_settings(made.Settings, approved.config, approved.config_lines)
            self._module = await self._contained(
                "the constructor", self._construct(made), limit_s, own
            )
            self._is_enabled = True
            await self._contained("on_enable", self._module.on_enable(), limit_s, own)
            found = await self._contained(
                "interfaces", _awaited(self._module.interfaces), limit_s, own
            )
            named = dict(found) if isinstance(found, Mapping) else {}
            self._interfaces = {
                name: named.get(name, self._module) for name in self.declared.provides
            }
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._module is not None and self._is_enabled:
            self._is_enabled = False
            with contextlib.suppress(ModuleFailedError):  # it stands in `problem`
                await self._contained(
                    "on_disable", self._module.on_disable(), DISABLE_LIMIT_S, Authority()
                )
        stubborn = await self._owner.end()
        if stubborn:
            self.blame(
                "stop",
                f"{len(stubborn)} of its tasks do not end when they are cancelled "
                f"({', '.join(stubborn[:5])})",
            )
            log.error("a module's tasks do not end", extra={"of": self._name, "tasks": stubborn})
        self._module, self._interfaces = None, {}
        self._handlers.clear()
        unload(self._name, self._approved.tree)

    async def call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> object:
        found = self._handler(handler)
        bound = found.bind(arguments, sent)
        return await self._contained(
            handler, _answer(found.function, bound), timeout_s, authority, has_caller=True
        )

    async def tell(
        self,
        handler: str,
        data: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
    ) -> None:
        found = self._handler(handler)
        await self._contained(
            handler,
            _awaited(found.function, **found.arguments.bind_data(data)),
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
        """What a streaming handler yields, or the Stream that it returns holds.

        It runs as the module's own task and is one item ahead at most.
        """
        found = self._handler(handler)
        channel = _ItemChannel()
        bound = found.bind(arguments, sent)
        task = self._owner.begin(channel.run(_streamed(found.function, bound, after)), authority)
        try:
            async for item in channel.items(task):
                yield item
        finally:
            task.cancel()
        await self._contained(
            handler, _awaited(lambda: task), CALL_LIMIT_S, authority, has_caller=True
        )

    def interface(self, name: str, authority: Authority = NO_AUTHORITY) -> object | None:
        found = self._interfaces.get(name)
        return (
            None
            if found is None or not self._is_enabled
            else _ContainedInterface(name, found, self._contained, authority)
        )

    def _load(self) -> tuple[type[Module], ModuleDeclaration]:
        approved = self._approved
        made = load_class(
            approved.copy,
            approved.name,
            approved.manifest,
            approved.import_paths,
            tree=approved.tree,
        )
        declared = describe(made, approved.manifest)
        if wrong := unlisted(declared, approved):
            unload(approved.name, approved.tree)
            raise DeclaredError(wrong)
        return made, declared

    async def _construct(self, made: type[Module]) -> Module:
        return made(self._services)

    def _handler(self, name: str) -> _Handler:
        if self._module is None:
            raise ModuleFailedError(
                f"the module {self._name} is not running; `parachute modules status` says why"
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

        A failure is kept as the problem and raised as ModuleFailedError. `has_caller`: a named
        error is an answer for the caller, and not the module's failure.
        """
        try:
            result = await self._owner.run(work, timeout_s, authority)
        except OverdueError as error:
            raise self._failed(
                what, f"{what} was not done after {timeout_s:g} s, and was ended"
            ) from error
        except ModuleFailedError as error:
            raise self._failed(
                what, str(error).rstrip() if what is _IMPORT else traceback_of(error), error
            ) from error
        except ParachuteError as error:  # such as: what it asked of the vault could not be done
            if not has_caller:
                raise self._failed(what, traceback_of(error), error) from error
            self._problems.pop(what, None)
            raise
        except Exception as error:  # a module's callback
            raise self._failed(what, traceback_of(error), error) from error
        self._problems.pop(what, None)
        return result

    def _failed(self, what: str, problem: str, error: Exception | None = None) -> ModuleFailedError:
        """Keep and log the whole; the error, which may reach anyone who calls, tells where to
        look.
        """
        self.blame(what, problem)
        last = problem.rpartition("\n")[2]
        log.warning(
            "a module failed", exc_info=error, extra={"of": self._name, "in": what, "problem": last}
        )
        return ModuleFailedError(
            f"the module {self._name} failed in {what}; `parachute modules status {self._name}` "
            "shows how"
        )

    def _failed_unseen(self, problem: str) -> None:
        self._failed(_BACKGROUND, problem)


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


class _ContainedInterface:
    """The methods of a module's object that other modules may call, with failures contained."""

    def __init__(
        self,
        name: str,
        found: object,
        contained: Callable[..., Awaitable[object]],
        authority: Authority,
    ) -> None:
        self._name, self._found, self._call, self._authority = name, found, contained, authority

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        is_offered_here = is_offered(self._found, self._name, method) and not is_every_modules(
            method, self._found
        )
        if method.startswith("_") or not is_offered_here:
            raise AttributeError(
                f"{self._name} has no method {method}: its provider declares one by "
                f"@interface({self._name!r})"
            )
        function = getattr(self._found, method)

        async def call(*args: object, **kwargs: object) -> object:
            inspect.signature(function).bind(*args, **kwargs)  # the caller's mistake, if it is one
            work = _awaited(function, *args, **kwargs)
            return await self._call(
                f"{self._name}.{method}", work, CALL_LIMIT_S, self._authority, has_caller=True
            )

        return call


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
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("Result", result))

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except Exception as raised:  # noqa: BLE001  a module's code: it goes to the caller
            error = raised
        except BaseException as raised:  # noqa: BLE001  the same; a future takes no StopIteration, and a loop no SystemExit
            error = ModuleFailedError(traceback_of(raised))
        with contextlib.suppress(RuntimeError):  # the loop is closed: the caller has gone
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, name=f"loading {name}", daemon=True).start()
    return await future
