"""Skills: markdown instructions for agents, of a vault, of a folder in it, or of a person.

A skill grants no tool and no path. Links are not followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.access.strangers import Strangers
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    text: str
    path: str = ""


def find_skills(
    places: Iterable[tuple[VaultRoot, str]],
    leaves_out: Callable[[str, bytes], bool] = lambda _path, _data: False,
) -> tuple[Skill, ...]:
    """Those in the folders of these roots, by name; the first place wins. Blocks on the disk."""
    found: dict[str, Skill] = {}
    for root, folder in places:
        for name, file in _files(root, folder):
            if name in found or len(found) >= _MOST:
                continue
            with contextlib.suppress(ParachuteError):
                data, size = root.read_head(file, _LARGEST)
                skill = _skill(name, file, data, size)
                if skill.text and not leaves_out(file, data):
                    found[name] = skill
    return tuple(found[name] for name in sorted(found))


def skill_tool(skills: Sequence[Skill]) -> Tool:
    by_name = {skill.name: skill for skill in skills}

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        skill = by_name.get(str(arguments.get("name")))
        if skill is None:
            return ToolResult.refusal(f"unknown skill; the skills are {', '.join(by_name)}")
        return ToolResult(text=skill.text)

    return Tool(
        name=TOOL,
        description="Get the instructions of one of your skills, by its name as it stands in the "
        "list. Do so before you begin on what it is about.",
        schema={
            **an_object("name", name={"type": "string", "description": "The skill's name."}),
            "additionalProperties": False,
        },
        call=call,
    )


@dataclass(frozen=True, slots=True)
class AgentSkills:
    """Those that strangers wrote are none, until a person trusts them."""

    root: VaultRoot
    user_home: Path
    strangers: Strangers

    async def find(
        self, config: AgentConfig, folder: str | None, bounds: ModuleBounds
    ) -> tuple[Skill, ...]:
        places = []
        if config.allow_workspace_skills:
            if folder and bounds.may_enter(folder):
                places.append((self.root, folder))
            places.append((self.root, ""))
        if config.allow_user_skills:
            places.append((VaultRoot(self.user_home), ""))
        return await asyncio.to_thread(find_skills, places, self.strangers.is_text)

    async def of_vault(self) -> tuple[Skill, ...]:
        return await asyncio.to_thread(find_skills, [(self.root, "")], self.strangers.is_text)


def _files(root: VaultRoot, folder: str) -> list[tuple[str, VaultPath]]:
    """By name: `name/SKILL.md`, or else `name.md`."""
    found: dict[str, VaultPath] = {}
    for skills in FOLDERS[::-1]:
        start = f"{folder}/{skills}" if folder else skills
        if refusal(start) is not None:
            continue
        files, folders = dict[str, VaultPath](), dict[str, VaultPath]()
        with (
            contextlib.suppress(OSError),
            root.opened_folder(start) as opened,
            os.scandir(opened) as entries,
        ):
            for entry, _number in zip(entries, range(_LOOKED_AT), strict=False):
                if entry.is_dir(follow_symlinks=False):
                    folders[entry.name] = VaultPath(f"{start}/{entry.name}/SKILL.md")
                elif entry.name.endswith(".md"):
                    files[entry.name.removesuffix(".md")] = VaultPath(f"{start}/{entry.name}")
        found |= files | folders
    return sorted((name, file) for name, file in found.items() if _NAME.fullmatch(name))


def _skill(name: str, file: VaultPath, data: bytes, size: int) -> Skill:
    note = parse_note(data)
    text = data[note.body.start : note.body.stop].decode("utf-8", "replace").strip()
    cut = f"\n(cut: the skill has {size} bytes)" if size > len(data) else ""
    return Skill(
        name=name,
        description=_description(note, text),
        text=text and text + cut,
        path=printable(file),
    )


def _description(note: ParsedNote, text: str) -> str:
    """Its frontmatter's description or its first words, on one line for the system prompt."""
    said = note.values.get("description")
    words = said if isinstance(said, str) and said.strip() else text.partition("\n")[0].lstrip("# ")
    words = "".join(char if char.isprintable() else " " for char in words)
    return " ".join(words.split())[:_LONGEST_DESCRIPTION]
