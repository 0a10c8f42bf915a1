"""Skills: instructions in markdown that agents may be given, from the `.claude/skills` of a vault, of a folder in it, or of a person.

A skill is text and nothing more: it grants no tool and no path. Links are not followed, so that none can pass off another file as a skill.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from parachuted.agents import Tool, ToolResult
from parachuted.errors import ParachuteError
from parachuted.vault import Note, VaultPath, VaultRoot, parse_note, refusal

FOLDER = ".claude/skills"
TOOL = "use_skill"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SKILL = "SKILL.md"
_SUFFIX = ".md"
_MOST = 100
_LOOKED_AT = 1_000
_LARGEST = 64 << 10
_LONGEST_DESCRIPTION = 400
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
DESCRIPTION = (
    "Get the instructions of one of your skills, by its name as it stands in the list. Do so before you begin on what it is about."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill: its name, when to use it, and its text without the frontmatter."""

    name: str
    description: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that may hold `.claude/skills`: of a root, the vault or a person's home, the path there."""

    root: VaultRoot
    folder: str = ""


def find_skills(places: Iterable[Place]) -> tuple[Skill, ...]:
    """The skills of these places, by name; of several with the same name the first place's. Blocks on the disk."""
    found: dict[str, Skill] = {}
    for place in places:
        for name, file in _files(place):
            if name not in found and len(found) < _MOST and (skill := _load(place, name, file)) is not None:
                found[name] = skill
    return tuple(found[name] for name in sorted(found))


def listed(skills: Sequence[Skill]) -> str:
    """What an agent is told of its skills; empty where it has none."""
    if not skills:
        return ""
    lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
    return f"Skills that you may use; call {TOOL} with a name to get its instructions:\n{lines}"


def skill_tool(skills: Sequence[Skill]) -> Tool:
    """The tool that gives an agent the text of a skill."""
    texts = {skill.name: skill.text for skill in skills}

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        name = arguments.get("name")
        if not isinstance(name, str) or name not in texts:
            return ToolResult(text=f"there is no such skill; there are {', '.join(texts)}", is_error=True)
        return ToolResult(text=texts[name])

    schema = {
        "type": "object", "properties": {"name": {"type": "string", "description": "The skill's name."}}, "required": ["name"],
        "additionalProperties": False,
    }  # fmt: skip
    return Tool(name=TOOL, description=DESCRIPTION, schema=schema, call=call)


async def find_skills_of(places: Sequence[Place]) -> tuple[Skill, ...]:
    """`find_skills`, away from the event loop."""
    return await asyncio.to_thread(find_skills, places) if places else ()


def _files(place: Place) -> list[tuple[str, VaultPath]]:
    """Names of skills, each with its file: `name/SKILL.md`, or else `name.md`."""
    start = f"{place.folder}/{FOLDER}" if place.folder else FOLDER
    if refusal(start) is not None:
        return []
    found: dict[str, VaultPath] = {}
    with contextlib.suppress(OSError), place.root.opened_folder(start) as folder, os.scandir(folder) as entries:
        for entry, _number in zip(entries, range(_LOOKED_AT), strict=False):
            is_folder = entry.is_dir(follow_symlinks=False)
            name = entry.name if is_folder else entry.name.removesuffix(_SUFFIX)
            if not _NAME.fullmatch(name) or not (is_folder or entry.name.endswith(_SUFFIX)):
                continue
            if is_folder or name not in found:
                found[name] = VaultPath(f"{start}/{entry.name}/{_SKILL}" if is_folder else f"{start}/{entry.name}")
    return sorted(found.items())


def _load(place: Place, name: str, file: VaultPath) -> Skill | None:
    try:
        data, size = place.root.read_head(file, _LARGEST)
    except ParachuteError:
        return None
    note = parse_note(data)
    text = data[note.body.start : note.body.stop].decode("utf-8", "replace").strip()
    if not text:
        return None
    cut = f"\n(cut: the skill has {size} bytes)" if size > len(data) else ""
    return Skill(name=name, description=_description(note, text), text=text + cut)


def _description(note: Note, text: str) -> str:
    """What its frontmatter says, or else its first words; on one line, for it stands in the system prompt."""
    said = note.values.get("description")
    found = said if isinstance(said, str) and said.strip() else text.splitlines()[0].lstrip("# ")
    return " ".join(_UNPRINTABLE.sub(" ", found).split())[:_LONGEST_DESCRIPTION]
