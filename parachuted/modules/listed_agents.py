"""Agents and skills as a person is shown them: the daemon's agents, those of modules, and notes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from parachuted.access.agent_config import AgentConfig
from parachuted.access.caller import Caller
from parachuted.access.grant import CURATOR, Grant, exactly, may_begin
from parachuted.access.strangers import Strangers, Taint
from parachuted.bubbling import WatchRegistry
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.keys import NOWHERE, AccessGrant
from parachuted.modules.hosting.module_agents import AgentService
from parachuted.runs.agent_runner import NAME as MAINTENANCE
from parachuted.runs.run_request import RunRequest
from parachuted.runs.skills import Skill, find_skills
from parachuted.vault import PathText, VaultIndex, VaultPath, VaultRoot, parse_note, printable

AGENT_FOLDERS: Final = (".agents", ".claude/agents")
INSTRUCTION_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
_NOT_CHOSEN = "conversations choose agents of .agents/ alone; copy it there to use it"
_PREVIEW = 200
_MOST, _LARGEST, _MOST_PATTERNS, _MOST_FILES = 500, 64 << 10, 100, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPermissions:
    """What it may touch, as patterns that must all hold where there are several lists."""

    read: list[list[str]]
    write: list[list[str]]
    lane: list[list[str]]
    outside: tuple[PathText, ...]
    bash: bool | tuple[str, ...]
    network: str | tuple[str, ...]
    interfaces: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConstraints:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAgent:
    """An agent.

    `problem` says why it would not run here, or what it does without. What one that is a note may
    do is its conversation's to say.
    """

    name: str
    description: str | None
    type: str = "agent"
    model: str | None
    path: PathText | None
    source: str
    tools: list[str]
    system_prompt: str | None
    system_prompt_preview: str | None
    permissions: AgentPermissions | None = None
    constraints: AgentConstraints | None = None
    mcp_servers: tuple[str, ...] = ()
    spawns: tuple[str, ...] = ()
    runs_here: bool
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """An agent that is not a note. `request`: None for curators."""

    listed: ListedAgent
    grant: Grant
    request: RunRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachableFiles:
    """`strangers` are left out of a container's copy, and mark a run that reads them."""

    reads: int
    writes: int
    strangers: int
    left_out: int
    first: tuple[str, ...]
    first_writes: tuple[str, ...]


def begins(known: AgentStatus) -> str:
    if known.request is None:
        return "when a note that it watches changes"
    if may_begin(known.request.definition.config, "module") is not None:
        return "only when a person asks for it by name"
    return (
        "when a person, its module, a schedule or a bot asks for it; it may do the same "
        "whichever it is"
    )


_READING, _WRITING = (
    ("read_note", "list_notes", "search_notes"),
    ("write_note", "edit_section", "set_key", "move_note"),
)
_OF_CURATOR = ("list_context_files", "read_context", "update_context", "no_change")
_CURATOR_IS = (
    "Keeps a note current with what it watches: it reads what changed, and writes that note alone."
)
_MOST_SHOWN = 20


