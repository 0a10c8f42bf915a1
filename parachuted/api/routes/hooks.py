"""Hooks: the routes that list, try, replay and approve hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from parachuted.api.flutter import HookErrorRow, hook_error_row
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, RequestModel, Whole
from parachuted.errors import NotFoundError
from parachuted.hooks import Hooks as RunningHooks
from parachuted.hooks.approvals import ScriptReview
from parachuted.hooks.records import HookRun, HookRunRecord, HookStatus
from parachuted.hooks.trials import HookTrial, try_hooks
from parachuted.keys import EVERYWHERE

_MODULE = "system"
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_RUN = "{id}"


class TryHooksRequest(RequestModel):
    """An event, by our name or Claude Code's; `data` for the sample; `hook`: run this one alone."""

    event: _Name
    data: dict[str, object] | None = None
    hook: _Name | None = None


class ApproveHooksRequest(RequestModel):
    """Which hooks; without names, all. `hashes`: the scripts as they were shown, by path."""

    names: Annotated[list[_Name], Field(max_length=1_000)] | None = None
    hashes: Annotated[dict[str, str], Field(max_length=1_000)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksHealth:
    recent_errors_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HookList:
    """`problems`: what is wrong with the files in which hooks are declared."""

    hooks: list[HookStatus]
    health: HooksHealth
    problems: list[str]


class HookRoutes:
    """Running a program, and what it received of notes, is for those who may administer."""

    def __init__(self, hooks: RunningHooks, vault: Path, clock: Callable[[], datetime]) -> None:
        self._hooks, self._vault, self._clock = hooks, vault, clock

    @get("/api/hooks", _MODULE, "read")
    async def listing(self, call: ApiCall) -> HookList:
        """List the active hooks and their health."""
        hooks = self._hooks
        may_administer = call.identity.grant(_MODULE, "admin") == EVERYWHERE
        return HookList(
            hooks=[hook if may_administer else hook.public for hook in hooks.listed],
            health=HooksHealth(recent_errors_count=len(hooks.errors)),
            problems=list(hooks.problems) if may_administer else [],
        )

    @get("/api/hooks/errors", _MODULE, "read", wrapped="errors")
    async def errors(self) -> list[HookErrorRow]:
        """The latest failures of hooks, the newest first."""
        return [hook_error_row(error) for error in reversed(self._hooks.errors)]

    @post("/api/hooks/test", _MODULE, "admin")
    async def test(self, body: TryHooksRequest) -> HookTrial:
        """Run the hooks of an event on a sample, and tell what goes in, what comes out and what it
        would decide.
        """
        self._hooks.look()
        return await try_hooks(
            self._hooks,
            body.event,
            vault=self._vault,
            at=self._clock(),
            values=body.data,
            only=body.hook,
        )

    @get("/api/hooks/runs", _MODULE, "admin", wrapped="runs")
    async def runs(self, limit: Annotated[Whole, Field(ge=1, le=200)] = 20) -> list[HookRun]:
        """The latest runs of hooks, the newest first."""
        return await asyncio.to_thread(self._hooks.recorder.last, limit)

    @get(f"/api/hooks/runs/{_RUN}", _MODULE, "admin")
    async def run(self, id_: str) -> HookRunRecord:
        """One run of a hook, with its input and output."""
        record = await asyncio.to_thread(self._hooks.recorder.get, id_)
        if record is None:
            raise NotFoundError("run not found; only the last 200 are kept")
        return record

    @post(f"/api/hooks/runs/{_RUN}/replay", _MODULE, "admin")
    async def replay(self, id_: str) -> HookRunRecord:
        """Run a hook again with the same input."""
        self._hooks.look()
        return await self._hooks.replay(id_)

    @post("/api/hooks/approve", _MODULE, "admin", wrapped="approved")
    async def approve(self, body: ApproveHooksRequest) -> list[str]:
        """Let hooks run whose scripts have changed; the scripts for which that is news."""
        self._hooks.look()
        return self._hooks.approve(body.names, body.hashes)

    @get("/api/hooks/scripts", _MODULE, "admin", wrapped="files")
    async def scripts(self, hook: _Name) -> list[ScriptReview]:
        """A hook's scripts as they are now, and whether they are as they were approved."""
        self._hooks.look()
        return await asyncio.to_thread(self._hooks.review, hook)
