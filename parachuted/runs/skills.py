"""Markdown instructions for agents, from the `.claude/skills` and `.skills` of a vault, of a folder
in it, or of a person.

A skill is only text: it grants no tool and no path. Links are not followed, so no other file can
pose as a skill. A skill in an untrusted place counts as untrusted text: it is not listed to agents,
and reading it taints the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.access.origin import UNTRUSTED, Origin, Taint
from parachuted.access.origins import Origins
from parachuted.agents import Tool, ToolResult
from parachuted.errors import ParachuteError
from parachuted.runs.bounds import ModuleBounds
from parachuted.vault import (
    ParsedNote,
    VaultPath,
    VaultRoot,
    digest_of,
    parse_note,
    printable,
    refusal,
)

FOLDER = ".claude/skills"
FOLDERS = (FOLDER, ".skills")
TOOL = "use_skill"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SKILL = "SKILL.md"
_SUFFIX = ".md"
_MOST = 100
_LOOKED_AT = 1_000
_LARGEST = 64 << 10
_LONGEST_DESCRIPTION = 400
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+"
)
_LEFT_OUT = (
    "more lie among files of strangers and are left out: the person who asks you can name one; "
    "after reading it you may write no more than your own lane, and suggest the rest"
)
DESCRIPTION = (
    "Get the instructions of one of your skills, by its name as it stands in the list. "
    "Do so before you begin on what it is about."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill: its name, when to use it, and its text without the frontmatter; where it is, and
    where its text came from.
    """

    name: str
    description: str
    text: str
    path: str = ""
    origin: Origin = "you"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    """A folder that may hold `.claude/skills`: of a root, the vault or a person's home, the path
    there.

    `origin` says where the text of a skill at a path came from.
    """

    root: VaultRoot
    folder: str = ""
    origin: Callable[[str, bytes], Origin] = lambda _path, _data: "you"


def find_skills(places: Iterable[SkillFolder]) -> tuple[Skill, ...]:
    """The skills of these places, by name; the first place wins, but an untrusted skill never
    replaces another.

    Blocks on the disk.
    """
    own: dict[str, Skill] = {}
    strangers: dict[str, Skill] = {}
    for place in places:
        for name, file in _files(place):
            if name in own or (skill := _load(place, name, file)) is None:
                continue
            kind = strangers if skill.origin in UNTRUSTED else own
            if len(kind) < _MOST:
                kind.setdefault(name, skill)
    found = strangers | own
    return tuple(found[name] for name in sorted(found))


def listed(skills: Sequence[Skill], taint: Taint) -> str:
    """The list of its skills for an agent; empty if it has none.

    Untrusted skills are left out for an untainted run.
    """
    if not skills:
        return ""
    shown = _shown(skills, taint)
    lines = [f"- {skill.name}: {skill.description}" for skill in shown]
    lines += [f"({len(skills) - len(shown)} {_LEFT_OUT})"] if len(shown) < len(skills) else []
    return "\n".join(
        [f"Skills that you may use; call {TOOL} with a name to get its instructions:", *lines]
    )


def skill_tool(skills: Sequence[Skill], taint: Taint) -> Tool:
    """The tool that returns a skill's text. An untrusted one taints the run."""
    by_name = {skill.name: skill for skill in skills}

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        name = arguments.get("name")
        if not isinstance(name, str) or name not in by_name:
            names = ", ".join(skill.name for skill in _shown(skills, taint)) or "none"
            return ToolResult(text=f"unknown skill; the skills are {names}", is_error=True)
        skill = by_name[name]
        taint.read(f"the skill {skill.path}", skill.origin)
        return ToolResult(text=skill.text)

    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "The skill's name."}},
        "required": ["name"],
        "additionalProperties": False,
    }
    return Tool(name=TOOL, description=DESCRIPTION, schema=schema, call=call)


def _shown(skills: Sequence[Skill], taint: Taint) -> list[Skill]:
    return [skill for skill in skills if taint or skill.origin not in UNTRUSTED]


