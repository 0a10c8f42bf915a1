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

from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, RequestModel, Whole
from parachuted.errors import NotFoundError
from parachuted.hooks import Hooks as RunningHooks
from parachuted.hooks.responses import (
    ApproveHooksResponse,
    HookDiffResponse,
    HookErrorsResponse,
    HookRunDetailResponse,
    HookRunsResponse,
    HooksResponse,
    HookTrialResponse,
    OfferedTools,
    show_diff,
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
    def offered(self) -> OfferedTools: ...


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
    """Which hooks; without names, all. `hashes`: what was shown of all of their scripts, by path;
    where one is another by now, or was not shown, nothing is approved.
    """

    names: Annotated[list[_Name], Field(max_length=1_000)] | None = None
    hashes: Annotated[dict[str, str], Field(max_length=1_000)] | None = None


class HookDiffQuery(RequestModel):
    """Which hook."""

    hook: _Name


class HookRoutes:
    """The routes of hooks.

    Running a program of the person's, and what it received of notes, is for those who may
    administer.
    """

    def __init__(
        self,
        hooks: RunningHooks,
        modules: RunningModules,
        vault: Path,
        clock: Callable[[], datetime],
    ) -> None:
        self._hooks, self._modules, self._vault, self._clock = hooks, modules, vault, clock

    @get("/api/hooks", _MODULE, "read", reach="beyond")
    async def listing(self, call: ApiCall) -> HooksResponse:
        """List the active hooks and their health."""
        hooks = self._hooks
        may_administer = call.identity.grant(_MODULE, "admin") == EVERYWHERE
        offered = self._modules.offered()
        shown: HooksResponse = {
            "hooks": [
                show_hook(listed, is_whole=may_administer, offered=offered)
                for listed in hooks.listed
            ],
            "health": {"recent_errors_count": len(hooks.errors)},
            "problems": list(hooks.problems) if may_administer else [],
        }
        return shown

    @get("/api/hooks/errors", _MODULE, "read", reach="beyond")
    async def errors(self) -> HookErrorsResponse:
        """The latest failures of hooks."""
        return {"errors": [show_error(error) for error in reversed(self._hooks.errors)]}

    @post("/api/hooks/test", _MODULE, "admin", reach="beyond")
    async def test(self, body: TryHooksRequest) -> HookTrialResponse:
        """Run the hooks of an event on a sample, and tell what goes in, what comes out and what it
        would decide.
        """
        self._hooks.look()
        try:
            trial = await try_hooks(
                self._hooks,
                body.event,
                vault=self._vault,
                at=self._clock(),
                given=body.data,
                only=body.hook,
            )
        except HookTrialError as error:
            raise web.HTTPBadRequest(text=error.message) from error
        return show_trial(trial)

    @get("/api/hooks/runs", _MODULE, "admin", reach="beyond")
    async def runs(self, query: HookRunsQuery) -> HookRunsResponse:
        """The latest runs of hooks."""
        limit = query.limit
        records = await asyncio.to_thread(self._hooks.recorder.last, limit)
        return {"runs": [show_run(record) for record in records]}

    @get(f"/api/hooks/runs/{_RUN}", _MODULE, "admin", reach="beyond")
    async def run(self, id_: str) -> HookRunDetailResponse:
        """One run of a hook, with its input and output."""
        record = await asyncio.to_thread(self._hooks.recorder.get, id_)
        if record is None:
            raise NotFoundError("run not found; only the last 200 are kept")
        return show_whole_run(record)

    @post(f"/api/hooks/runs/{_RUN}/replay", _MODULE, "admin", reach="beyond")
    async def replay(self, id_: str) -> HookRunDetailResponse:
        """Run a hook again with the same input."""
        self._hooks.look()
        return show_whole_run(await self._hooks.replay(id_))

    @post("/api/hooks/approve", _MODULE, "admin", reach="beyond")
    async def approve(self, body: ApproveHooksRequest) -> ApproveHooksResponse:
        """Approve hooks whose scripts have changed."""
        self._hooks.look()
        return {"approved": self._hooks.approve(body.names, body.hashes)}

    @get("/api/hooks/diff", _MODULE, "admin", reach="beyond")
    async def diff(self, query: HookDiffQuery) -> HookDiffResponse:
        """A hook's scripts, and how they differ from what was approved."""
        self._hooks.look()
        return show_diff(await asyncio.to_thread(self._hooks.review, query.hook))
