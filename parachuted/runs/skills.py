"""Skills: markdown instructions for agents, of a vault, of a folder in it, or of a person.

A skill grants no tool and no path. Links are not followed. One in an untrusted place is untrusted
text: it is not listed to agents, and reading it taints the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.access.strangers import Strangers, Taint
from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import ParachuteError
from parachuted.runs.bounds import ModuleBounds
from parachuted.tools.definitions import an_object
from parachuted.vault import ParsedNote, VaultPath, VaultRoot, parse_note, printable, refusal

FOLDERS = (".claude/skills", ".skills")
TOOL = "use_skill"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
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
_DESCRIPTION = (
    "Get the instructions of one of your skills, by its name as it stands in the list. "
    "Do so before you begin on what it is about."
)
_NAMED = an_object("name", name={"type": "string", "description": "The skill's name."})


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    text: str
    path: str = ""
    is_strangers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    root: VaultRoot
    folder: str = ""
    is_strangers: Callable[[str, bytes], bool] = lambda _path, _data: False


def find_skills(places: Iterable[SkillFolder]) -> tuple[Skill, ...]:
    """By name; the first place wins, but an untrusted skill never replaces another. Blocks."""
    own: dict[str, Skill] = {}
    strangers: dict[str, Skill] = {}
    for place in places:
        for name, file in _files(place):
            if name in own or (skill := _load(place, name, file)) is None:
                continue
            kind = strangers if skill.is_strangers else own
            if len(kind) < _MOST:
                kind.setdefault(name, skill)
    found = strangers | own
    return tuple(found[name] for name in sorted(found))


def listed(skills: Sequence[Skill], taint: Taint) -> str:
    """For an agent, or ""; untrusted ones only for a tainted run."""
    if not skills:
        return ""
    shown = _shown(skills, taint)
    lines = [f"- {skill.name}: {skill.description}" for skill in shown]
    lines += [f"({len(skills) - len(shown)} {_LEFT_OUT})"] if len(shown) < len(skills) else []
    return "\n".join(
        [f"Skills that you may use; call {TOOL} with a name to get its instructions:", *lines]
    )


def skill_tool(skills: Sequence[Skill], taint: Taint) -> Tool:
    by_name = {skill.name: skill for skill in skills}

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        name = arguments.get("name")
        if not isinstance(name, str) or name not in by_name:
            names = ", ".join(skill.name for skill in _shown(skills, taint)) or "none"
            return ToolResult(text=f"unknown skill; the skills are {names}", is_error=True)
        skill = by_name[name]
        if skill.is_strangers:
            taint.read(f"the skill {skill.path}")
        return ToolResult(text=skill.text)

    return Tool(
        name=TOOL,
        description=_DESCRIPTION,
        schema={**_NAMED, "additionalProperties": False},
        call=call,
    )


def _shown(skills: Sequence[Skill], taint: Taint) -> list[Skill]:
    return [skill for skill in skills if taint or not skill.is_strangers]


class AgentSkills:
    def __init__(self, root: VaultRoot, user_home: Path, strangers: Strangers) -> None:
        self._vault = SkillFolder(root=root, is_strangers=strangers.is_text)
        self._user_home = SkillFolder(root=VaultRoot(user_home))

    async def find(
        self, config: AgentConfig, folder: str | None, bounds: ModuleBounds
    ) -> tuple[Skill, ...]:
        places = []
        if config.allow_workspace_skills:
            if folder and bounds.may_enter(folder):
                places.append(replace(self._vault, folder=folder))
            places.append(self._vault)
        if config.allow_user_skills:
            places.append(self._user_home)
        return await asyncio.to_thread(find_skills, places)

    async def of_vault(self) -> tuple[Skill, ...]:
        return await asyncio.to_thread(find_skills, [self._vault])


def _files(place: SkillFolder) -> list[tuple[str, VaultPath]]:
    """By name: `name/SKILL.md`, or else `name.md`."""
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
            name = entry.name if is_folder else entry.name.removesuffix(".md")
            if not _NAME.fullmatch(name) or not (is_folder or entry.name.endswith(".md")):
                continue
            if is_folder:
                found[name] = VaultPath(f"{start}/{name}/SKILL.md")
            else:
                found.setdefault(name, VaultPath(f"{start}/{entry.name}"))
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
        is_strangers=place.is_strangers(file, data),
    )


def _description(note: ParsedNote, text: str) -> str:
    """Its frontmatter's description or its first words, on one line for the system prompt."""
    said = note.values.get("description")
    found = said if isinstance(said, str) and said.strip() else text.splitlines()[0].lstrip("# ")
    return " ".join(_UNPRINTABLE.sub(" ", found).split())[:_LONGEST_DESCRIPTION]
