"""Agent runs: the one way by which any agent but a curator works, whoever asks: a module, a
schedule, a bot, a person.

It asks budgets, builds the grant by the one function that does, refuses what cannot run here before
anything is spent, and holds the run where it can be ended. What an agent asks another agent for
lies within its own grant.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import cast

from parachuted.access.authority import Authority
from parachuted.access.grant import Grant
from parachuted.access.granting import build_grant, may_begin
from parachuted.agents import RunLimits
from parachuted.agents.permission import PermissionRequest
from parachuted.errors import (
    ActRefusedError,
    AgentUnavailableError,
)
from parachuted.history.run_account import RunAccounts
from parachuted.runs.agent_parts import AgentParts
from parachuted.runs.agent_run import AgentRun
from parachuted.runs.bounded_vault import VaultParts
from parachuted.runs.lifecycle import RunLifecycle
from parachuted.runs.run_request import RunReport, RunRequest
from parachuted.tasks import Task
from parachuted.vault import printable

_DEEPEST = 3
_LONGEST_PROMPT = 1 << 20
_OFFLINE = "offline"
_PAUSED = "runs are paused; `parachute resume` lets them go on"
_NO_BOXES = "this daemon has none"


class AgentRunner:
    """Lets agents work."""

    def __init__(self, parts: AgentParts, vault: VaultParts) -> None:
        self._parts, self._vault = parts, vault
        self._lifecycle = RunLifecycle(
            backend=parts.backend,
            accounts=RunAccounts(parts.history, parts.objects, parts.causes),
            active_runs=parts.at_work,
            bus=parts.bus,
        )

    @property
    def limits(self) -> RunLimits:
        """What one run may take at most."""
        return self._parts.limits

    async def run(self, order: RunRequest) -> RunReport:
        """Let the agent answer the prompt.

        Raises ActRefusedError for what may not be, AgentUnavailableError when it could not begin
        and cost nothing, AgentStoppedError when it was ended, AgentFailedError when it did not end
        well.
        """
        asked = self._parts.at_work.moment
        grant, lost = await self.possible(order, self.grant(order))
        await self._check(order, grant)
        async with self._place(order.authority):
            return await self._run(order, grant, lost, asked)

    def grant(self, order: RunRequest) -> Grant:
        """What that run may do: what its config says, within what its module may, its caller may,
        and the agent that asks for it may.
        """
        one, authority = order.definition, order.authority
        bounds = one.bounds.limited(authority.reads, authority.writes)
        grant = build_grant(
            one.config,
            agent=one.name,
            bounds_read=bounds.reads,
            bounds_write=bounds.writes,
            entry=order.entry,
            folder=order.folder,
            narrowing=order.narrowing,
            tools=one.calls,
        )
        if (
            authority.is_limited
        ):  # whoever asks is for some paths of the vault, and these are beside it
            grant = replace(grant, outside=())
        return (
            grant if authority.within is None else cast("Grant", authority.within.narrowed(grant))
        )

    async def problem(self, grant: Grant) -> str | None:
        """Why what was granted cannot run here, and what to install; None: it can."""
        if not grant.needs_container:
            return None
        return _NO_BOXES if self._parts.boxes is None else await self._parts.boxes.problem()

    async def obstacle(self, order: RunRequest, grant: Grant) -> str | None:
        """Why no run of it could begin on this machine as it is; None: it can."""
        if self._is_offline:
            return (
                f"{order.definition.who} needs a model, and there is none; see `parachute auth "
                "status`"
            )
        problem = await self.problem(grant)
        request = _wish(grant)
        return (
            None
            if problem is None
            else f"{order.definition.who} asks for {request}, which needs a container, and there "
            f"is none here: {problem}"
        )

    @property
    def _is_offline(self) -> bool:
        return self._parts.backend.name == _OFFLINE

    async def possible(self, order: RunRequest, grant: Grant) -> tuple[Grant, str | None]:
        """Where there is no container, all work without the folders beside the vault, and some
        without a shell: what it is told of that.
        """
        problem = await self.problem(grant)
        needs_more = grant.network != "none" or (
            bool(grant.bash) and not order.definition.does_without_shell
        )
        if problem is None or needs_more:
            return grant, None
        lost = [*(["a shell"] if grant.bash else []), *map(printable, grant.outside)]
        return replace(
            grant, outside=(), native=(), bash=False
        ), f"out of its reach, since there is no container: {', '.join(lost)} ({problem})"

    async def _check(self, order: RunRequest, grant: Grant) -> None:
        who = order.definition.who
        order.authority.check()
        if len(order.prompt) > _LONGEST_PROMPT:
            raise ActRefusedError(f"the prompt is longer than {_LONGEST_PROMPT} characters")
        if (objection := may_begin(order.definition.config, order.entry)) is not None:
            raise ActRefusedError(f"{who} does not begin: {objection}")
        if order.authority.is_limited and (order.definition.tools or order.session is not None):
            beyond = (
                "reads the whole installation"
                if order.definition.tools
                else "would go on with a session, which holds all it read"
            )
            raise ActRefusedError(
                f"{who} does not begin: it {beyond}, and the key that asks does not reach all of "
                "the vault"
            )
        if order.session is not None and self._parts.taints is not None:
            owner = self._parts.taints.owner(order.session)
            if owner not in {None, order.definition.name}:
                raise ActRefusedError(
                    f"{who} does not begin: the session that it would go on with is another agent's"
                )
        if (obstacle := await self.obstacle(order, grant)) is not None:
            raise (AgentUnavailableError if self._is_offline else ActRefusedError)(obstacle)
        if order.authority.depth >= _DEEPEST:
            raise ActRefusedError(
                f"{who} does not begin: agents have called agents {_DEEPEST} deep already"
            )

    def _place(self, authority: Authority) -> contextlib.AbstractAsyncContextManager[None]:
        """Room to work; an agent that another one waits for has that one's."""
        return self._parts.room if authority.depth == 0 else contextlib.nullcontext()

    async def _run(
        self, order: RunRequest, grant: Grant, lost: str | None, asked: int
    ) -> RunReport:
        run = AgentRun(self._parts, self._vault, self._lifecycle, order, grant, lost)
        await self._approve(run)
        await run.prepare()
        await self._begin(run)
        outcome = await self._lifecycle.run(run, since=asked)
        return run.ran(outcome)

    async def _approve(self, run: AgentRun) -> None:
        """An agent that a person has to allow for each session is allowed, or does not begin."""
        one, permissions = run.order.definition, self._parts.permissions
        if not one.config.requires_explicit_approval:
            return
        request = PermissionRequest(kind="trusted", what=one.name, why=f"{one.who} asks to begin")
        if permissions is None or not await permissions.ask(
            run=run.id, session=run.order.session, agent=one.name, request=request
        ):
            raise ActRefusedError(
                f"{one.who} starts only when a person allows it, and nobody did; see `parachute "
                "permissions list`"
            )

    async def _begin(self, run: AgentRun) -> None:
        """Budgets are asked and the run's place is taken in one turn, so that no two take the same,
        whoever begins them.
        """
        budget = self._parts.budget
        async with self._parts.gate:
            over = _PAUSED if self._parts.is_paused() else self._exceeded(run.task)
            if over is not None:
                raise AgentUnavailableError(f"{run.order.definition.who} does not begin: {over}")
            budget.take(run.task)
            try:
                await self._lifecycle.open(run.account)
            finally:
                budget.give_back(run.task)

    def _exceeded(self, task: Task) -> str | None:
        over = self._parts.budget.exceeded()
        if over is None and not self._parts.budget.causes_left(task):
            over = self._parts.budget.cause_exceeded()
        return None if over is None else str(over)


def _wish(grant: Grant) -> str:
    wishes = (
        ("a shell", grant.bash),
        ("the network", grant.network != "none"),
        ("folders beside the vault", grant.outside),
    )
    return " and ".join(word for word, wanted in wishes if wanted) or "tools of its own"
