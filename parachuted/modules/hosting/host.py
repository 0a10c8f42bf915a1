"""One module that may run, in the daemon's process or in a container: what can be asked of it.

Each call is one run that `why` and `undo` know, whichever way the code runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypedDict, Unpack

from pydantic import TypeAdapter, ValidationError

from parachuted.access.authority import NO_AUTHORITY, Authority
from parachuted.errors import ModuleFailedError
from parachuted.modules.module import is_every_modules
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import HookSpec, ModuleDeclaration
from parachuted.modules.results import Finding, HookResult, to_json
from parachuted.modules.services import Services
from parachuted.modules.streams import BodySource
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.visible import visible

if TYPE_CHECKING:
    from parachuted.history.run_account import CallRun

CALL_LIMIT_S, COMMAND_LIMIT_S = 30.0, 110.0
_DOCTOR_LIMIT_S, _MOST_FINDINGS, _LONGEST_FINDING = 10.0, 200, 2_000
_LONGEST_ANSWER = 100_000
_FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])
_HOOK_RESULT: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])

Where: TypeAlias = Literal["in process", "container"]
Args: TypeAlias = tuple[object, ...]
MakeCallRun: TypeAlias = Callable[[str, Authority], "CallRun"]
"""Makes the record of a call, by the call's name and the authority that it is made with."""


class RequestArguments(TypedDict, total=False):
    """What a request holds besides its JSON body; `source` is a body that is not JSON.

    `tolerant`: names may be in camelCase, and unknown ones are left out.
    """

    path: Mapping[str, str]
    query: Mapping[str, str | list[str]]
    tolerant: bool
    source: BodySource | None


class InterfaceMethods:
    """An interface whose methods are coroutines, each made by `call`."""

    def __init__(
        self, name: str, call: Callable[[str, Args, Mapping[str, Any]], Awaitable[object]]
    ) -> None:
        self._name, self._call = name, call

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        if method.startswith("_") or is_every_modules(method):
            raise AttributeError(f"{self._name} has no method {method}")

        async def call(*args: object, **kwargs: object) -> object:
            return await self._call(method, args, kwargs)

        return call


