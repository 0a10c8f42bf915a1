"""Hooks: the routes by which a person sees the hooks there are, tries them, runs one again and lets
a changed script run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Protocol

from aiohttp import web
from pydantic import Field

from parachuted.api.http.answers import json_answer
from parachuted.api.http.fields import RequestModel, Whole
from parachuted.api.http.route import ApiCall, Route
from parachuted.errors import NotFoundError
from parachuted.hooks import Hooks as RunningHooks
from parachuted.hooks.idle import OfferedTools
from parachuted.hooks.responses import (
    ApproveHooksResponse,
    HookErrorsResponse,
    HookRunDetailResponse,
    HookRunsResponse,
    HooksResponse,
    HookTrialResponse,
    show_error,
    show_hook,
    show_run,
    show_trial,
    show_whole_run,
)
from parachuted.hooks.trials import HookTrialError, try_hooks
from parachuted.keys import EVERYWHERE

_MODULE = "system"
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_RUN = "{id}"


class RunningModules(Protocol):
    """The modules that run."""

    def offered(self) -> OfferedTools:
        """Their names and their tools."""


class HookRouteParts(Protocol):
    """The parts that are needed here."""

    @property
    def hooks(self) -> RunningHooks: ...
    @property
    def modules(self) -> RunningModules: ...
    @property
    def vault(self) -> Path: ...
    @property
    def clock(self) -> Callable[[], datetime]: ...


class HookRunsQuery(RequestModel):
    """How many of the latest runs."""

    limit: Annotated[Whole, Field(ge=1, le=200)] = 20


class TryHooksRequest(RequestModel):
    """An event, by our name or Claude Code's.

    `data`: what the sample shall hold; `hook`: run this one alone, whatever its matcher says.
    """

    event: _Name
    data: dict[str, object] | None = None
    hook: _Name | None = None


class ApproveHooksRequest(RequestModel):
    """Which hooks; without names, all."""

    names: Annotated[list[_Name], Field(max_length=1_000)] | None = None


class HookRoutes:
    """The routes of hooks.

    Running a program of the person's, and what it was told of notes, is for those who may
    administer.
    """

    def __init__(self, parts: HookRouteParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(
                method="GET",
                path="/api/hooks",
                module=_MODULE,
                capability="read",
                reach="beyond",
                handle=self.listing,
                summary="The hooks that are in force, and how they do.",
                answers={200: HooksResponse},
            ),
            Route(
                method="GET",
                path="/api/hooks/errors",
                module=_MODULE,
                capability="read",
                reach="beyond",
                handle=self.errors,
                summary="The latest failures of hooks.",
                answers={200: HookErrorsResponse},
            ),
            Route(
                method="POST",
                path="/api/hooks/test",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.test,
                body=TryHooksRequest,
                summary="Run the hooks of an event on a sample, and tell what goes in, what comes "
                "out and what it would decide.",
                answers={200: HookTrialResponse},
            ),
            Route(
                method="GET",
                path="/api/hooks/runs",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.runs,
                query=HookRunsQuery,
                summary="The latest runs of hooks.",
                answers={200: HookRunsResponse},
            ),
            Route(
                method="GET",
                path=f"/api/hooks/runs/{_RUN}",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.run,
                summary="A run of a hook, with what went in and what came out.",
                answers={200: HookRunDetailResponse},
            ),
            Route(
                method="POST",
                path=f"/api/hooks/runs/{_RUN}/replay",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.replay,
                summary="Run a hook again on what it was given then.",
                answers={200: HookRunDetailResponse},
            ),
            Route(
                method="POST",
                path="/api/hooks/approve",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.approve,
                body=ApproveHooksRequest,
                summary="Let hooks whose scripts have changed run as they are now.",
                answers={200: ApproveHooksResponse},
            ),
        ]

    async def listing(self, call: ApiCall) -> web.Response:
        """`GET /api/hooks`."""
        hooks = self._parts.hooks
        may_administer = call.identity.grant(_MODULE, "admin") == EVERYWHERE
        offered = self._parts.modules.offered()
        shown: HooksResponse = {
            "hooks": [
                show_hook(listed, is_whole=may_administer, offered=offered)
                for listed in hooks.listed
            ],
            "health": {"recent_errors_count": len(hooks.errors)},
            "problems": list(hooks.problems) if may_administer else [],
        }
        return json_answer(shown)

    async def errors(self, _call: ApiCall) -> web.Response:
        """`GET /api/hooks/errors`."""
        return json_answer(
            {"errors": [show_error(error) for error in reversed(self._parts.hooks.errors)]}
        )

    async def test(self, call: ApiCall) -> web.Response:
        """`POST /api/hooks/test` with `{"event", "data"?, "hook"?}`."""
        body, parts = await call.body(TryHooksRequest), self._parts
        parts.hooks.look()
        try:
            trial = await try_hooks(
                parts.hooks,
                body.event,
                vault=parts.vault,
                at=parts.clock(),
                given=body.data,
                only=body.hook,
            )
        except HookTrialError as error:
            raise web.HTTPBadRequest(text=error.message) from error
        return json_answer(show_trial(trial))

    async def runs(self, call: ApiCall) -> web.Response:
        """`GET /api/hooks/runs`."""
        limit = call.query(HookRunsQuery).limit
        records = await asyncio.to_thread(self._parts.hooks.recorder.last, limit)
        return json_answer({"runs": [show_run(record) for record in records]})

    async def run(self, call: ApiCall) -> web.Response:
        """`GET /api/hooks/runs/{id}`."""
        record = await asyncio.to_thread(self._parts.hooks.recorder.get, call.named("id"))
        if record is None:
            raise NotFoundError("there is no such run, or not any more; the last 200 are kept")
        return json_answer(show_whole_run(record))

    async def replay(self, call: ApiCall) -> web.Response:
        """`POST /api/hooks/runs/{id}/replay`."""
        self._parts.hooks.look()
        return json_answer(show_whole_run(await self._parts.hooks.replay(call.named("id"))))

    async def approve(self, call: ApiCall) -> web.Response:
        """`POST /api/hooks/approve` with `{"names"?}`."""
        body = await call.body(ApproveHooksRequest)
        self._parts.hooks.look()
        return json_answer({"approved": self._parts.hooks.approve(body.names)})
