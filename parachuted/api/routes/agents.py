"""Agents: which there are, what each may do and could see if it ran now, which are exposed, and
whether those with a shell can run here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path as FilePath
from typing import Annotated, Literal, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.access.grant import Grant, may_begin
from parachuted.access.origins import Origins
from parachuted.access.paths import is_hidden
from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.options import (
    ContainerOwner,
    Image,
    SandboxSlot,
    SandboxSpec,
    container_options,
)
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import (
    ApiCall,
    AppRequestModel,
    FolderParameter,
    MediaBody,
    Path,
    RequestModel,
)
from parachuted.api.routes.instructions import AgentNoteRow, AgentNotes
from parachuted.errors import AgentUnavailableError, NotFoundError
from parachuted.keys import EVERYWHERE, AccessGrant
from parachuted.modules.agent_service import AgentListing, AgentStatus, ReachableFiles
from parachuted.runs.skills import FOLDERS as SKILLS
from parachuted.vault import Store, printable

_MODULE = "curator"
_PREVIEW = 200
_MOST_PATTERNS = 100
_TRUSTED_BEFORE = "you"


class ExplainQuery(RequestModel):
    """Which agent, and where it would work."""

    agent: Annotated[str, Field(min_length=1, max_length=200, examples=["curator"])]
    working_directory: FolderParameter | None = None


class TrustTextRequest(RequestModel):
    """A note whose text, as it is now, a person has read and trusts."""

    path: Path


class AgentPermissionsResponse(TypedDict):
    """What it may touch, as patterns that must all hold where there are several lists; none where
    the caller sees some paths only.
    """

    read: list[list[str]]
    write: list[list[str]]
    lane: list[list[str]]
    outside: list[str]
    bash: bool | list[str]
    network: str | list[str]
    interfaces: list[str] | None


class AgentConstraintsResponse(TypedDict):
    """Where a run of it ends, and who begins it."""

    needs_container: bool
    memory: str
    cpus: float
    pids_limit: int
    timeout_s: float | None
    max_turns: int | None
    max_cost_usd: float | None
    only_by_a_person: bool
    asks_each_session: bool


class AgentResponse(TypedDict):
    """An agent.

    `problem` says why it would not run here, or what it does without; `system_prompt` is shown of
    one alone, and to those who may administer.
    """

    name: str
    description: str
    type: str
    model: str | None
    path: str | None
    source: str
    tools: list[str]
    system_prompt: str | None
    system_prompt_preview: str | None
    permissions: AgentPermissionsResponse
    constraints: AgentConstraintsResponse
    mcp_servers: list[str]
    spawns: list[str]
    runs_here: bool
    problem: str | None


class AgentsResponse(TypedDict):
    """All agents, the daemon's and the modules' first, then those that are notes."""

    agents: list[AgentResponse | AgentNoteRow]


class ExposureResponse(TypedDict):
    """Of each, how the agent comes by it; `exposed`: it has all three at once."""

    agent: str
    exposed: bool
    private: str | None
    untrusted: str | None
    outward: str | None
    problem: str | None


class AgentAuditResponse(TypedDict):
    """Every agent, those that are exposed first. `held_by` is what holds them all the same."""

    agents: list[ExposureResponse]
    exposed: int
    held_by: str


class AgentExplanationResponse(TypedDict):
    """All that an agent could see and do.

    `container` is what the engine would get, None where it needs none.
    """

    agent: AgentResponse
    files: ReachableFiles
    runs_here: bool
    problem: str | None
    begins: str
    always_refused: list[str]
    after_strangers_text: str
    container: dict[str, object] | None


class TrustTextResponse(TypedDict):
    """What the text counted as before."""

    path: str
    before: Literal["you", "agent", "bot", "imported", "web"]


_REFUSED = [
    (
        "write a file or folder whose name begins with a dot (.parachute/, .claude/, .git/, "
        ".mcp.json), whether it exists or not"
    ),
    "write Modules/ or Suggestions/",
    "read a hidden file or a module's code",
    "see a credential: model calls go through the daemon, which adds it",
]
_SOMETHING = "something is missing here; a key that may see the whole vault gets the details"
_HELD = (
    "a run that has read a stranger's text writes its lane alone, and has no shell and no "
    "network from then on; it can suggest"
)


class AgentRoutes:
    def __init__(self, listing: AgentListing, store: Store, origins: Origins) -> None:
        self._listing, self._store, self._origins = listing, store, origins
        self._notes = AgentNotes(store.root)

    @get("/api/agents", _MODULE, "read", reach="paths")
    async def listing(self, call: ApiCall) -> AgentsResponse:
        """List the agents."""
        agents = [self._shown(one, call) for one in await self._listing.all()]
        notes = [one for one in await asyncio.to_thread(self._notes.all) if _sees(call, one)]
        return AgentsResponse(agents=[*agents, *(one | {"system_prompt": None} for one in notes)])

    @get(
        "/api/agents/{name:.+}",
        _MODULE,
        "read",
        reach="paths",
        names={"name": "an agent, as module/agent"},
    )
    async def one(self, call: ApiCall, name: str) -> AgentResponse | AgentNoteRow:
        """An agent."""
        if name not in self._listing.all_names():
            with suppress(NotFoundError):
                note = await asyncio.to_thread(self._notes.get, name)
                if _sees(call, note):
                    return note
        return self._shown(await self._listing.get(name), call, is_whole=_administers(call))

    @get("/api/agents/audit", _MODULE, "admin", reach="beyond")
    async def audit(self) -> AgentAuditResponse:
        """Which agents combine private data, untrusted text and a way out."""
        found = []
        for known in await self._listing.all():
            seen = await asyncio.to_thread(self._listing.seen, known.grant)
            it = self._listing.exposure(known, seen)
            found.append(
                ExposureResponse(
                    agent=known.name,
                    exposed=it.is_whole,
                    private=it.private,
                    untrusted=it.untrusted,
                    outward=it.outward,
                    problem=known.problem,
                )
            )
        found.sort(key=lambda one: (not one["exposed"], one["agent"]))
        return AgentAuditResponse(
            agents=found, exposed=sum(one["exposed"] for one in found), held_by=_HELD
        )

    @post("/api/agents/trust", _MODULE, "admin", reach="paths")
    async def trust(self, call: ApiCall, body: TrustTextRequest) -> TrustTextResponse:
        """Trust a note's current text."""
        asked, origins = body.path, self._origins
        place = next((one for one in SKILLS if f"/{one}/" in f"/{asked}"), SKILLS[0])
        folder, is_skill, _name = f"/{asked}".partition(f"/{place}/")
        path = (
            asked if is_skill and call.sight.grant.alternatives is None else call.sight.find(asked)
        )  # a skill's folder is a hidden one
        call.touched.append(path)
        content = await asyncio.to_thread(self._store.read, path)
        before = origins.of_text(path, content.data, content.digest)
        if (
            is_skill
            and folder
            and before == _TRUSTED_BEFORE
            and not origins.is_trusted(path, content.digest)
        ):
            before = origins.of_folder(folder[1:])
        if before != _TRUSTED_BEFORE:
            await asyncio.to_thread(origins.trust, path, content.digest)
        return TrustTextResponse(path=printable(path), before=before)

    @get("/api/sandbox/explain", _MODULE, "admin", reach="beyond")
    async def explain(self, call: ApiCall, query: ExplainQuery) -> AgentExplanationResponse:
        """Exactly what an agent could see and do."""
        known = await self._listing.get(query.agent, folder=query.working_directory)
        seen = await asyncio.to_thread(self._listing.seen, known.grant)
        return AgentExplanationResponse(
            agent=self._shown(known, call, is_whole=True),
            files=seen,
            runs_here=known.runs_here,
            problem=known.problem,
            begins=_begins(known),
            always_refused=_REFUSED,
            after_strangers_text=_HELD,
            container=_container(known.grant),
        )

    def _shown(self, known: AgentStatus, call: ApiCall, *, is_whole: bool = False) -> AgentResponse:
        grant, config, request = known.grant, known.config, known.request
        prompt = request.definition.system_prompt if request is not None else None
        sees_all, box = call.grant.alternatives is None, grant.sandbox
        permissions = AgentPermissionsResponse(
            read=_patterns(grant.reads) if sees_all else [],
            write=_patterns(grant.writes) if sees_all else [],
            lane=_patterns(grant.lane) if sees_all else [],
            outside=list(map(printable, grant.outside)) if sees_all else [],
            bash=list(grant.bash) if isinstance(grant.bash, tuple) else grant.bash,
            network=list(grant.network) if isinstance(grant.network, tuple) else grant.network,
            interfaces=None if grant.interfaces is None else list(grant.interfaces),
        )
        limits = request.budget.limits if request is not None else None
        constraints = AgentConstraintsResponse(
            needs_container=grant.needs_container,
            memory=box.memory,
            cpus=box.cpus,
            pids_limit=box.pids_limit,
            timeout_s=limits.timeout_s if limits else None,
            max_turns=limits.max_turns if limits else None,
            max_cost_usd=limits.max_cost_usd if limits else None,
            only_by_a_person=config is not None and config.requires_explicit_invocation,
            asks_each_session=config is not None and config.requires_explicit_approval,
        )
        return AgentResponse(
            name=known.name,
            description=known.description,
            type="agent",
            model=config.model if config is not None else None,
            path=f"Modules/{known.module}" if known.module else None,
            source=known.module or "builtin",
            tools=[*known.tools, *known.calls],
            system_prompt=prompt if is_whole else None,
            system_prompt_preview=prompt[:_PREVIEW] if prompt and _administers(call) else None,
            permissions=permissions,
            constraints=constraints,
            mcp_servers=[],
            spawns=[],
            runs_here=known.runs_here,
            problem=known.problem if sees_all or not known.problem else _SOMETHING,
        )


