"""Agents and skills as a person is shown them: the daemon's agents, those of modules, and notes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from parachuted.access.agent_config import AgentConfig
from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.grant import CURATOR, Grant, exactly, may_begin
from parachuted.access.strangers import Strangers, Taint
from parachuted.agents.job import RunLimits
from parachuted.bubbling import WatchRegistry
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.keys import AccessGrant
from parachuted.modules.hosting.module_agents import AgentService
from parachuted.runs.skills import Skill, find_skills
from parachuted.vault import PathText, VaultIndex, VaultPath, VaultRoot, parse_note, printable

AGENT_FOLDERS: Final = (".agents", ".claude/agents")
INSTRUCTION_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
_NOT_CHOSEN = "conversations choose agents of .agents/ alone; copy it there to use it"
_PREVIEW, _MOST_SHOWN = 200, 20
_MOST, _LARGEST, _MOST_PATTERNS, _MOST_FILES = 500, 64 << 10, 100, 200
_READING = ("read_note", "list_notes", "search_notes")
_WRITING = ("write_note", "edit_section", "set_key", "move_note")
_OF_CURATOR = ("list_context_files", "read_context", "update_context", "no_change")
_CURATOR_IS = (
    "Keeps a note current with what it watches: it reads what changed, and writes that note alone."
)


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
class ListedAgent:
    """An agent.

    `problem` says why it would not run here, or what it does without; `begins`, when it does. What
    one that is a note may do is its conversation's to say.
    """

    name: str
    description: str | None = None
    type: str = "agent"
    model: str | None = None
    path: PathText | None = None
    source: str = "builtin"
    tools: list[str] = field(default_factory=list)
    system_prompt: str | None = None
    system_prompt_preview: str | None = None
    permissions: AgentPermissions | None = None
    constraints: RunLimits | None = None
    mcp_servers: tuple[str, ...] = ()
    spawns: tuple[str, ...] = ()
    begins: str | None = None
    runs_here: bool = True
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachableFiles:
    """`strangers` are left out of a container's copy, and mark a run that reads them."""

    reads: int
    writes: int
    strangers: int
    first: tuple[str, ...]
    first_writes: tuple[str, ...]


class AgentListing:
    """All agents."""

    def __init__(
        self,
        agents: AgentService,
        watches: WatchRegistry,
        index: VaultIndex,
        strangers: Strangers,
    ) -> None:
        self._agents = agents
        self._watches, self._index, self._strangers = watches, index, strangers

    def all_names(self) -> list[str]:
        return [CURATOR, *self._agents.names()]

    async def get(self, name: str, *, folder: str | None = None) -> tuple[ListedAgent, Grant]:
        """The agent of that name, working in that folder. Raises NotFoundError."""
        if name == CURATOR:
            return self._curator()
        caller = Caller(request=WorkRequest(by="person", entry="cli"))
        options = {} if folder is None else {"working_directory": folder}
        request = await self._agents.request(name, "", options, caller)
        definition, runs = request.definition, self._agents.runs
        grant, here = runs.grant(request), await runs.here(request)
        own = definition.tools(Taint()) if definition.tools else ()
        tools = [
            *(_READING if request.may_read else ()),
            *(_WRITING if grant.writes.alternatives != () else ()),
            *(("suggest_change",) if request.may_read else ()),
            *(tool.name for tool in own),
            *grant.native,
            *grant.tools,
        ]
        listed = ListedAgent(
            name=definition.name,
            description=definition.config.description or definition.who,
            model=definition.config.model,
            path=f"Modules/{definition.module}" if definition.module else None,
            source=definition.module or "builtin",
            tools=tools,
            system_prompt=definition.system_prompt,
            system_prompt_preview=definition.system_prompt[:_PREVIEW],
            permissions=_permissions(grant),
            constraints=request.limits,
            begins=_begins(definition.config),
            runs_here=here.obstacle is None,
            problem=here.obstacle or here.missing,
        )
        return listed, grant

    async def all(self) -> list[ListedAgent]:
        """One whose settings are wrong is listed as one that runs nowhere."""
        agents = []
        for name in self.all_names():
            try:
                agents.append((await self.get(name))[0])
            except NotFoundError:  # its module was switched off meanwhile
                continue
            except ParachuteError as error:
                source = name.partition("/")[0]
                agents.append(
                    ListedAgent(name=name, source=source, runs_here=False, problem=error.message)
                )
        return agents

    def reachable(self, grant: Grant) -> ReachableFiles:
        """Blocks for a large vault."""
        reads = [path for path in self._index.paths() if grant.may_read(path)]
        writes = [path for path in self._index.paths() if grant.may_write(path)]
        return ReachableFiles(
            reads=len(reads),
            writes=len(writes),
            strangers=sum(map(self._strangers.is_place, reads)),
            first=tuple(map(printable, reads[:_MOST_SHOWN])),
            first_writes=tuple(map(printable, writes[:_MOST_SHOWN])),
        )

    def _curator(self) -> tuple[ListedAgent, Grant]:
        """All that curators reach together; each run reaches one note and what that watches."""
        watchers = [declaration.watcher for declaration in self._watches.all()]
        watched = {str(path) for watcher in watchers for path in self._watches.watched_by(watcher)}
        own, reads = exactly(watchers), exactly([*watchers, *sorted(watched - {*watchers})])
        grant = Grant(agent=CURATOR, reads=reads, writes=own, tainted_writes=own)
        listed = ListedAgent(
            name=CURATOR,
            description=_CURATOR_IS,
            tools=list(_OF_CURATOR),
            permissions=_permissions(grant),
            begins="when a note that it watches changes",
        )
        return listed, grant


