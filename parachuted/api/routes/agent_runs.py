"""Agent runs: run an agent by its name, stop all, and answer their permission requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from aiohttp import web
from pydantic import Field

from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.grant import CallerGrant, Entry
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.job import AgentResult
from parachuted.agents.permission import Answer, PendingPermission, PermissionRequests
from parachuted.api.http.authenticator import KeyAuthenticator
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, FolderParameter, RequestModel, Whole
from parachuted.errors import AgentUnavailableError
from parachuted.modules.hosting.module_agents import AgentService
from parachuted.runs.agent_runner import NAME
from parachuted.tasks import Worker
from parachuted.vault import PathText, WriteJournal, new_id

_MODULE = "curator"
_LONGEST_VALUE, _REASON = 80, 300
_STOPPED = "a person stopped all agents"


class RunAgentRequest(RequestModel):
    prompt: Annotated[str, Field(min_length=1, max_length=1 << 20)]
    working_directory: FolderParameter | None = None
    session: Annotated[str, Field(max_length=200)] | None = None
    entry: Annotated[str, Field(pattern="^(cli|http)$")] = "http"
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    max_turns: Annotated[Whole, Field(gt=0)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None


class StopRunsRequest(RequestModel):
    """Whether new runs wait until they are resumed."""

    pause: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """What the agent said, or the tool that it called; `why`: the message where that failed."""

    said: str | None = None
    called: str | None = None
    error: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAgentRun:
    """`warning` says what the agent had to do without."""

    run: str
    words: str
    outcome: str
    reason: str
    cost_usd: float
    session: str | None
    wrote: list[PathText]
    suggested: tuple[str, ...]
    warning: str | None
    steps: list[AgentStep]


@dataclass(frozen=True, slots=True)
class StoppedRuns:
    stopped: Sequence[str]
    paused: bool


class AgentRunRoutes:
    def __init__(
        self,
        agents: AgentService,
        *,
        worker: Worker,
        at_work: ActiveRuns,
        authenticator: KeyAuthenticator,
        history: WriteJournal,
        clock: Callable[[], datetime],
    ) -> None:
        self._agents, self._worker, self._at_work = agents, worker, at_work
        self._authenticator, self._history, self._clock = authenticator, history, clock

    @post("/api/agents/stop", _MODULE, "admin")
    async def stop(self, body: StopRunsRequest) -> StoppedRuns:
        """Stop all running agents and start none until resumed."""
        if body.pause:
            self._worker.pause()
        stopped = await self._at_work.stop(_STOPPED)
        return StoppedRuns(stopped, self._worker.paused)

    @post(
        "/api/agents/{name:.+}/run",
        _MODULE,
        "admin",
        names={"name": "an agent, as module/agent"},
    )
    async def run(self, call: ApiCall, name: str, body: RunAgentRequest) -> FinishedAgentRun:
        """Run an agent on a prompt."""
        return await self._answer(call, name, body, "cli" if body.entry == "cli" else "http")

    @post("/api/maintenance", _MODULE, "admin")
    async def maintenance(self, call: ApiCall, body: RunAgentRequest) -> FinishedAgentRun:
        """Run the maintenance agent."""
        return await self._answer(call, NAME, body, "maintenance")

    async def _answer(
        self, call: ApiCall, name: str, body: RunAgentRequest, entry: Entry
    ) -> FinishedAgentRun:
        names = ("working_directory", "timeout_s", "max_turns", "max_cost_usd")
        options = {one: getattr(body, one) for one in names if getattr(body, one) is not None}
        caller = Caller(
            request=WorkRequest(
                by="person",
                entry=entry,
                who=call.identity.name,
                key=call.identity.api_key,
                id=call.id,
                is_valid=lambda: self._authenticator.holds(call.identity),
            ),
            grant=CallerGrant(call.reading, call.reading.both(call.writing)),
            causes=(new_id("c", self._clock()),),
        )
        try:
            ran = await self._agents.run(name, body.prompt, options, caller, session=body.session)
        except AgentUnavailableError as error:  # which is not the daemon's fault
            raise web.HTTPConflict(text=error.message) from error
        return await asyncio.to_thread(self._account, ran)

    def _account(self, ran: AgentResult) -> FinishedAgentRun:
        document = self._history.run(ran.run_id) or {}
        return FinishedAgentRun(
            run=ran.run_id,
            words=ran.text,
            outcome=ran.outcome,
            reason=str(document.get("reason") or ""),
            cost_usd=ran.cost_usd,
            session=ran.session_id,
            wrote=[str(item["path"]) for item in _items(document, "wrote")],
            suggested=ran.suggestions,
            warning=ran.warning,
            steps=list(map(_step, _items(document, "steps"))),
        )


def _items(document: object, name: str) -> list[dict[str, object]]:
    found = document.get(name, []) if isinstance(document, dict) else []
    return [one for one in found if isinstance(one, dict)]


def _step(step: dict[str, object]) -> AgentStep:
    if "said" in step:
        return AgentStep(said=str(step["said"]))
    arguments = step.get("arguments")
    items = arguments.items() if isinstance(arguments, dict) else ()
    listed = ", ".join(f"{key}={_brief(value)}" for key, value in items)
    is_error = bool(step.get("error"))
    why = _reason(str(step.get("answer") or "")) if is_error else None
    return AgentStep(called=f"{step['called']}({listed})", error=is_error, why=why)


def _reason(answer: str) -> str | None:
    """The first line, without what Claude Code puts before a hook's words."""
    first = answer.strip().partition("\n")[0]
    words = first.partition(" hook error: ")[2] if first.startswith("PreToolUse:") else first
    return words[:_REASON] or None


def _brief(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


class AnswerPermissionRequest(RequestModel):
    """`once`, `session` or `deny`, which hold while its session lasts."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class PermissionList:
    """What waits for an answer."""

    permissions: Sequence[PendingPermission]


class PermissionRoutes:
    def __init__(self, permissions: PermissionRequests) -> None:
        self._permissions = permissions

    @get("/api/permissions", _MODULE, "admin")
    async def listing(self) -> PermissionList:
        """List the permission requests that wait for an answer."""
        return PermissionList(self._permissions.pending())

    @post("/api/permissions/{id}", _MODULE, "admin", names={"id": "a question, as it is listed"})
    async def answer(self, id_: str, body: AnswerPermissionRequest) -> PendingPermission:
        """Answer a permission request."""
        return self._permissions.answer(id_, body.answer)