class AgentListing:
    """All agents. `declared` finds what the class of one of the modules called `names` declares."""

    def __init__(
        self,
        agents: AgentService,
        names: Callable[[], Iterable[str]],
        declared: Callable[[str], Mapping[str, AgentConfig]],
        watches: WatchRegistry,
        index: VaultIndex,
        strangers: Strangers,
    ) -> None:
        self._agents, self._names, self._declared = agents, names, declared
        self._watches, self._index, self._strangers = watches, index, strangers

    def all_names(self) -> list[str]:
        found = [CURATOR, MAINTENANCE]
        for module in sorted(self._names()):
            approved = self._agents.approved(module)
            if approved is not None:
                agents = {**self._declared(module), **approved.manifest.agents}
                found += [f"{module}/{agent}" for agent in agents]
        return found

    async def get(self, name: str, *, folder: str | None = None) -> AgentStatus:
        """The agent of that name, working in that folder. Raises NotFoundError."""
        if name == CURATOR:
            return self._curator()
        options = {} if folder is None else {"working_directory": folder}
        request = await self._agents.request(name, "", options, caller=Caller(), entry="cli")
        definition, runs = request.definition, self._agents.runs
        grant, here = runs.grant(request), await runs.here(request)
        tools = [tool.name for tool in (definition.tools(Taint()) if definition.tools else ())]
        listed = _listed(
            definition.name,
            definition.config.description or definition.who,
            definition.module,
            [
                *(_READING if request.may_read else ()),
                *(_WRITING if grant.writes.alternatives != () else ()),
                *(("suggest_change",) if request.may_read else ()),
                *tools,
                *grant.native,
                *grant.tools,
            ],
            grant,
            request,
        )
        listed = replace(
            listed, runs_here=here.obstacle is None, problem=here.obstacle or here.missing
        )
        return AgentStatus(listed=listed, grant=grant, request=request)

    async def all(self) -> list[AgentStatus]:
        """One whose settings are wrong is listed as one that runs nowhere."""
        found = []
        for name in self.all_names():
            try:
                found.append(await self.get(name))
            except NotFoundError:  # its module was switched off meanwhile
                continue
            except ParachuteError as error:
                grant = Grant(agent=name, reads=NOWHERE, writes=NOWHERE, tainted_writes=NOWHERE)
                listed = _listed(name, "", name.partition("/")[0], [], grant)
                listed = replace(listed, runs_here=False, problem=error.message)
                found.append(AgentStatus(listed=listed, grant=grant))
        return found

    def seen(self, grant: Grant) -> ReachableFiles:
        """Blocks for a large vault."""
        paths = list(self._index.paths())
        reads = [path for path in paths if grant.may_read(path)]
        writes = [path for path in paths if grant.may_write(path)]
        return ReachableFiles(
            reads=len(reads),
            writes=len(writes),
            strangers=sum(map(self._strangers.is_place, reads)),
            left_out=len(paths) - len(reads),
            first=tuple(map(printable, reads[:_MOST_SHOWN])),
            first_writes=tuple(map(printable, writes[:_MOST_SHOWN])),
        )

    def _curator(self) -> AgentStatus:
        """All that curators reach together; each run reaches one note and what that watches."""
        watchers = [declaration.watcher for declaration in self._watches.all()]
        watched = {str(path) for watcher in watchers for path in self._watches.watched_by(watcher)}
        own, reads = exactly(watchers), exactly([*watchers, *sorted(watched - {*watchers})])
        grant = Grant(agent=CURATOR, reads=reads, writes=own, tainted_writes=own)
        listed = _listed(CURATOR, _CURATOR_IS, None, list(_OF_CURATOR), grant)
        return AgentStatus(listed=listed, grant=grant)


def _listed(
    name: str,
    description: str,
    module: str | None,
    tools: list[str],
    grant: Grant,
    request: RunRequest | None = None,
) -> ListedAgent:
    definition = request.definition if request is not None else None
    config = definition.config if definition is not None else None
    prompt = definition.system_prompt if definition is not None else None
    limits = request.limits if request is not None else None
    return ListedAgent(
        name=name,
        description=description,
        model=config.model if config is not None else None,
        path=f"Modules/{module}" if module else None,
        source=module or "builtin",
        tools=tools,
        system_prompt=prompt,
        system_prompt_preview=prompt[:_PREVIEW] if prompt else None,
        permissions=AgentPermissions(
            read=_patterns(grant.reads),
            write=_patterns(grant.writes),
            lane=_patterns(grant.tainted_writes),
            outside=tuple(grant.outside),
            bash=grant.bash,
            network=grant.network,
            interfaces=None if grant.interfaces is None else tuple(grant.interfaces),
        ),
        constraints=AgentConstraints(
            needs_container=grant.needs_container,
            memory=grant.sandbox.memory,
            cpus=grant.sandbox.cpus,
            pids_limit=grant.sandbox.pids_limit,
            timeout_s=limits.timeout_s if limits else None,
            max_turns=limits.max_turns if limits else None,
            max_cost_usd=limits.max_cost_usd if limits else None,
            only_by_a_person=config is not None and config.requires_explicit_invocation,
            asks_each_session=config is not None and config.requires_explicit_approval,
        ),
        runs_here=True,
        problem=None,
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


class AgentNotes:
    """The agents that are notes. Calls block on the disk."""

    def __init__(self, root: VaultRoot) -> None:
        self._root = root

    def all(self) -> list[ListedAgent]:
        """By name; the first folder wins."""
        found: dict[str, ListedAgent] = {}
        for folder in AGENT_FOLDERS:
            for path in self._notes_in(folder):
                name = path.name.removesuffix(".md")
                with suppress(ParachuteError):
                    found.setdefault(name, self._listed(name, path))
        return [found[name] for name in sorted(found)]

    def get(self, name: str) -> ListedAgent:
        """Raises NotFoundError."""
        for agent in self.all():
            if agent.name == name:
                return agent
        raise NotFoundError(f"there is no agent {printable(name[:80])}")

    def _listed(self, name: str, path: VaultPath) -> ListedAgent:
        data, _size = self._root.read_head(path, _LARGEST)
        note = parse_note(data)
        text = data[note.body.start : note.body.stop].decode("utf-8", "replace").strip()
        is_chosen = path.folder == AGENT_FOLDERS[0]
        return ListedAgent(
            name=name,
            description=text_of(note.values.get("description")),
            model=text_of(note.values.get("model")),
            path=path,
            source="vault",
            tools=words_of(note.values.get("tools")),
            system_prompt=text,
            system_prompt_preview=text[:_PREVIEW],
            runs_here=is_chosen,
            problem=None if is_chosen else _NOT_CHOSEN,
        )

    def _notes_in(self, folder: str) -> Iterator[VaultPath]:
        with (
            suppress(OSError),
            self._root.opened_folder(folder) as opened,
            os.scandir(opened) as entries,
        ):
            for entry, _number in zip(entries, range(_MOST), strict=False):
                is_note = entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)
                if is_note and re.fullmatch(INSTRUCTION_NAME, entry.name.removesuffix(".md")):
                    yield VaultPath(f"{folder}/{entry.name}")


