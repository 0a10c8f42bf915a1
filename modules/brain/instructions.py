"""Instructions: the AGENTS.md of an entity's project, in the vault or in a folder outside it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from parachuted.errors import NotFoundError
from parachuted.modules import Finding, FolderAccess, VaultAccess, reading, visible_to_agents

from .entity import Entity

_GUIDES: Final = ("AGENTS.md", "CLAUDE.md")


async def read_instructions(
    entity: Entity, vault: VaultAccess, folders: FolderAccess
) -> tuple[str, str] | None:
    """Its path and its text, or in place of that why it was not read; None where there is none.

    `agents_path` names the file, `work_path` the folder that has it. Outside the vault only the
    folders are read that the module's manifest names.
    """
    for path in _places(entity):
        found: list[Finding] = []
        with reading(path, found), suppress(NotFoundError):
            outside = path.startswith(("~/", "/"))
            text = await (folders.read(path) if outside else vault.read(path))
            return path, visible_to_agents(text)
        if found:
            return path, f"(not read: {found[0].problem})"
    return None


def _places(entity: Entity) -> list[str]:
    guide, work = (entity.fields.get(key) for key in ("agents_path", "work_path"))
    if isinstance(guide, str) and guide.rpartition("/")[2] in _GUIDES:
        return [guide]
    if isinstance(work, str) and work.strip("/ "):
        return [f"{work.rstrip('/')}/{name}" for name in _GUIDES]
    return []
