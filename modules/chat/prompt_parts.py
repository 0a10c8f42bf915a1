"""The prompt of one turn: which agent, within which bounds, and what of notes, Brain and the
journal goes into it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from parachuted.errors import ActRefusedError, NotFoundError, ParachuteError
from parachuted.modules import (
    AgentNarrowing,
    AgentResources,
    AgentSkill,
    Finding,
    Module,
    Note,
    reading,
    visible_to_agents,
)

from .brain import Bridge, field_of
from .permissions import (
    Mode,
    described,
    is_below,
    mode_of,
    named_in,
    narrowing_of,
    reads_by,
    within_agent,
    within_workspace,
)
from .prompt import ComposedPrompt, Kind, PromptPart, compose
from .session import Session
from .turn import TurnRequest
from .turn_events import Event
from .workspaces import find_workspace

CONTEXT_NAMES: Final = ("AGENTS.md", "CLAUDE.md")
AGENT_FOLDER: Final = ".agents"
_WITHIN_S: Final = 3.0
_MOST_ENTRIES, _LONGEST_ENTRY = 3, 1_500
_OWN_ORIGINS: Final = frozenset({"", "you", "agent"})
_TOOLS: Final = """\
## This conversation

Once you know what it is about, give it a title of five to ten words with `update_session_title`, and keep its summary current with `update_session_summary` when the subject has moved on. A title that the person gave is protected; leave it then."""  # noqa: E501

_SKILL: Final = re.compile(r"/([A-Za-z0-9_-]+)(?!\S)")

Gathered = Awaitable[list[PromptPart]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNote:
    name: str
    text: str
    path: str
    model: str | None = None
    tools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInputs:
    session: Session
    mode: Mode
    narrowing: AgentNarrowing
    message: str
    system_prompt: str | None
    agent: AgentNote | None
    folder: str
    limits: Mapping[str, str | list[str]]
    resources: AgentResources
    skill: AgentSkill | None
    is_preview: bool


class PromptParts:
    """What cannot be read is left out and fails no turn."""

    def __init__(self, module: Module, bridge: Bridge) -> None:
        self._module, self._bridge = module, bridge
        self.limit_s = _WITHIN_S  # of each part

    async def preview(self, session: Session, request: TurnRequest) -> dict[str, object]:
        mode = mode_of(session.mode)
        inputs, prompt = await self.make(request, session, mode, is_preview=True)
        return {"prompt": prompt.text + prompt.with_message, **await self.event(inputs, prompt)}

    async def make(
        self,
        request: TurnRequest,
        session: Session,
        mode: Mode,
        *,
        is_preview: bool = False,
    ) -> tuple[PromptInputs, ComposedPrompt]:
        folder = (session.working_directory or "").strip("/")
        limits = await self._workspace_limits(session)
        agent = await self._agent(request, session, folder, limits)
        narrowing = narrowing_of(
            session.permissions, mode, folder=folder, context_folders=session.context_folders
        )
        narrowing = within_agent(narrowing, agent.tools if agent else None)
        narrowing = within_workspace(narrowing, limits)
        resources = await self._module.agent(mode.agent).resources(
            working_directory=own_folder(mode, folder), narrowing=narrowing
        )
        if narrowing.skills is not None:
            left = tuple(skill for skill in resources.skills if skill.name in narrowing.skills)
            resources = replace(resources, skills=left)
        is_persons = (request.is_typed or request.is_again) and not request.is_shared
        inputs = PromptInputs(
            session=session,
            mode=mode,
            narrowing=narrowing,
            resources=resources,
            skill=skill_of(request.message, resources.skills) if is_persons else None,
            message=request.message,
            system_prompt=request.system_prompt,
            agent=agent,
            folder=folder,
            limits=limits,
            is_preview=is_preview,
        )
        is_own = mode.name == "maintenance"  # the agent has its own words
        return inputs, compose(() if is_own else await self._gather(inputs))

    async def event(self, inputs: PromptInputs, prompt: ComposedPrompt) -> Event:
        allowed = named_in(inputs.limits, "agents")
        names = await self.agent_names(inputs.folder)
        agent = inputs.agent
        source = "agent" if agent else "custom" if inputs.system_prompt else "default"
        brain = [part for part in prompt.parts if part.kind == "brain"]
        working = prompt.paths("working_directory")
        return {
            "type": "prompt_metadata",
            "promptSource": source,
            "promptSourcePath": agent.path if agent else None,
            "contextFiles": prompt.paths("context", "working_directory"),
            "contextTokens": prompt.tokens_of("context", "working_directory"),
            "contextTruncated": prompt.is_cut,
            "agentName": agent.name if agent else None,
            "availableAgents": [name for name in names if allowed is None or name in allowed],
            "availableSkills": [skill.name for skill in inputs.resources.skills],
            "availableMcps": list(inputs.resources.mcp_servers),
            "basePromptTokens": prompt.tokens_of("base", "bounds", "tools"),
            "totalPromptTokens": prompt.tokens,
            "trustMode": inputs.mode.name == "trusted",
            "workingDirectoryClaudeMd": working[-1] if working else None,
            "brain_context_loaded": bool(brain),
            "brain_context_count": sum(prompt_part.count for prompt_part in brain),
            "parts": prompt.rows(),
        }

    async def _gather(self, inputs: PromptInputs) -> list[PromptPart]:
        found = await asyncio.gather(
            self._within(self._contexts(inputs), "context"),
            self._within(self._from_brain(inputs), "enrichment"),
            self._within(self._journal(inputs), "journal"),
            self._within(self._working_folder(inputs), "working folder"),
        )
        read = {one.path for one in found[0]}
        rest = [part for parts in found[1:3] for part in parts]
        working = [prompt_part for prompt_part in found[3] if prompt_part.path not in read]
        return [*self._fixed(inputs), *found[0], *rest, *working, *await self._skill(inputs)]

    async def _agent(
        self,
        request: TurnRequest,
        session: Session,
        folder: str,
        limits: Mapping[str, str | list[str]],
    ) -> AgentNote | None:
        if request.is_shared:
            return None
        name = request.agent or session.agent
        first = request.message.split(maxsplit=1)[:1]
        if first and first[0].startswith("@"):
            named = first[0][1:]
            name = named if named in await self.agent_names(folder) else name
        if not name:
            return None
        agent = await self._find_agent(name, folder)
        allowed = named_in(limits, "agents")
        # A note says in its frontmatter what it likes: its file's name is what was allowed.
        if allowed is not None and name_in(agent.path, folder) not in allowed:
            raise ActRefusedError(
                f"the workspace {session.workspace} has no agent {name[:80]!r}; its capabilities "
                "name those that it has"
            )
        return agent

    async def _workspace_limits(self, session: Session) -> Mapping[str, str | list[str]]:
        """What the session's workspace allows; one that is gone allows all."""
        if not session.workspace:
            return {}
        try:
            return (await find_workspace(self._module, session.workspace))["capabilities"]
        except NotFoundError:
            return {}

    async def _find_agent(self, name: str, folder: str = "") -> AgentNote:
        """ActRefusedError: a stranger may have written the note."""
        path = name if name.endswith(".md") else None
        if path is None and "/" not in name:
            for place in _agent_folders(folder):
                with suppress(ParachuteError):
                    if await self._module.vault.exists(f"{place}/{name}.md"):
                        path = f"{place}/{name}.md"
                        break
        if path is None:
            places = " or ".join(_agent_folders(folder))
            raise NotFoundError(f"there is no agent {name[:80]!r} in {places}")
        note = await self._module.vault.note(path)
        if _is_strangers(note):
            raise ActRefusedError(
                f"{path[:200]} is a stranger's text, so no agent is made of it; move it into "
                f"{AGENT_FOLDER}/ once you have read it"
            )
        called, model = note.frontmatter.get("name"), note.frontmatter.get("model")
        stem = path.rpartition("/")[2].removesuffix(".md")
        words = visible_to_agents(note.body).strip()
        return AgentNote(
            name=str(called or stem),
            text=words,
            path=path,
            model=str(model) if model not in (None, "", "inherit") else None,
            tools=_names(note.frontmatter.get("tools")),
        )

    async def agent_names(self, folder: str = "") -> list[str]:
        names: dict[str, None] = {}
        for place in _agent_folders(folder):
            for path in await self._list(f"{place}/*.md"):
                names[path.rpartition("/")[2].removesuffix(".md")] = None
        return sorted(names)

    def _fixed(self, inputs: PromptInputs) -> list[PromptPart]:
        base = inputs.mode.base
        if inputs.agent is not None:
            base = f"{inputs.agent.text}\n\n{inputs.mode.base}"
        if inputs.system_prompt:
            base = f"{inputs.system_prompt.strip()}\n\n{inputs.mode.base}"
        path = inputs.agent.path if inputs.agent else None
        return [
            PromptPart(kind="base", text=base, path=path),
            PromptPart(kind="bounds", text=described(inputs.narrowing)),
            PromptPart(kind="tools", text=_TOOLS),
        ]

    async def _skill(self, inputs: PromptInputs) -> list[PromptPart]:
        """Raises what keeps it from being read: the person counts on it."""
        chosen = inputs.skill
        if chosen is None:
            return []
        text = await self._module.agent(inputs.mode.agent).skill(chosen.name)
        return [
            PromptPart(
                kind="skill",
                text=visible_to_agents(text),
                path=chosen.path,
                title=chosen.name,
            )
        ]

    async def _contexts(self, inputs: PromptInputs) -> list[PromptPart]:
        names = dict.fromkeys(inputs.session.context_folders)
        parts = [await self._first("context", context_paths(name)) for name in names]
        return [part for part in parts if part is not None]

    async def _working_folder(self, inputs: PromptInputs) -> list[PromptPart]:
        """For a trusted agent also of the folders above it."""
        if inputs.mode.name == "default":
            return []
        folders = [inputs.folder]
        while inputs.mode.name == "trusted" and folders[0]:
            folders.insert(0, folders[0].rpartition("/")[0])
        permissions = inputs.session.permissions
        allowed = None if permissions is None else permissions.allowed_folders
        names = CONTEXT_NAMES[::-1]
        parts = [
            await self._first("working_directory", [in_folder(folder, name) for name in names])
            for folder in folders
            if is_below(folder, allowed)
        ]
        return [part for part in parts if part is not None]

    async def _from_brain(self, inputs: PromptInputs) -> list[PromptPart]:
        settings, call = self._module.settings, self._module.current_call
        if not (settings.brain_context and reads_by(inputs.session.permissions, "brain")):
            return []
        text, count = await self._bridge.enrich(
            inputs.session, inputs.message, is_preview=inputs.is_preview
        )
        if not text:
            return []
        if not count:  # it says that Brain is left to the agent, and quotes nothing
            return [PromptPart(kind="tools", text=text)]
        is_strangers = self._module.current_call.is_strangers and not call.is_strangers
        return [PromptPart(kind="brain", text=text, is_strangers=is_strangers, count=count)]

    async def _journal(self, inputs: PromptInputs) -> list[PromptPart]:
        journal: Any = self._module.get_interface("JournalInterface")
        may_read = reads_by(inputs.session.permissions, "daily")
        if journal is None or not may_read or inputs.mode.name != "default":
            return []
        entries = await journal.get_recent_entries(_MOST_ENTRIES)
        return [_entry_part(entry) for entry in entries]

    async def _first(self, kind: Kind, paths: Iterable[str]) -> PromptPart | None:
        for path in paths:
            part = await self._note(kind, path)
            if part is not None:
                return part
        return None

    async def _note(self, kind: Kind, path: str) -> PromptPart | None:
        findings: list[Finding] = []
        with reading(path, findings), suppress(NotFoundError, ActRefusedError):
            note = await self._module.vault.note(path)
            return PromptPart(
                kind=kind,
                text=visible_to_agents(note.text),
                path=path,
                title=note.title,
                modified=note.modified.isoformat(),
                is_strangers=_is_strangers(note),
            )
        self._report(findings)
        return None

    async def _within(self, parts: Gathered, what: str) -> list[PromptPart]:
        findings: list[Finding] = []
        with reading(what, findings):
            async with asyncio.timeout(self.limit_s):
                return await parts
        self._report(findings)
        return []

    def _report(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            why = {"of": finding.path, "why": finding.problem}
            self._module.log.warning("a prompt lacks a part", extra=why)

    async def _list(self, pattern: str) -> Sequence[str]:
        try:
            return await self._module.vault.list(pattern)
        except ParachuteError:
            return ()


def _agent_folders(folder: str) -> list[str]:
    return [*([f"{folder}/{AGENT_FOLDER}"] if folder else []), AGENT_FOLDER]


def name_in(path: str, folder: str) -> str | None:
    place, _, file = path.rpartition("/")
    return file.removesuffix(".md") if place in _agent_folders(folder) else None


def skill_of(message: str, skills: Iterable[AgentSkill]) -> AgentSkill | None:
    match = _SKILL.match(message.lstrip())
    return next((skill for skill in skills if match is not None and skill.name == match[1]), None)


def _names(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    listed = value if isinstance(value, list) else str(value).split(",")
    return tuple(name for one in listed if (name := str(one).strip()))


def _is_strangers(note: Note) -> bool:
    origin = str(note.frontmatter.get("origin") or "")
    return note.path.startswith("Inbox/") or origin not in _OWN_ORIGINS


def _entry_part(entry: object) -> PromptPart:
    day, path = str(field_of(entry, "created_at") or ""), field_of(entry, "path")
    return PromptPart(
        kind="journal",
        text=str(field_of(entry, "content") or "")[:_LONGEST_ENTRY],
        path=path if isinstance(path, str) else None,
        title=" ".join(filter(None, [day, str(field_of(entry, "title") or "")])),
        modified=day,
    )


def context_paths(name: str) -> list[str]:
    folder = name.strip("/")
    if folder.endswith(".md"):
        return [folder]
    return [in_folder(folder, one) for one in CONTEXT_NAMES]


def in_folder(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def own_folder(mode: Mode, folder: str) -> str:
    return folder if mode.name == "workspace" else ""
