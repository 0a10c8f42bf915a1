"""What the manager requires of a module, in the daemon's process and in a module host alike.

Arguments and results are JSON, so the pipe changes no meaning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from parachuted.access.authority import NO_AUTHORITY, Authority

if TYPE_CHECKING:
    from parachuted.modules.registry.declaration import ModuleDeclaration
    from parachuted.modules.streams import BodySource

CALL_LIMIT_S, COMMAND_LIMIT_S = 30.0, 110.0


class RequestArguments(TypedDict, total=False):
    """What a request holds besides its JSON body; `source` is a body that is not JSON.

    `tolerant`: names may be in camelCase, and unknown ones are left out.
    """

    path: Mapping[str, str]
    query: Mapping[str, str | list[str]]
    tolerant: bool
    source: BodySource | None


class RunningModule(Protocol):
    """One running module.

    Arguments are bound to the handler's parameters where the code is, by `arguments.plan`. So
    `call` and `stream` raise WrongArgumentsError before the handler starts, and ModuleFailedError
    for any later failure: it raised, it timed out, its host died. Errors of `parachuted.errors`
    that the handler raises (NotFoundError, ActRefusedError, ...) pass unchanged. `authority`
    applies to the handler and to everything that it starts.
    """

    @property
    def declared(self) -> ModuleDeclaration:
        """What it declares: known once `start` has returned."""

    @property
    def problem(self) -> str | None:
        """The traceback, or a sentence, of what failed last, while it has not gone well since."""

    @property
    def limits(self) -> str | None:
        """The resource limits of its process, in words; None if it has no process of its own."""

    async def start(self, authority: Authority | None = None) -> None:
        """Load the code, describe it, and let it enable itself, with that authority or its own.

        Raises ModuleFailedError, and has then cleaned up.
        """

    async def stop(self) -> None:
        """Let it disable itself, then end all that it began: tasks, streams, processes.

        Raises nothing; may be called twice.
        """

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

    def stream(
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

    def interface(self, name: str, authority: Authority = NO_AUTHORITY) -> object | None:
        """The object that it provides under that name, or None; for a module host, one whose
        methods are calls over the pipe.

        It has the methods declared for that interface. They use that authority.
        """