def _begins(config: AgentConfig) -> str:
    if may_begin(config, "module") is not None:
        return "only when a person asks for it by name"
    return (
        "when a person, its module, a schedule or a bot asks for it; it may do the same "
        "whichever it is"
    )


def _permissions(grant: Grant) -> AgentPermissions:
    return AgentPermissions(
        read=_patterns(grant.reads),
        write=_patterns(grant.writes),
        lane=_patterns(grant.tainted_writes),
        outside=tuple(grant.outside),
        bash=grant.bash,
        network=grant.network,
        interfaces=grant.interfaces,
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


def agent_notes(root: VaultRoot) -> dict[str, ListedAgent]:
    """The agents that are notes, by name; the first folder wins. Blocks on the disk."""
    found: dict[str, ListedAgent] = {}
    for folder in AGENT_FOLDERS:
        for path in _notes_in(root, folder):
            with suppress(ParachuteError):
                found.setdefault(path.name.removesuffix(".md"), _agent_of(root, path))
    return dict(sorted(found.items()))


def _agent_of(root: VaultRoot, path: VaultPath) -> ListedAgent:
    data, _size = root.read_head(path, _LARGEST)
    note = parse_note(data)
    text = data[note.body.start : note.body.stop].decode("utf-8", "replace").strip()
    is_chosen = path.folder == AGENT_FOLDERS[0]
    return ListedAgent(
        name=path.name.removesuffix(".md"),
        description=_text_of(note.values.get("description")),
        model=_text_of(note.values.get("model")),
        path=path,
        source="vault",
        tools=_words_of(note.values.get("tools")),
        system_prompt=text,
        system_prompt_preview=text[:_PREVIEW],
        runs_here=is_chosen,
        problem=None if is_chosen else _NOT_CHOSEN,
    )


def _notes_in(root: VaultRoot, folder: str) -> Iterator[VaultPath]:
    with suppress(OSError), root.opened_folder(folder) as opened, os.scandir(opened) as entries:
        for entry, _number in zip(entries, range(_MOST), strict=False):
            is_note = entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)
            if is_note and re.fullmatch(INSTRUCTION_NAME, entry.name.removesuffix(".md")):
                yield VaultPath(f"{folder}/{entry.name}")


def _words_of(value: object) -> list[str]:
    """A list of texts, or a text with commas, as Claude Code has it."""
    words = value.split(",") if isinstance(value, str) else value
    found = (str(word).strip() for word in words) if isinstance(words, list) else ()
    return [word for word in found if word]


def _text_of(value: object) -> str | None:
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
    modified: datetime
    version: str | None
    allowed_tools: list[str]
    is_directory: bool
    files: list[SkillFile]
    source: str = "vault"
    path: str
    strangers: bool


def skill_notes(root: VaultRoot, strangers: Strangers) -> dict[str, ListedSkill]:
    """The skills of the vault, by name. Blocks on the disk."""
    found: dict[str, ListedSkill] = {}
    for skill in find_skills([(root, "")]):
        with suppress(ParachuteError):  # one that is gone meanwhile
            found[skill.name] = _skill_of(root, skill, strangers)
    return found


def _skill_of(root: VaultRoot, skill: Skill, strangers: Strangers) -> ListedSkill:
    path = VaultPath(skill.path)
    data, size = root.read_head(path, _LARGEST)
    values, is_directory = parse_note(data).values, path.name == "SKILL.md"
    with root.opened_file(path) as opened:
        modified = datetime.fromtimestamp(os.fstat(opened).st_mtime, UTC)
    return ListedSkill(
        name=skill.name,
        description=skill.description,
        content=skill.text,
        size=size,
        modified=modified,
        version=_text_of(values.get("version")),
        allowed_tools=_words_of(values.get("allowed-tools") or values.get("allowed_tools")),
        is_directory=is_directory,
        files=_files_below(root, path.folder) if is_directory else [],
        path=skill.path,
        strangers=strangers.is_text(path, data),
    )


def _files_below(root: VaultRoot, folder: str) -> list[SkillFile]:
    files: list[SkillFile] = []
    with suppress(OSError), root.opened_folder(folder) as opened:
        for at, _folders, names, inner in os.fwalk(".", dir_fd=opened, follow_symlinks=False):
            for name in sorted(names):
                if len(files) == _MOST_FILES:
                    return files
                size = os.stat(name, dir_fd=inner, follow_symlinks=False).st_size
                files.append(SkillFile(os.path.normpath(f"{at}/{name}"), size))
    return files
