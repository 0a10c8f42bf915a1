"""A trusted module, whose code runs in the daemon's process: its failures are contained. It is
compiled from the approved copy's source, without bytecode, which could be planted, and without its
folder on `sys.path`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar, cast

from parachuted.access.caller import Caller, act_for
from parachuted.errors import ActRefusedError, ModuleFailedError, ParachuteError, UnfitError
from parachuted.modules.declare import is_offered
from parachuted.modules.hosting.host import (
    CALL_LIMIT_S,
    Args,
    HandlerCall,
    MakeCallRun,
    ModuleHost,
)
from parachuted.modules.module import Module, ModuleTasks, spawned_by
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import HandlerArguments
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.declaration import (
    ModuleDeclaration,
    describe,
    resolve_handler,
    unlisted,
)
from parachuted.modules.results import (
    BytesResponse,
    Response,
    ServerEvent,
    to_json,
)
from parachuted.modules.services import Services
from parachuted.modules.settings import read_settings

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_PACKAGE = "parachute_modules"
_IMPORT_PATHS = "__import_paths__"
_BEGIN_LIMIT_S, _DISABLE_LIMIT_S, _CANCEL_LIMIT_S = 60.0, 5.0, 1.0
_IMPORT = "the import"
_MOST_TEXT = 20_000
_END = object()


def load_class(approved: ApprovedModule) -> type[Module]:
    """The class that the manifest's file holds. A copy whose digest is not the approved one does
    not run. Loading again unloads first. Raises ModuleFailedError, with the traceback of a failed
    import.
    """
    name, file = approved.name, approved.manifest.module.removesuffix(".py")
    try:
        is_approved, why = read_tree(approved.copy).digest == approved.tree, "it was changed"
    except UnfitError as error:
        is_approved, why = False, str(error)
    if not is_approved:
        raise ModuleFailedError(
            f"the copy of {name} is not what was approved, so it does not run ({why}); approve it "
            "again"
        )
    unload(approved)
    try:
        _load_package(approved)
        return _class_of(importlib.import_module(f"{package_name(approved)}.{file}"), name)
    except BaseException as error:  # a module may raise SystemExit at import: it has failed
        unload(approved)
        if isinstance(error, ModuleFailedError):
            raise
        raise ModuleFailedError(
            f"the module {name} could not be imported:\n{traceback_of(error)}"
        ) from error


def unload(approved: ApprovedModule) -> None:
    """Forget that version of the module, its imports and its import paths."""
    package = package_name(approved)
    for path in getattr(sys.modules.get(package), _IMPORT_PATHS, ()):
        with contextlib.suppress(ValueError):
            sys.path.remove(path)  # another module that needs it put it there once more
    for loaded in list(sys.modules):
        if loaded == package or loaded.startswith(f"{package}."):
            del sys.modules[loaded]


def package_name(approved: ApprovedModule) -> str:
    tree = approved.tree.removeprefix("sha256:")[:8]
    return f"{_PACKAGE}.{approved.name.replace('-', '_')}_{tree}"


def _load_package(approved: ApprovedModule) -> None:
    """Make the copy a package, with finders of its own, and put the module's dependencies last on
    the path, so that they cannot replace the daemon's.
    """
    parent = ModuleType(_PACKAGE, "Modules: the packages of the modules that are loaded.")
    parent.__path__ = []
    sys.modules.setdefault(_PACKAGE, parent)
    name, copy, front = package_name(approved), str(approved.copy), approved.copy / "__init__.py"
    loaders = (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES)
    for folder in (copy, *(str(path) for path in approved.copy.rglob("*") if path.is_dir())):
        sys.path_importer_cache[folder] = FileFinder(folder, *loaders)
    import_paths = [str(path) for path in approved.import_paths]
    sys.path.extend(import_paths)
    importlib.invalidate_caches()
    loader = _SourceLoader(name, str(front))
    spec = ModuleSpec(name, loader, origin=loader.path, is_package=True)
    spec.submodule_search_locations, spec.has_location = [copy], True
    package = sys.modules[name] = module_from_spec(spec)
    setattr(package, _IMPORT_PATHS, import_paths)
    loader.exec_module(package)


def _class_of(module: ModuleType, name: str) -> type[Module]:
    """The one class of that file; imported base classes do not count."""
    found = {
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Module)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    }
    found -= {base for cls in found for base in cls.__mro__[1:]}
    if len(found) != 1:
        names = ", ".join(sorted(cls.__name__ for cls in found)) or "none"
        raise ModuleFailedError(
            f"the module {name} needs one class that inherits from Module in its file; it has "
            f"{names}"
        )
    return found.pop()


class _SourceLoader(SourceFileLoader):
    """Compiles the source at each load. A copy without `__init__.py` is an empty package."""

    def path_stats(self, path: str) -> NoReturn:
        """Without times, Python neither reads bytecode nor writes any."""
        raise OSError(f"no bytecode is kept of {path}")

    def get_data(self, path: str) -> bytes:
        if path == self.path and not Path(path).exists():
            return b""
        return super().get_data(path)


class InProcessHost(ModuleHost):
    where = "in process"

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        make_run: MakeCallRun | None = None,
        on_stop: Callable[[], None] = lambda: None,
        *,
        begin_limit_s: float = _BEGIN_LIMIT_S,
        on_problem: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(approved, services, make_run, on_stop)
        self._begin_limit_s, self._on_problem = begin_limit_s, on_problem
        self._tasks = ModuleTasks()
        self._problems: dict[str, str] = {}
        self._handlers: dict[str, tuple[Callable[..., object], HandlerArguments]] = {}
        self.instance: Module | None = None
        self._interfaces: Mapping[str, object] = {}
        self._is_enabled = False

    @property
    def problem(self) -> str | None:
        return next(reversed(self._problems.values()), None)

    async def _start(self, caller: Caller) -> None:
        context, limit_s = _context_of(caller), self._begin_limit_s
        loading = asyncio.to_thread(self._load)
        cls, self._declared = await self._run(_IMPORT, loading, limit_s, context)
        read_settings(cls.Settings, self._approved.config)
        making = _awaited(cls, self._services)
        made = await self._run("the constructor", making, limit_s, context)
        self.instance = module = cast("Module", made)
        spawned_by(module).failed = lambda error: self._note(
            "in the background", traceback_of(error)
        )
        self._is_enabled = True
        await self._run("on_enable", module.on_enable(), limit_s, context)
        found = await self._run("interfaces", _awaited(module.interfaces), limit_s, context)
        named = dict(found) if isinstance(found, Mapping) else {}
        self._interfaces = {name: named.get(name, module) for name in self.declared.provides}

    async def stop(self) -> None:
        module, self.instance, self._interfaces = self.instance, None, {}
        if module is not None:
            if self._is_enabled:
                self._is_enabled = False
                with contextlib.suppress(ModuleFailedError):  # it is in `problem`
                    context = _context_of(Caller())
                    await self._run("on_disable", module.on_disable(), _DISABLE_LIMIT_S, context)
            tasks = self._tasks.running | spawned_by(module).running
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_CANCEL_LIMIT_S)
        self._on_stop()
        self._handlers.clear()
        unload(self._approved)

    def provides(self, name: str) -> bool:
        return self._is_enabled and name in self._interfaces

    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], caller: Caller
    ) -> object:
        found = self._interfaces.get(name)
        if not is_offered(found, name, method):
            raise ActRefusedError(
                f"{name} has no method {method}: its provider declares one by @interface({name!r})"
            )
        function = getattr(found, method)
        inspect.signature(function).bind(*args, **kwargs)  # the caller's mistake, if it is one
        work = _awaited(function, *args, **kwargs)
        return await self._run(
            f"{name}.{method}", work, CALL_LIMIT_S, _context_of(caller), has_caller=True
        )

    async def _call(self, call: HandlerCall, caller: Caller) -> object:
        function, takes = self._handler(call.handler)
        context = _context_of(caller)
        if call.is_event:
            work = _awaited(function, **takes.bind_data(call.arguments))
            await self._run(call.handler, work, call.timeout_s, context)
            return None
        work = _answer(function, takes.bind(call.arguments, call.request))
        return await self._run(call.handler, work, call.timeout_s, context, has_caller=True)

    async def _stream(self, call: HandlerCall, caller: Caller) -> AsyncIterator[object]:
        """Each item is made when it is asked for, all of them in one context."""
        handler = call.handler
        function, takes = self._handler(handler)
        bound = takes.bind(call.arguments, call.request)
        source = cast(AsyncGenerator[object, None], function(**bound))
        context = _context_of(caller)
        try:
            while True:
                item = await self._run(handler, _next(source), None, context, has_caller=True)
                if item is _END:
                    return
                yield item
                self._handler(handler)  # the module may have been stopped meanwhile
        finally:
            closing, work = f"{handler}, as it was closed", _awaited(source.aclose)
            ending = self._run(closing, work, CALL_LIMIT_S, context)
            # A reader that leaves may cancel this once more; the generator's end goes on.
            await asyncio.shield(self._tasks.begin(ending))

    def _load(self) -> tuple[type[Module], ModuleDeclaration]:
        cls = load_class(self._approved)
        declared = describe(cls, self._approved.manifest)
        if wrong := unlisted(declared, self._approved.manifest):
            raise ModuleFailedError("; ".join(wrong))
        return cls, declared

    def _handler(self, name: str) -> tuple[Callable[..., object], HandlerArguments]:
        if self.instance is None:
            raise self._not_running()
        if name not in self._handlers:
            function = resolve_handler(self.instance, name)
            self._handlers[name] = function, HandlerArguments(function)
        return self._handlers[name]

    async def _run(
        self,
        what: str,
        work: Coroutine[Any, Any, Result],
        timeout_s: float | None,
        context: contextvars.Context,
        *,
        has_caller: bool = False,
    ) -> Result:
        """Run the module's code. A failure is kept as the problem and raised as ModuleFailedError,
        which may reach any caller, so it only says where to look. `has_caller`: a named error is an
        answer, and not the module's failure.
        """
        task = self._tasks.begin(work, context=context)
        error: Exception
        try:
            async with asyncio.timeout(timeout_s) as limit:
                result = await task
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if not task.cancelled() or (waiting is not None and waiting.cancelling()):
                raise
            problem = "it was stopped, or cancelled itself, before it had answered"
            error = ModuleFailedError(problem)
        except Exception as raised:  # a wall: it is the module's code that failed
            is_own_failure = isinstance(raised, ModuleFailedError)
            if has_caller and isinstance(raised, ParachuteError) and not is_own_failure:
                self._problems.pop(what, None)
                raise
            error, problem = raised, traceback_of(raised)
            if limit.expired():
                problem = f"{what} was not done after {timeout_s:g} s, and was ended"
            elif what is _IMPORT and is_own_failure:
                problem = str(raised).rstrip()
        else:
            self._problems.pop(what, None)
            return result
        self._note(what, problem, error)
        raise ModuleFailedError(
            f"the module {self.name} failed in {what}; `parachute modules status {self.name}` "
            "shows how"
        ) from error

    def _note(self, what: str, problem: str, error: Exception | None = None) -> None:
        """Keep and log a failure of the module, until that goes well or it is restarted."""
        self._problems.pop(what, None)
        self._problems[what] = problem
        self._on_problem()
        last = problem.rpartition("\n")[2]
        log.warning(
            "a module failed", exc_info=error, extra={"of": self.name, "in": what, "problem": last}
        )


def traceback_of(error: BaseException) -> str:
    """The traceback as text, its end if it is very long: that is where the error is."""
    return "".join(traceback.format_exception(error)).rstrip()[-_MOST_TEXT:]


def _context_of(caller: Caller) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(act_for, caller)
    return context


async def _awaited(function: Callable[..., object], *args: object, **kwargs: object) -> object:
    result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def _answer(function: Callable[..., object], bound: Mapping[str, object]) -> object:
    result = await _awaited(function, **bound)
    if isinstance(result, Response):
        return replace(result, body=to_json(result.body))
    return result if isinstance(result, BytesResponse) else to_json(result)


async def _next(source: AsyncGenerator[object, None]) -> object:
    item = await anext(source, _END)
    if isinstance(item, ServerEvent):
        return replace(item, data=to_json(item.data))
    return item if item is _END else to_json(item)
