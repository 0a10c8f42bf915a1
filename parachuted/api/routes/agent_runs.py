"""Agent runs: ask an agent for something by its name, end all that are at work, and answer what
they ask for meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.access.authority import Authority
from parachuted.access.grant import Entry
from parachuted.access.run_records import RunFilter
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.permission import Answer, PendingPermission, PermissionRequests
from parachuted.api.http.answers import json_answer
from parachuted.api.http.authenticator import KeyAuthenticator
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, FolderParameter, RequestModel, Whole
from parachuted.errors import AgentUnavailableError
from parachuted.modules.agent_service import AgentService
from parachuted.runs.agent_runner import NAME
from parachuted.runs.run_request import RunReport
from parachuted.tasks import Worker
from parachuted.times import Time, time_of
from parachuted.vault import History, new_id, printable

_MODULE = "curator"
_SHOWN, _REASON = 80, 300
_STOPPED = "a person stopped all agents"


class RunAgentRequest(RequestModel):
    """What the agent is asked, where it works, the session to go on with, and what it may take at
    most: no more than the settings say.
    """

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


class AgentStepResponse(TypedDict):
    """One step: what the agent said, or the tool that it called.

    `why`: the message where that failed or was refused.
    """

    said: str | None
    called: str | None
    error: bool
    why: str | None


class AgentRunResponse(TypedDict):
    """What a run came to.

    `warning` says what the agent had to do without; `steps` are for callers who may read all of the
    vault.
    """

    run: str
    words: str
    outcome: str
    reason: str
    cost_usd: float
    session: str | None
    wrote: list[str]
    suggested: list[str]
    warning: str | None
    steps: list[AgentStepResponse]


class StopRunsResponse(TypedDict):
    """Which runs were ended, and whether new ones wait."""

    stopped: list[str]
    paused: bool


class AgentRunRoutes:
    def __init__(
        self,
        agents: AgentService,
        *,
        worker: Worker,
        at_work: ActiveRuns,
        authenticator: KeyAuthenticator,
        history: History,
        clock: Callable[[], datetime],
    ) -> None:
        self._agents, self._worker, self._at_work = agents, worker, at_work
        self._authenticator, self._history, self._clock = authenticator, history, clock

    @post("/api/agents/stop", _MODULE, "admin", reach="beyond")
    async def stop(self, body: StopRunsRequest) -> StopRunsResponse:
        """Stop all running agents and start none until resumed."""
        if body.pause:
            self._worker.pause()
        stopped = await self._at_work.stop(_STOPPED)
        return StopRunsResponse(stopped=list(stopped), paused=self._worker.paused)

    @post(
        "/api/agents/{name:.+}/run",
        _MODULE,
        "admin",
        reach="paths",
        answers={200: AgentRunResponse},
        errors=(502,),
        names={"name": "an agent, as module/agent"},
    )
    async def run(self, call: ApiCall, name: str, body: RunAgentRequest) -> web.Response:
        """Run an agent on a prompt."""
        return await self._answer(call, name, body, "cli" if body.entry == "cli" else "http")

    @post(
        "/api/maintenance",
        _MODULE,
        "admin",
        reach="beyond",
        answers={200: AgentRunResponse},
        errors=(502,),
    )
    async def maintenance(self, call: ApiCall, body: RunAgentRequest) -> web.Response:
        """Run the maintenance agent."""
        return await self._answer(call, NAME, body, "maintenance")

    async def _answer(
        self, call: ApiCall, name: str, body: RunAgentRequest, entry: Entry
    ) -> web.Response:
        names = ("working_directory", "timeout_s", "max_turns", "max_cost_usd")
        options = {one: getattr(body, one) for one in names if getattr(body, one) is not None}
        reach = call.grant.both(call.reading)
        authority = Authority(
            reads=reach,
            writes=reach.both(call.writing),
            holds=lambda: self._authenticator.holds(call.identity),
            causes=(new_id("c", self._clock()),),
            entry=entry,
            asked_by="person",
            caller=call.identity.api_key,
            request_id=call.id,
            who=call.identity.name,
        )
        try:
            ran = await self._agents.run(
                name, body.prompt, options, authority=authority, entry=entry, session=body.session
            )
        except (
            AgentUnavailableError
        ) as error:  # as things stand it cannot begin, which is not the daemon's fault
            raise web.HTTPConflict(text=error.message) from error
        return json_answer(await asyncio.to_thread(self._response, ran, call.runs))

    def _response(self, ran: RunReport, access: RunFilter) -> AgentRunResponse:
        document = self._history.run(ran.run) or {}
        steps = _items(document, "steps") if document and access.may_read_words(document) else []
        return AgentRunResponse(
            run=ran.run,
            words=ran.words,
            outcome=ran.outcome.result,
            reason=ran.outcome.reason,
            cost_usd=ran.cost.cost_usd if ran.cost is not None else 0.0,
            session=ran.session,
            wrote=[str(one["path"]) for one in _items(document, "wrote")],
            suggested=list(ran.suggested),
            warning=ran.warning,
            steps=[_step(one) for one in steps],
        )


def _items(document: object, name: str) -> list[dict[str, object]]:
    found = document.get(name, []) if isinstance(document, dict) else []
    return [one for one in found if isinstance(one, dict)]


def _step(step: dict[str, object]) -> AgentStepResponse:
    if "said" in step:
        return AgentStepResponse(said=str(step["said"]), called=None, error=False, why=None)
    arguments = step.get("arguments")
    shown = (
        ", ".join(f"{key}={_brief(value)}" for key, value in arguments.items())
        if isinstance(arguments, dict)
        else ""
    )
    is_error = bool(step.get("error"))
    why = _reason(str(step.get("answer") or "")) if is_error else None
    return AgentStepResponse(
        said=None, called=f"{step['called']}({shown})", error=is_error, why=why
    )


def _reason(answer: str) -> str | None:
    """The first line of it, without what Claude Code puts before a hook's words."""
    first = answer.strip().partition("\n")[0]
    words = first.partition(" hook error: ")[2] if first.startswith("PreToolUse:") else first
    return words[:_REASON] or None