class ModuleHost(ABC):
    """One module.

    Arguments are bound to the handler's parameters where the code is. So `call` and `stream` raise
    WrongArgumentsError before the handler starts, and ModuleFailedError for any later failure: it
    raised, it timed out, its container ended. Errors of `parachuted.errors` that the handler raises
    (NotFoundError, ActRefusedError, ...) pass unchanged. `authority` applies to the handler and to
    everything that it starts.
    """

    where: ClassVar[Where]
    limits: ClassVar[str | None] = None
    """The resource limits of its container, in words."""

    def __init__(
        self, approved: ApprovedModule, services: Services, make_run: MakeCallRun | None = None
    ) -> None:
        self.name, self._approved, self._services = approved.name, approved, services
        self._make_run = make_run
        self._declared: ModuleDeclaration | None = None

    @property
    def declared(self) -> ModuleDeclaration:
        """What it declares: known once `start` has returned."""
        if self._declared is None:
            raise ModuleFailedError(
                f"the module {self.name} is not loaded; `parachute modules status` says why"
            )
        return self._declared

    @property
    @abstractmethod
    def problem(self) -> str | None:
        """The traceback, or a sentence, of what failed last, while it has not gone well since."""

    @abstractmethod
    async def stop(self) -> None:
        """Let it disable itself, then end all that it began: tasks, streams, its container.

        Raises nothing; may be called twice.
        """

    @abstractmethod
    def provides(self, name: str) -> bool:
        """Whether it runs and provides that interface."""

    @abstractmethod
    async def call_interface(
        self, name: str, method: str, args: Args, kwargs: Mapping[str, Any], authority: Authority
    ) -> object:
        """Call a method that it declares for an interface.

        Raises ActRefusedError for any other, TypeError for arguments that do not fit, and else what
        `call` raises.
        """

    def interface(self, name: str, authority: Authority = NO_AUTHORITY) -> InterfaceMethods | None:
        """The interface of that name, if it provides that, with methods that use that authority."""

        async def call(method: str, args: Args, kwargs: Mapping[str, Any]) -> object:
            return await self.call_interface(name, method, args, kwargs, authority)

        return InterfaceMethods(name, call) if self.provides(name) else None

    async def start(self, authority: Authority | None = None) -> None:
        """Load the code, describe it, and let it enable itself, with that authority or its own.

        Raises ModuleFailedError, and has then cleaned up.
        """
        async with self._recorded("on_enable", authority or Authority()) as recorded:
            await self._start(recorded)

    async def call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> object:
        """Call a route's or a tool's handler.

        `arguments` is the JSON body; the answer is JSON, a `results.Response` of JSON, a
        FileResponse or a BytesResponse.
        """
        async with self._recorded(handler, authority) as recorded:
            return await self._call(handler, arguments, timeout_s, recorded, sent)

    async def tell(
        self,
        handler: str,
        data: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
    ) -> None:
        """Call the handler of an event or schedule with what it names of `data`; the result is
        dropped.
        """
        async with self._recorded(handler, authority) as recorded:
            await self._tell(handler, data, timeout_s, recorded)

    async def stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        after: str | None = None,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> AsyncIterator[object]:
        """What a streaming handler yields: JSON, ServerEvents of JSON, and `OPENED`.

        `after` is the id of the last event that the reader has, for a handler that returns a
        Stream. Closing the iterator closes the handler's generator.
        """
        async with (
            self._recorded(handler, authority) as recorded,
            aclosing(self._stream(handler, arguments, after, recorded, sent)) as items,  # type: ignore[type-var]
        ):
            async for item in items:
                yield item

    async def doctor(self, authority: Authority) -> list[Finding]:
        """What it reports of its own files.

        Raises ModuleFailedError when it fails, takes too long or reports something else.
        """
        found = await self.call("doctor", {}, timeout_s=_DOCTOR_LIMIT_S, authority=authority)
        try:
            reported = _FINDINGS.validate_python(found)
        except ValidationError as error:
            raise ModuleFailedError(
                f"doctor of the module {self.name} returned something else than a list of "
                f"Finding: {error.errors(include_url=False)[0]['msg']}"
            ) from error
        shown = [
            Finding(
                problem=_line(finding.problem),
                advice=_line(finding.advice),
                path=None if finding.path is None else _line(finding.path),
                line=finding.line,
            )
            for finding in reported[:_MOST_FINDINGS]
        ]
        if len(reported) > _MOST_FINDINGS:
            shown.append(Finding(problem=f"and {len(reported) - _MOST_FINDINGS:,} more"))
        return shown

    async def ask_hook(
        self,
        spec: HookSpec,
        data: Mapping[str, object],
        authority: Authority,
        *,
        timeout_s: float = CALL_LIMIT_S,
    ) -> HookResult:
        """Call the handler with what it names of `data`.

        Raises what `call` raises, and ModuleFailedError for another answer than a HookResult.
        """
        sent = {str(name): to_json(value) for name, value in data.items()}
        found = await self.call(
            spec.handler, sent, timeout_s=timeout_s, authority=authority, tolerant=True
        )
        if found is None:
            return HookResult()
        try:
            result = HookResult(**_HOOK_RESULT.validate_python(found))
        except (ValidationError, TypeError) as error:
            raise ModuleFailedError(
                f"{spec.handler} returned something else than a HookResult or None"
            ) from error
        if max(len(result.block), len(result.context)) > _LONGEST_ANSWER:
            raise ModuleFailedError(
                f"{spec.handler} returned more than {_LONGEST_ANSWER:,} characters"
            )
        return result

    @abstractmethod
    async def _start(self, authority: Authority) -> None: ...

    @abstractmethod
    async def _call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        timeout_s: float,
        authority: Authority,
        sent: RequestArguments,
    ) -> object: ...

    @abstractmethod
    async def _tell(
        self, handler: str, data: Mapping[str, object], timeout_s: float, authority: Authority
    ) -> None: ...

    @abstractmethod
    def _stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        after: str | None,
        authority: Authority,
        sent: RequestArguments,
    ) -> AsyncIterator[object]: ...

    @asynccontextmanager
    async def _recorded(self, handler: str, authority: Authority) -> AsyncIterator[Authority]:
        """What the call writes is one run, as is what its interfaces' calls lead to."""
        if self._make_run is None:
            yield authority
            return
        what = handler.rpartition(":")[2].strip("_").replace("_", " ")
        call = self._make_run(f"{self.name.capitalize()}: {what}", authority)
        try:
            yield replace(authority, call=call)
        finally:
            if call.run is None:
                call.close()
            else:
                await run_uninterrupted(call.close)


def _line(text: str) -> str:
    return visible(text[:_LONGEST_FINDING])
