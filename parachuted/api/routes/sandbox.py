"""Sandbox: the routes by which a person sees whether agents with a shell can run here, and has
their image built.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Literal

from aiohttp import web
from typing_extensions import TypedDict

from parachuted.agents.sandbox import Sandboxes
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, AppRequestModel, MediaBody
from parachuted.errors import AgentUnavailableError

_MODULE = "system"
_NONE = "this daemon runs agents without sandboxes"
_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class SandboxResponse(TypedDict):
    """Whether agents with a shell can run; `problem` says what to install or to run."""

    available: bool
    problem: str | None
    engine: str | None
    image: Literal["built", "host"] | None


class BuildSandboxRequest(AppRequestModel):
    """How the image is made; `offline`: of this machine's own programs, which needs no network."""

    offline: bool = False


class SandboxRoutes:
    def __init__(self, sandboxes: Sandboxes | None) -> None:
        self._sandboxes = sandboxes
        self._building = asyncio.Lock()

    @get("/api/sandbox", _MODULE, "read", reach="nothing")
    async def status(self) -> SandboxResponse:
        """Whether agents with a shell can run here, and what is missing if not."""
        sandboxes = self._sandboxes
        if sandboxes is None:
            return SandboxResponse(available=False, problem=_NONE, engine=None, image=None)
        status = await sandboxes.status()
        return SandboxResponse(
            available=status.available,
            problem=status.problem,
            engine=status.engine,
            image=status.image,
        )

    @post(
        "/api/sandbox/build",
        _MODULE,
        "admin",
        reach="beyond",
        answers={
            200: MediaBody(
                type="text/event-stream",
                says="build_progress with a line each, then build_complete or build_error.",
            )
        },
    )
    async def build(self, call: ApiCall, body: BuildSandboxRequest) -> web.StreamResponse:
        """Build the image that agents with a shell run in, and stream the progress.

        Failures are reported in the stream, the only place where the app looks.
        """
        sandboxes = self._sandboxes
        if self._building.locked():
            raise web.HTTPConflict(text="the image is being built already")
        async with self._building:
            response = web.StreamResponse(headers=_HEADERS)
            await response.prepare(call.request)
            if sandboxes is None:
                await response.write(_frame("build_error", error=_NONE))
                return response
            try:
                async with aclosing(sandboxes.build(offline=body.offline)) as lines:
                    async for line in lines:
                        await response.write(_frame("build_progress", line=line))
                await response.write(_frame("build_complete"))
            except AgentUnavailableError as error:
                await response.write(_frame("build_error", error=error.message))
            return response


def _frame(event: str, **data: str) -> bytes:
    """One SSE message. Line ends cannot occur in it: JSON escapes them."""
    return f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n".encode()