class AgentSkills:
    """Finds the skills of each agent. `origins` says whose texts are a stranger's; `user_home` is
    the person's.
    """

    def __init__(self, root: VaultRoot, user_home: Path, origins: Origins | None = None) -> None:
        self._root, self._user_home, self._origins = root, user_home, origins

    async def find(
        self, config: AgentConfig, folder: str | None, bounds: ModuleBounds
    ) -> tuple[Skill, ...]:
        places = self._places(config, folder, bounds)
        return await asyncio.to_thread(find_skills, places) if places else ()

    async def of_vault(self) -> tuple[Skill, ...]:
        """Those of the vault itself."""
        place = SkillFolder(root=self._root, origin=partial(self._origin, ""))
        return await asyncio.to_thread(find_skills, [place])

    def _places(
        self, config: AgentConfig, folder: str | None, bounds: ModuleBounds
    ) -> list[SkillFolder]:
        places = []
        if config.allow_workspace_skills:
            if folder and bounds.may_enter(folder):
                places.append(
                    SkillFolder(
                        root=self._root, folder=folder, origin=partial(self._origin, folder)
                    )
                )
            places.append(SkillFolder(root=self._root, origin=partial(self._origin, "")))
        if config.allow_user_skills:
            places.append(SkillFolder(root=VaultRoot(self._user_home)))
        return places

    def _origin(self, folder: str, path: str, data: bytes) -> Origin:
        """Where that skill's text came from.

        What lies hidden in a folder came with its files, and no scan sees it.
        """
        origins = self._origins
        if origins is None:
            return "you"
        found = origins.of_text(path, data)
        if found in UNTRUSTED or not folder or origins.is_trusted(path, digest_of(data)):
            return found
        return origins.of_folder(folder)


def _files(place: SkillFolder) -> list[tuple[str, VaultPath]]:
    """Names of skills, each with its file: `name/SKILL.md`, or else `name.md`."""
    found: dict[str, VaultPath] = {}
    for folder in FOLDERS[::-1]:
        found |= _files_in(place, f"{place.folder}/{folder}" if place.folder else folder)
    return sorted(found.items())


def _files_in(place: SkillFolder, start: str) -> dict[str, VaultPath]:
    found: dict[str, VaultPath] = {}
    if refusal(start) is not None:
        return found
    with (
        contextlib.suppress(OSError),
        place.root.opened_folder(start) as folder,
        os.scandir(folder) as entries,
    ):
        for entry, _number in zip(entries, range(_LOOKED_AT), strict=False):
            is_folder = entry.is_dir(follow_symlinks=False)
            name = entry.name if is_folder else entry.name.removesuffix(_SUFFIX)
            if not _NAME.fullmatch(name) or not (is_folder or entry.name.endswith(_SUFFIX)):
                continue
            if is_folder or name not in found:
                found[name] = VaultPath(
                    f"{start}/{entry.name}/{_SKILL}" if is_folder else f"{start}/{entry.name}"
                )
    return found


def _load(place: SkillFolder, name: str, file: VaultPath) -> Skill | None:
    try:
        data, size = place.root.read_head(file, _LARGEST)
    except ParachuteError:
        return None
    note = parse_note(data)
    text = data[note.body.start : note.body.stop].decode("utf-8", "replace").strip()
    if not text:
        return None
    cut = f"\n(cut: the skill has {size} bytes)" if size > len(data) else ""
    return Skill(
        name=name,
        description=_description(note, text),
        text=text + cut,
        path=printable(file),
        origin=place.origin(file, data),
    )


def _description(note: ParsedNote, text: str) -> str:
    """Its frontmatter's description or its first words, on one line for the system prompt."""
    said = note.values.get("description")
    found = said if isinstance(said, str) and said.strip() else text.splitlines()[0].lstrip("# ")
    return " ".join(_UNPRINTABLE.sub(" ", found).split())[:_LONGEST_DESCRIPTION]