def words_of(value: object) -> list[str]:
    """A list of texts, or a text with commas, as Claude Code has it."""
    if isinstance(value, str):
        value = [*value.split(",")]
    words = [str(word).strip() for word in value] if isinstance(value, list) else []
    return [word for word in words if word]


def text_of(value: object) -> str | None:
    """A value of a frontmatter as one line; None where it says nothing."""
    return " ".join(str(value).split()) if value not in (None, "") else None


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, and its bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSkill:
    """A skill; `content` is shown of one alone."""

    name: str
    description: str
    content: str | None
    size: int
    modified: datetime | None
    version: str | None
    allowed_tools: list[str]
    is_directory: bool
    files: list[SkillFile]
    source: str
    path: str
    strangers: bool


class SkillNotes:
    """The skills of the vault. Calls block on the disk."""

    def __init__(self, root: VaultRoot, strangers: Strangers) -> None:
        self._root, self._strangers = root, strangers

    def all(self) -> list[ListedSkill]:
        return list(map(self._listed, self._found()))

    def get(self, name: str) -> ListedSkill:
        """Raises NotFoundError."""
        for skill in self._found():
            if skill.name == name:
                return replace(self._listed(skill), content=skill.text)
        raise NotFoundError(f"there is no skill {printable(name[:80])}")

    def _found(self) -> tuple[Skill, ...]:
        return find_skills([(self._root, "")])

    def _listed(self, skill: Skill) -> ListedSkill:
        path = VaultPath(skill.path)
        is_directory = path.name == "SKILL.md"
        values: Mapping[str, object] = {}
        size, modified, is_strangers = 0, None, True
        with suppress(ParachuteError):
            content = self._root.read(path)
            values, size = parse_note(content.data).values, len(content.data)
            is_strangers = self._strangers.is_text(path, content.data)
            with self._root.opened_file(path) as opened:
                modified = datetime.fromtimestamp(os.fstat(opened).st_mtime, UTC)
        return ListedSkill(
            name=skill.name,
            description=skill.description,
            content=None,
            size=size,
            modified=modified,
            version=text_of(values.get("version")),
            allowed_tools=words_of(values.get("allowed-tools") or values.get("allowed_tools")),
            is_directory=is_directory,
            files=list(_files_below(self._root, path.folder)) if is_directory else [],
            source="vault",
            path=skill.path,
            strangers=is_strangers,
        )


def _files_below(root: VaultRoot, folder: str) -> Iterator[SkillFile]:
    with suppress(OSError), root.opened_folder(folder) as opened:
        count = 0
        for at, _folders, names, inner in os.fwalk(".", dir_fd=opened, follow_symlinks=False):
            below = at.removeprefix(".").removeprefix("/")
            for name in sorted(names):
                count += 1
                if count > _MOST_FILES:
                    return
                size = os.stat(name, dir_fd=inner, follow_symlinks=False).st_size
                yield SkillFile(f"{below}/{name}" if below else name, size)