def _brief(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class AnswerPermissionRequest(RequestModel):
    """`once`, `session` (as long as the agent's session lasts), `deny` (this time) or `never` (and
    never asked again).
    """

    answer: Answer


class ForgetPermissionsRequest(RequestModel):
    """The agent that may ask again."""

    agent: Annotated[str, Field(min_length=1, max_length=200)]


class PermissionRequestResponse(TypedDict):
    """An agent's wish.

    `kind`: read, write, bash, network or trusted; `why`: the agent's own words; `until`: when it
    counts as denied.
    """

    id: str
    at: Time
    until: Time
    run: str
    session: str | None
    agent: str
    kind: str
    what: str
    why: str


class PermissionRequestsResponse(TypedDict):
    """What waits for an answer, and what is denied without asking."""

    permissions: list[PermissionRequestResponse]
    never: list[str]


class ForgetPermissionsResponse(TypedDict):
    """How many answers were forgotten."""

    forgotten: int


class PermissionRoutes:
    def __init__(self, permissions: PermissionRequests) -> None:
        self._permissions = permissions

    @get("/api/permissions", _MODULE, "admin", reach="paths")
    async def listing(self, call: ApiCall) -> PermissionRequestsResponse:
        """List the permission requests that wait for an answer."""
        asked = self._permissions
        never = asked.never() if call.grant.alternatives is None else []
        pending = [_shown(one) for one in asked.pending() if _is_theirs(one, call)]
        return PermissionRequestsResponse(permissions=pending, never=list(map(printable, never)))

    @post(
        "/api/permissions/{id}",
        _MODULE,
        "admin",
        reach="paths",
        names={"id": "a question, as it is listed"},
    )
    async def answer(
        self, call: ApiCall, id_: str, body: AnswerPermissionRequest
    ) -> PermissionRequestResponse:
        """Answer a permission request."""
        asked, name = self._permissions, id_
        if not all(_is_theirs(one, call) for one in asked.pending() if one.id == name):
            raise asked.unknown(name)
        return _shown(asked.answer(name, body.answer))

    @post("/api/permissions/forget", _MODULE, "admin", reach="beyond")
    async def forget(self, body: ForgetPermissionsRequest) -> ForgetPermissionsResponse:
        """Forget the answers of `never`, so that an agent can ask again."""
        return ForgetPermissionsResponse(forgotten=self._permissions.forget(body.agent))


def _is_theirs(question: PendingPermission, call: ApiCall) -> bool:
    """Who sees some paths is asked about these alone, as far as they could read or write the file
    themselves.
    """
    if call.grant.alternatives is None:
        return True
    request = question.request
    if request.kind not in ("read", "write") or not call.sight.sees(request.what):
        return False
    grant = call.identity.grant("vault", request.kind)
    return grant is not None and grant.sees(request.what)


def _shown(question: PendingPermission) -> PermissionRequestResponse:
    request = question.request
    return PermissionRequestResponse(
        id=question.id,
        at=time_of(question.at),
        until=time_of(question.until),
        run=question.run,
        session=question.session,
        agent=question.agent,
        kind=request.kind,
        what=printable(request.what),
        why=printable(request.why),
    )