def _sees(call: ApiCall, note: AgentNoteRow) -> bool:
    grant = call.grant
    return grant.alternatives is None or (not is_hidden(note["path"]) and grant.sees(note["path"]))


def _administers(call: ApiCall) -> bool:
    return call.identity.grant(_MODULE, "admin") == EVERYWHERE


def _begins(known: AgentStatus) -> str:
    if known.config is None:
        return "when a note that it watches changes"
    if may_begin(known.config, "module") is not None:
        return "only when a person asks for it by name"
    return (
        "when a person, its module, a schedule or a bot asks for it; it may do the same "
        "whichever it is"
    )


def _patterns(grant: AccessGrant) -> list[list[str]]:
    """Each list on its own must name a file; alternatives stand one after the other."""
    if grant.alternatives is None:
        return [["**"]]
    return [
        [printable(glob.text) for glob in globs[:_MOST_PATTERNS]]
        for every in grant.alternatives
        for globs in every
    ]


def _container(grant: Grant) -> dict[str, object] | None:
    """The very options, with words in place of the folders that a run is given."""
    if not grant.needs_container:
        return None
    folders = {
        name: FilePath(f"(this run's {name})") for name in ("work", "home", "sockets", "outside")
    }
    slot = SandboxSlot(id="(this run's)", **folders)
    cli = FilePath("(the agent's program)")
    spec = SandboxSpec(sandbox=slot.sandbox(grant.sandbox), command=(), env={}, cli=cli)
    options = container_options(
        spec,
        slot,
        Image(name="parachute-sandbox", kind="built"),
        ContainerOwner(user=(1000, 1000), daemon="(this daemon)", life="(now)"),
    )
    host = cast("Mapping[str, object]", options["HostConfig"])
    shown = {name: options[name] for name in ("User", "Env")}
    mounts = cast("Sequence[Mapping[str, object]]", host["Mounts"])
    seen = [
        f"{one['Source']} at {one['Target']}{', read only' if one['ReadOnly'] else ''}"
        for one in mounts
    ]
    return {
        **shown,
        **{name: value for name, value in host.items() if name != "Mounts"},
        "Mounts": seen,
    }


_SYSTEM = "system"
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

    @get("/api/sandbox", _SYSTEM, "read", reach="nothing")
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
        _SYSTEM,
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
