"""Instructions: the agents and skills that are notes of the vault, as a person lists, adds and
removes them.

They lie in folders whose names begin with a dot, which no agent and no module writes.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import ApiCall, RequestModel
from parachuted.api.routes.note_writer import NoteWriter
from parachuted.errors import ConflictError, NotFoundError, ParachuteError
from parachuted.runs.skills import Skill, SkillFolder, find_skills
from parachuted.vault import Store, VaultPath, VaultRoot, parse_note, printable
from parachuted.vault.compose import compose_note

AGENT_FOLDERS: Final = (".agents", ".claude/agents")
_SKILLS: Final = ".skills"
_NOT_CHOSEN: Final = "conversations choose agents of .agents/ alone; copy it there to use it"
_MODULE: Final = "curator"
_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
_NAMES: Final = {"name": "its name"}
_MOST, _MOST_FILES, _LARGEST = 500, 200, 64 << 10
_WHOLE_NAME: Final = re.compile(_NAME)

Name = Annotated[str, Field(pattern=_NAME)]
Text = Annotated[str, Field(min_length=1, max_length=100_000)]
Line = Annotated[str, Field(max_length=1_000)]


class AddAgentRequest(RequestModel):
    """An agent, as a note: `prompt` is its instructions."""

    name: Name
    prompt: Text
    description: Line | None = None
    tools: Annotated[list[Line], Field(max_length=100)] | None = None
    model: Line | None = None


class AddSkillRequest(RequestModel):
    """A skill: `content` is Markdown, with or without frontmatter."""

    name: Name
    content: Text
    description: Line | None = None


class AgentNoteRow(TypedDict):
    """An agent that is a note. What it may do is its conversation's to say."""

    name: str
    description: str | None
    type: str
    model: str | None
    path: str
    source: str
    tools: list[str]
    system_prompt: str | None
    system_prompt_preview: str | None
    permissions: dict[str, object] | None
    constraints: dict[str, object] | None
    mcp_servers: list[str]
    spawns: list[str]
    runs_here: bool
    problem: str | None


class SkillFileRow(TypedDict):
    """A file of a skill, and its bytes."""

    name: str
    size: int


class SkillRow(TypedDict):
    """A skill; `content` and `files` are shown of one alone."""

    name: str
    description: str
    content: str | None
    size: int
    modified: str | None
    version: str | None
    allowed_tools: list[str]
    is_directory: bool
    files: list[SkillFileRow]
    source: str
    path: str
    strangers: bool


class SkillsResponse(TypedDict):
    """All skills of the vault, by name."""

    skills: list[SkillRow]


class RemovedInstructionsResponse(TypedDict):
    """What is gone; its text is kept in the history."""

    name: str
    path: str


class AgentNotes:
    """The agents that are notes. Calls block on the disk."""

    def __init__(self, root: VaultRoot) -> None:
        self._root = root

    def all(self) -> list[AgentNoteRow]:
        """All of them, by name; the first folder wins."""
        found: dict[str, AgentNoteRow] = {}
        for folder in AGENT_FOLDERS:
            for path in _notes_in(self._root, folder):
                name = path.rpartition("/")[2].removesuffix(".md")
                with suppress(ParachuteError):
                    found.setdefault(name, self._row(name, path))
        return [found[name] for name in sorted(found)]

    def get(self, name: str) -> AgentNoteRow:
        """The agent of that name. NotFoundError."""
        for one in self.all():
            if one["name"] == name:
                return one
        raise NotFoundError(f"there is no agent {printable(name[:80])}")

    def _row(self, name: str, path: VaultPath) -> AgentNoteRow:
        data, _size = self._root.read_head(path, _LARGEST)
        note = parse_note(data)
        text = data[note.body.start : note.body.stop].decode("utf-8", "replace").strip()
        is_chosen = path.folder == AGENT_FOLDERS[0]
        return AgentNoteRow(
            name=name,
            description=_text(note.values.get("description")),
            type="agent",
            model=_text(note.values.get("model")),
            path=printable(path),
            source="vault",
            tools=_words(note.values.get("tools")),
            system_prompt=text,
            system_prompt_preview=text[:200],
            permissions=None,
            constraints=None,
            mcp_servers=[],
            spawns=[],
            runs_here=is_chosen,
            problem=None if is_chosen else _NOT_CHOSEN,
        )


