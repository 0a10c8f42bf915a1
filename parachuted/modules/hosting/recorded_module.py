"""A running module whose calls are runs: what each writes can be explained, and undone as one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from parachuted.access.authority import NOBODY, Authority
from parachuted.history.run_account import CallRun
from parachuted.modules.hosting.running_module import CALL_LIMIT_S, RunningModule
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.processes.uninterrupted import run_uninterrupted

MakeCallRun = Callable[[str, Authority], CallRun]


class RecordedModule:
    """A `RunningModule` around another one.

    Calls of its interfaces are part of the run of the call that led to them.
    """

    def __init__(self, inner: RunningModule, make_run: MakeCallRun) -> None:
        """`make_run` makes the record of a call, by its name and the authority it is made with."""
        self.inner, self._make_run = inner, make_run

    @property
    def declared(self) -> ModuleDeclaration:
        """What it declares."""
        return self.inner.declared

    @property
    def problem(self) -> str | None:
        """What failed last."""
        return self.inner.problem

    @property
    def limits(self) -> str | None:
        """The resource limits of its process."""
        return self.inner.limits

    async def start(self) -> None:
        """Load and enable it."""
        await self.inner.start()

    async def stop(self) -> None:
        """Disable and end it."""
        await self.inner.stop()

    async def call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NOBODY,
        **given: Any,  # noqa: ANN401  what a route takes besides
    ) -> object:
        """Call a route's or a tool's handler."""
        async with self._recorded(handler, authority) as recorded:
            return await self.inner.call(
                handler, arguments, timeout_s=timeout_s, authority=recorded, **given
            )

    async def tell(
        self,
        handler: str,
        data: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NOBODY,
    ) -> None:
        """Call the handler of an event or schedule."""
        async with self._recorded(handler, authority) as recorded:
            await self.inner.tell(handler, data, timeout_s=timeout_s, authority=recorded)

    async def stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        authority: Authority = NOBODY,
        **given: Any,  # noqa: ANN401  the same
    ) -> AsyncIterator[object]:
        """What a streaming handler yields."""
        async with self._recorded(handler, authority) as recorded:
            streamed = self.inner.stream(handler, arguments, authority=recorded, **given)
            async with aclosing(streamed) as items:  # type: ignore[type-var]
                async for item in items:
                    yield item

    def interface(self, name: str, authority: Authority = NOBODY) -> object | None:
        """The object that it provides under that name."""
        return self.inner.interface(name, authority)

    @asynccontextmanager
    async def _recorded(self, handler: str, authority: Authority) -> AsyncIterator[Authority]:
        call = self._make_run(f"{handler} of the module {self.declared.name}", authority)
        try:
            yield replace(authority, call=call)
        finally:
            if call.run is None:
                call.close()
            else:
                await run_uninterrupted(call.close)
