"""Agents: what each may do and see, and agents and skills that are notes.

These lie in folders whose names begin with a dot, which no agent and no module writes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from aiohttp import web
from pydantic import Field

from parachuted.access.strangers import ORIGINS, Strangers, says_stranger
from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.sandboxes import SandboxStatus
from parachuted.api.http.answers import STREAM_HEADERS
from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import (
    ApiCall,
    AppRequestModel,
    FolderParameter,
    MediaBody,
    Path,
    RequestModel,
)
from parachuted.api.routes.note_changes import author_of
from parachuted.errors import AgentUnavailableError, ConflictError, EditRefusedError, NotFoundError
from parachuted.keys import EVERYWHERE
from parachuted.modules.listed_agents import (
    AGENT_FOLDERS,
    INSTRUCTION_NAME,
    AgentListing,
    ListedAgent,
    ListedSkill,
    ReachableFiles,
    agent_notes,
    skill_notes,
)
from parachuted.runs.skills import FOLDERS as SKILLS
from parachuted.vault import (
    DeleteKey,
    SeveralEdits,
    Store,
    VaultPath,
    apply_edit,
    declared_origin,
    parse_note,
    printable,
)
from parachuted.vault.compose import compose_note

_MODULE = "curator"
_ITS_NAME = {"name": "its name"}
_Note = TypeVar("_Note", ListedAgent, ListedSkill)


Name = Annotated[str, Field(pattern=INSTRUCTION_NAME)]
Text = Annotated[str, Field(min_length=1, max_length=100_000)]
Line = Annotated[str, Field(max_length=1_000)]


class AddAgentRequest(RequestModel):
    name: Name
    prompt: Text
    description: Line | None = None
    tools: Annotated[list[Line], Field(max_length=100)] | None = None
    model: Line | None = None


class AddSkillRequest(RequestModel):
    """`content` is Markdown, with or without frontmatter."""

    name: Name
    content: Text
    description: Line | None = None


@dataclass(frozen=True, slots=True)
class RemovedInstructions:
    name: str
    path: str


class TrustTextRequest(RequestModel):
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExplanation:
    agent: ListedAgent
    files: ReachableFiles
    always_refused: list[str]
    after_strangers_text: str


@dataclass(frozen=True, slots=True)
class TrustedText:
    """What the text counted as before."""

    path: VaultPath
    before: str


_REFUSED = [
    (
        "write a file or folder whose name begins with a dot (.parachute/, .claude/, .git/, "
        ".mcp.json), whether it exists or not"
    ),
    "write Modules/ or Suggestions/",
    "read a hidden file or a module's code",
    "see a credential: model calls go through the daemon, which adds it",
]


_HELD = (
    "a run that has read a stranger's text writes its lane alone, and has no shell and no "
    "network from then on; it can suggest"
)


class AgentRoutes:
    def __init__(self, listing: AgentListing, store: Store, strangers: Strangers) -> None:
        self._listing, self._store, self._strangers = listing, store, strangers

    @get("/api/agents", _MODULE, "read", wrapped="agents")
    async def listing(self, call: ApiCall) -> list[ListedAgent]:
        """List the agents: the daemon's and the modules' first, then those that are notes."""
        own = [_public(agent, call) for agent in await self._listing.all()]
        notes = (await self._notes()).values()
        return [replace(agent, system_prompt=None) for agent in (*own, *notes)]

    @get("/api/agents/{name:.+}", _MODULE, "read", names={"name": "an agent, as module/agent"})
    async def one(self, call: ApiCall, name: str) -> ListedAgent:
        """An agent; its `system_prompt` is for those who may administer."""
        if name not in self._listing.all_names() and (note := (await self._notes()).get(name)):
            return note
        return _public((await self._listing.get(name))[0], call)

    @post("/api/agents/trust", _MODULE, "admin")
    async def trust(self, call: ApiCall, body: TrustTextRequest) -> TrustedText:
        """Take the mark of strangers' text off a note."""
        asked = body.path
        is_skill = any(f"/{skill}/" in f"/{asked}" for skill in SKILLS)
        path = asked if is_skill else call.files.find(asked)  # a skill's folder is a hidden one
        call.touched.append(path)
        content = await asyncio.to_thread(self._store.read, path)
        if self._strangers.is_place(path):
            raise EditRefusedError(
                f"{printable(path)} lies in a folder of strangers' texts, which the setting "
                "agent.untrusted names; move it elsewhere"
            )
        if not says_stranger(content.data):
            return TrustedText(path, "you")
        values = parse_note(content.data).values
        names = [name for name in values if name.casefold() == "origin"]
        edit = SeveralEdits(edits=tuple(DeleteKey(key=name) for name in names))
        if not names or says_stranger(apply_edit(edit, content.data)):
            raise EditRefusedError(
                f"the frontmatter of {printable(path)} cannot be read, so take `origin` out of it "
                "yourself"
            )
        author = author_of(self._store, call)
        await asyncio.to_thread(self._store.edit, path, edit, author, base=content.digest)
        await self._store.notice([path])
        said = [word for word in declared_origin(content.data) if word.casefold() in ORIGINS]
        return TrustedText(path, said[0].casefold())

    @get("/api/sandbox/explain", _MODULE, "admin")
    async def explain(
        self,
        agent: Annotated[str, Field(min_length=1, max_length=200, examples=["curator"])],
        working_directory: FolderParameter | None = None,
    ) -> AgentExplanation:
        """Exactly what an agent could see and do."""
        known, grant = await self._listing.get(agent, folder=working_directory)
        return AgentExplanation(
            agent=known,
            files=await asyncio.to_thread(self._listing.reachable, grant),
            always_refused=_REFUSED,
            after_strangers_text=_HELD,
        )

    @post("/api/agents", _MODULE, "admin")
    async def add_agent(self, call: ApiCall, body: AddAgentRequest) -> ListedAgent:
        """Make an agent that is a note in `.agents/`, which conversations name."""
        if body.name in {*self._listing.all_names(), *await self._notes()}:
            raise _taken(f"an agent {body.name}")
        values = body.model_dump(exclude={"prompt"}, exclude_none=True)
        text = compose_note(values, body.prompt)  # a prompt may begin as frontmatter does
        await self._create(call, f"{AGENT_FOLDERS[0]}/{body.name}.md", text)
        return _found(await self._notes(), body.name, "agent")

    @delete("/api/agents/{name:.+}", _MODULE, "admin", names=_ITS_NAME)
    async def remove_agent(self, call: ApiCall, name: str) -> RemovedInstructions:
        """Remove an agent that is a note; its text stays in the history."""
        if name in self._listing.all_names():
            raise web.HTTPForbidden(text=f"{printable(name)} is not a note of the vault; it stays")
        path = str(_found(await self._notes(), name, "agent").path)
        await self._delete(call, path)
        return RemovedInstructions(name, path)

    @get("/api/skills", _MODULE, "read", wrapped="skills")
    async def skills(self) -> list[ListedSkill]:
        """List the vault's skills, by name."""
        return [replace(skill, content=None) for skill in (await self._skills()).values()]

    @get("/api/skills/{name}", _MODULE, "read", names=_ITS_NAME)
    async def skill(self, name: str) -> ListedSkill:
        """A skill with its text and files."""
        return _found(await self._skills(), name, "skill")

    @post("/api/skills", _MODULE, "admin")
    async def add_skill(self, call: ApiCall, body: AddSkillRequest) -> ListedSkill:
        """Make a skill in `.skills/`."""
        if body.name in await self._skills():
            raise _taken(f"a skill {body.name}")
        values = body.model_dump(exclude={"content"}, exclude_none=True)
        has_own = body.content.startswith("---\n")
        text = body.content if has_own else compose_note(values, body.content)
        await self._create(call, f".skills/{body.name}/SKILL.md", text)
        return _found(await self._skills(), body.name, "skill")

    @delete("/api/skills/{name}", _MODULE, "admin", names=_ITS_NAME)
    async def remove_skill(self, call: ApiCall, name: str) -> RemovedInstructions:
        """Remove a skill with its files; their texts stay in the history."""
        skill = _found(await self._skills(), name, "skill")
        folder = VaultPath(skill.path).folder
        for path in [f"{folder}/{file.name}" for file in skill.files] or [skill.path]:
            await self._delete(call, path)
        return RemovedInstructions(name, skill.path)

    async def _notes(self) -> dict[str, ListedAgent]:
        return await asyncio.to_thread(agent_notes, self._store.root)

    async def _skills(self) -> dict[str, ListedSkill]:
        return await asyncio.to_thread(skill_notes, self._store.root, self._strangers)

    async def _create(self, call: ApiCall, path: str, text: str) -> None:
        author = author_of(self._store, call)
        await asyncio.to_thread(self._store.create, VaultPath.parse(path), text.encode(), author)

    async def _delete(self, call: ApiCall, path: str) -> None:
        author = author_of(self._store, call)
        await asyncio.to_thread(self._store.delete, VaultPath.parse(path), author)