class InstructionRoutes:
    """Telling agents what to do is for those who may administer."""

    def __init__(
        self,
        store: Store,
        origins: Origins,
        writer: NoteWriter,
        others: Callable[[], Sequence[str]],
    ) -> None:
        """`origins` say whose texts are a stranger's, `others` are the names of the agents that are
        no notes.
        """
        self._store, self._origins, self._writer, self._others = store, origins, writer, others
        self._root, self._agents = store.root, AgentNotes(store.root)

    @post("/api/agents", _MODULE, "admin", reach="beyond")
    async def add_agent(self, call: ApiCall, body: AddAgentRequest) -> AgentNoteRow:
        """Make an agent that is a note in `.agents/`, which conversations name."""
        known = await asyncio.to_thread(self._agents.all)
        if body.name in {*self._others(), *(one["name"] for one in known)}:
            raise _taken(f"an agent {body.name}")
        values = {
            "name": body.name,
            "description": body.description,
            "tools": body.tools,
            "model": body.model,
        }
        given = {name: value for name, value in values.items() if value}
        text = compose_note(given, body.prompt)  # a prompt may begin as frontmatter does
        await self._create(call, f"{AGENT_FOLDERS[0]}/{body.name}.md", text)
        return await asyncio.to_thread(self._agents.get, body.name)

    @delete("/api/agents/{name:.+}", _MODULE, "admin", reach="beyond", names=_NAMES)
    async def remove_agent(self, call: ApiCall, name: str) -> RemovedInstructionsResponse:
        """Remove an agent that is a note; its text stays in the history."""
        if name in self._others():
            raise web.HTTPForbidden(text=f"{printable(name)} is not a note of the vault; it stays")
        path = (await asyncio.to_thread(self._agents.get, name))["path"]
        await self._delete(call, path)
        return {"name": name, "path": path}

    @get("/api/skills", _MODULE, "read", reach="beyond")
    async def skills(self) -> SkillsResponse:
        """List the vault's skills."""
        return {"skills": await asyncio.to_thread(self._skills)}

    @get("/api/skills/{name}", _MODULE, "read", reach="beyond", names=_NAMES)
    async def skill(self, name: str) -> SkillRow:
        """A skill with its text and files."""
        return await asyncio.to_thread(self._skill, name)

    @post("/api/skills", _MODULE, "admin", reach="beyond")
    async def add_skill(self, call: ApiCall, body: AddSkillRequest) -> SkillRow:
        """Make a skill in `.skills/`."""
        known = await asyncio.to_thread(self._skills)
        if any(one["name"] == body.name for one in known):
            raise _taken(f"a skill {body.name}")
        values = {"name": body.name} | (
            {"description": body.description} if body.description else {}
        )
        has_own = body.content.startswith("---\n")
        text = body.content if has_own else compose_note(values, body.content)
        await self._create(call, f"{_SKILLS}/{body.name}/SKILL.md", text)
        return await asyncio.to_thread(self._skill, body.name)

    @delete("/api/skills/{name}", _MODULE, "admin", reach="beyond", names=_NAMES)
    async def remove_skill(self, call: ApiCall, name: str) -> RemovedInstructionsResponse:
        """Remove a skill with its files; their texts stay in the history."""
        found = await asyncio.to_thread(self._skill, name)
        folder = found["path"].rpartition("/")[0]
        paths = [f"{folder}/{one['name']}" for one in found["files"]] or [found["path"]]
        for path in paths:
            await self._delete(call, path)
        return {"name": name, "path": found["path"]}

    def _skills(self) -> list[SkillRow]:
        return [self._skill_row(one) for one in self._found()]

    def _found(self) -> tuple[Skill, ...]:
        return find_skills([SkillFolder(root=self._root, origin=self._origins.of_text)])

    def _skill(self, name: str) -> SkillRow:
        for one in self._found():
            if one.name == name:
                return self._skill_row(one) | {"content": one.text}
        raise NotFoundError(f"there is no skill {printable(name[:80])}")

    def _skill_row(self, skill: Skill) -> SkillRow:
        path = VaultPath(skill.path)
        is_directory = path.name == "SKILL.md"
        values: Mapping[str, object] = {}
        size, modified = 0, None
        with suppress(ParachuteError):
            content = self._root.read(path)
            values, size = parse_note(content.data).values, len(content.data)
            with self._root.opened_file(path) as opened:
                modified = datetime.fromtimestamp(os.fstat(opened).st_mtime, UTC).isoformat()
        files = list(_files_below(self._root, path.folder)) if is_directory else []
        return SkillRow(
            name=skill.name,
            description=skill.description,
            content=None,
            size=size,
            modified=modified,
            version=_text(values.get("version")),
            allowed_tools=_words(values.get("allowed-tools") or values.get("allowed_tools")),
            is_directory=is_directory,
            files=files,
            source="vault",
            path=skill.path,
            strangers=skill.origin in UNTRUSTED,
        )

    async def _create(self, call: ApiCall, path: str, text: str) -> None:
        author = self._writer.author(call.caller)
        await asyncio.to_thread(self._store.create, VaultPath.parse(path), text.encode(), author)

    async def _delete(self, call: ApiCall, path: str) -> None:
        author = self._writer.author(call.caller)
        await asyncio.to_thread(self._store.delete, VaultPath.parse(path), author)


def _notes_in(root: VaultRoot, folder: str) -> Iterator[VaultPath]:
    """The notes of a folder, links left out."""
    with (
        suppress(OSError),
        root.opened_folder(folder) as opened,
        os.scandir(opened) as entries,
    ):
        for entry, _number in zip(entries, range(_MOST), strict=False):
            stem = entry.name.removesuffix(".md")
            is_note = entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)
            if is_note and _WHOLE_NAME.fullmatch(stem):
                yield VaultPath(f"{folder}/{entry.name}")


def _files_below(root: VaultRoot, folder: str) -> Iterator[SkillFileRow]:
    with suppress(OSError), root.opened_folder(folder) as opened:
        count = 0
        for at, _folders, names, inner in os.fwalk(".", dir_fd=opened, follow_symlinks=False):
            below = at.removeprefix(".").removeprefix("/")
            for name in sorted(names):
                count += 1
                if count > _MOST_FILES:
                    return
                size = os.stat(name, dir_fd=inner, follow_symlinks=False).st_size
                yield SkillFileRow(name=f"{below}/{name}" if below else name, size=size)


def _words(value: object) -> list[str]:
    """A list of texts, or a text with commas, as Claude Code has it."""
    if isinstance(value, str):
        value = [*value.split(",")]
    return (
        [str(one).strip() for one in value if str(one).strip()] if isinstance(value, list) else []
    )


def _text(value: object) -> str | None:
    return " ".join(str(value).split()) if value not in (None, "") else None


def _taken(what: str) -> ConflictError:
    return ConflictError(f"there is {what} already", base=b"", ours=b"", theirs=b"", is_known=False)
