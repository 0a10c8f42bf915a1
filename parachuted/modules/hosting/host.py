"""What can be asked of a module that may run, in the daemon's process or in a container. Each call
is one run that `why` and `undo` know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import ValidationError

from parachuted.access.caller import NO_CALLER, Caller
from parachuted.errors import ModuleFailedError
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import NO_REQUEST, RequestParts
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.results import Finding
from parachuted.modules.services import Services
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.texts.adapters import late_adapter

if TYPE_CHECKING:
    from parachuted.history.run_account import CallRun

CALL_LIMIT_S, COMMAND_LIMIT_S = 30.0, 110.0
_DOCTOR_LIMIT_S, _MOST_FINDINGS = 10.0, 200
_FINDINGS = late_adapter(list[Finding])

Where: TypeAlias = Literal["in process", "container"]
Args: TypeAlias = tuple[object, ...]
MakeCallRun: TypeAlias = Callable[[str, Caller], "CallRun"]
"""Makes the record of a call, by the call's name and the caller that it is made for."""


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """`arguments`: the JSON body, or the data of what `is_event`, also of a schedule."""

    handler: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    caller: Caller = NO_CALLER
    timeout_s: float = CALL_LIMIT_S
    request: RequestParts = NO_REQUEST
    is_event: bool = False


class InterfaceMethods:
    """An interface whose methods are coroutines, each made by `call`."""

    def __init__(
        self, name: str, call: Callable[[str, Args, Mapping[str, Any]], Awaitable[object]]
    ) -> None:
        self._name, self._call = name, call

    def __repr__(self) -> str:
        return f"<{self._name}, provided by a module>"

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        if method.startswith("_"):
            raise AttributeError(f"{self._name} has no method {method}")

        async def call(*args: object, **kwargs: object) -> object:
            return await self._call(method, args, kwargs)

        return call


class ModuleHost(ABC):
    """`call` and `stream` raise UnfitError before the handler starts, and ModuleFailedError for any
    later failure; errors of `parachuted.errors` that the handler raises pass unchanged. `caller`
    applies to the handler and to all that it starts.
    """

    where: ClassVar[Where]
    limits: ClassVar[str | None] = None
    """The resource limits of its container, in words."""

    def __init__(
        self,
        approved: ApprovedModule,
        services: Services,
        make_run: MakeCallRun | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self._approved, self._services = approved.name, approved, services
        self._make_run, self._on_stop = make_run, on_stop
        self._declared: ModuleDeclaration | None = None

    @property
    def declared(self) -> ModuleDeclaration:
        """Known once `start` has returned."""
        if self._declared is None:
            raise self._not_running()
        return self._declared

    @property
    @abstractmethod
    def problem(self) -> str | None:
        """The traceback, or a sentence, of what failed last and has not gone well since."""

    @abstractmethod
    async def stop(self) -> None:
        """Disable it, then end all that it began. Raises nothing; may be called twice."""

    @abstractmethod
    def provides(self, name: str) -> bool: ...

    @abstractmethod
    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], caller: Caller
    ) -> object:
        """Raises ActRefusedError for a method that it does not declare for the interface, TypeError
        for arguments that do not fit, and else what `call` raises.
        """

    def interface(self, name: str, caller: Caller = NO_CALLER) -> InterfaceMethods | None:
        async def call(method: str, args: Args, kwargs: Mapping[str, Any]) -> object:
            return await self.call_interface(name, method, args, kwargs, caller)

        return InterfaceMethods(name, call) if self.provides(name) else None

    async def start(self, caller: Caller | None = None) -> None:
        """Load, describe and enable it. Raises ModuleFailedError, and has then cleaned up."""
        async with self._recorded("on_enable", caller or Caller()) as recorded:
            try:
                await self._start(recorded)
            except BaseException:
                await self.stop()
                raise

    async def call(self, call: HandlerCall) -> object:
        """The answer is JSON, a `Response` of JSON, or a BytesResponse."""
        async with self._recorded(call.handler, call.caller) as caller:
            return await self._call(call, caller)

    async def stream(self, call: HandlerCall) -> AsyncIterator[object]:
        """What a streaming handler yields: JSON and ServerEvents of JSON. Closing the
        iterator closes the handler's generator.
        """
        async with (
            self._recorded(call.handler, call.caller) as caller,
            aclosing(self._stream(call, caller)) as items,  # type: ignore[type-var]
        ):
            async for item in items:
                yield item

    async def doctor(self, caller: Caller) -> list[Finding]:
        """Raises ModuleFailedError."""
        found = await self.call(HandlerCall("doctor", {}, caller, _DOCTOR_LIMIT_S))
        try:
            return _FINDINGS().validate_python(found)[:_MOST_FINDINGS]
        except ValidationError as error:
            raise ModuleFailedError(
                f"doctor of the module {self.name} returned something else than a list of Finding"
            ) from error

    def _not_running(self) -> ModuleFailedError:
        return ModuleFailedError(
            f"the module {self.name} is not running; `parachute modules status` says why"
        )

    @abstractmethod
    async def _start(self, caller: Caller) -> None: ...

    @abstractmethod
    async def _call(self, call: HandlerCall, caller: Caller) -> object: ...

    @abstractmethod
    def _stream(self, call: HandlerCall, caller: Caller) -> AsyncIterator[object]: ...

    @asynccontextmanager
    async def _recorded(self, handler: str, caller: Caller) -> AsyncIterator[Caller]:
        """What the call and its interfaces' calls write is one run."""
        if self._make_run is None:
            yield caller
            return
        what = handler.rpartition(":")[2].strip("_").replace("_", " ")
        call = self._make_run(f"{self.name.capitalize()}: {what}", caller)
        try:
            yield replace(caller, chain=replace(caller.chain, call=call))
        finally:
            if call.run is None:
                call.close()
            else:
                await run_uninterrupted(call.close)
