"""Grant: the right of one process to ask the model, for one run after another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import web

from parachuted.agents.gateway.limits import Endpoint, RunToken
from parachuted.agents.gateway.message_request import RequestRefusedError

_LARGEST_REQUEST = 32 << 20  # as the API's own
_LARGEST_BUFFERED = 64 << 20


@dataclass(eq=False, slots=True, kw_only=True)
class OpenRun:
    """A run that may ask the model, and its requests just now."""

    run_token: RunToken
    requests: dict[asyncio.Task[Any], web.BaseRequest] = field(default_factory=dict)
    is_stopped: bool = False
    has_answer: bool = False
    buffered: int = 0

    def stop(self) -> None:
        self.is_stopped = True
        for task, request in self.requests.items():
            if request.transport is not None:
                request.transport.abort()
            task.cancel()

    @contextmanager
    def serving(self, request: web.BaseRequest) -> Iterator[None]:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside a task")
        self.requests[task] = request
        try:
            yield
        finally:
            self.requests.pop(task, None)

    @asynccontextmanager
    async def body(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """What a request brings, which counts as the run's until this is left.

        Raises RequestRefusedError when it is too large.
        """
        pieces, size = [], 0
        try:
            while piece := await request.content.readany():
                pieces.append(piece)
                size += len(piece)
                self.buffered += len(piece)
                if size > _LARGEST_REQUEST or self.buffered > _LARGEST_BUFFERED:
                    raise RequestRefusedError(
                        "a request is at most 32 MB, and all of a run's at once 64",
                        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        kind="request_too_large",
                    )
            yield b"".join(pieces)
        finally:
            self.buffered -= size


class GatewayGrant:
    """A process's way to the model. Its token stays, and its runs follow one another: a request
    counts to the present run, and between two runs none is passed on.
    """

    def __init__(
        self, *, url: str, token: str, admit: Callable[[RunToken], Awaitable[None]]
    ) -> None:
        self.url, self.token = url, token
        self.socket: Path | None = None
        self.present: OpenRun | None = None
        self._admit = admit

    @asynccontextmanager
    async def run(self, run_token: RunToken) -> AsyncIterator[Endpoint]:
        """Count requests to this run until it is left; those that go on then are ended and counted
        before it is.

        Raises AgentUnavailableError and AgentFailedError where it has no money or the model asked
        for a pause.
        """
        if self.present is not None:
            raise RuntimeError("this grant serves another run at the moment")
        await self._admit(run_token)
        self.present = run = OpenRun(run_token=run_token)
        try:
            yield Endpoint(
                url=self.url,
                token=self.token,
                socket=self.socket,
                model=next(iter(run_token.models), None),
            )
        finally:
            self.present = None
            run.stop()
            if run.requests:
                await asyncio.wait([*run.requests])