def _public(agent: ListedAgent, call: ApiCall) -> ListedAgent:
    if call.identity.grant(_MODULE, "admin") == EVERYWHERE:
        return agent
    return replace(agent, system_prompt=None, system_prompt_preview=None)


def _found(notes: Mapping[str, _Note], name: str, kind: str) -> _Note:
    if name not in notes:
        raise NotFoundError(f"there is no {kind} {printable(name[:80])}")
    return notes[name]


def _taken(what: str) -> ConflictError:
    return ConflictError(f"there is {what} already", base=b"", ours=b"", theirs=b"", is_known=False)


_SYSTEM = "system"
_NONE = "this daemon runs agents without sandboxes"


class BuildSandboxRequest(AppRequestModel):
    """`offline`: made of this machine's own programs, which needs no network."""

    offline: bool = False


class SandboxRoutes:
    def __init__(self, sandboxes: Sandboxes | None) -> None:
        self._sandboxes = sandboxes
        self._building = asyncio.Lock()

    @get("/api/sandbox", _SYSTEM, "read")
    async def status(self) -> SandboxStatus:
        """Whether agents with a shell can run here, and what is missing if not."""
        if self._sandboxes is None:
            return SandboxStatus(available=False, problem=_NONE, engine=None, image=None)
        return await self._sandboxes.status()

    @post(
        "/api/sandbox/build",
        _SYSTEM,
        "admin",
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
            response = web.StreamResponse(headers=STREAM_HEADERS)
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
    return f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n".encode()
