"""Context: what an agent is given to read about an entity, within a number of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from parachuted.errors import NotFoundError
from parachuted.modules import Finding, FolderAccess, VaultAccess, reading, visible_to_agents

from .entity import Entity
from .rows import Context, ContextPart, EntityRow

_PER_TOKEN = 4  # characters, about
_GUIDES: Final = ("AGENTS.md", "CLAUDE.md")


class ContextText:
    def __init__(self, max_tokens: int) -> None:
        self._left = max(0, max_tokens) * _PER_TOKEN
        self._parts: list[ContextPart] = []
        self._texts: list[str] = []
        self._is_cut = False

    def add(self, kind: str, path: str, text: str) -> None:
        if not text.strip():
            return
        whole = f"<!-- {path} -->\n{text.strip()}\n"
        kept = whole if len(whole) <= self._left else whole[: self._left]
        is_cut = kept != whole
        self._left -= len(kept)
        self._is_cut |= is_cut
        if kept:
            self._texts.append(kept)
        tokens = len(kept) // _PER_TOKEN
        self._parts.append(ContextPart(kind=kind, path=path, tokens=tokens, truncated=is_cut))

    def add_lines(self, kind: str, title: str, lines: Iterable[str]) -> None:
        kept: list[str] = []
        is_cut = False
        for line in lines:
            if len(line) + 1 > self._left:
                is_cut = True
                break
            kept.append(line)
            self._left -= len(line) + 1
        if kept:
            self._texts.append(f"## {title}\n\n" + "\n".join(kept) + "\n")
        if kept or is_cut:
            tokens = sum(map(len, kept)) // _PER_TOKEN
            self._parts.append(ContextPart(kind=kind, path="", tokens=tokens, truncated=is_cut))
        self._is_cut |= is_cut

    def whole(self, entity: EntityRow) -> Context:
        return Context(
            entity=entity,
            text="\n".join(self._texts),
            parts=self._parts,
            tokens=sum(part["tokens"] for part in self._parts),
            truncated=self._is_cut,
        )


async def read_instructions(
    entity: Entity, vault: VaultAccess, folders: FolderAccess
) -> tuple[str, str] | None:
    """The AGENTS.md of an entity's project: its path, and its text or why it was not read."""
    for path in _places(entity):
        findings: list[Finding] = []
        with reading(path, findings), suppress(NotFoundError):
            outside = path.startswith(("~/", "/"))
            text = await (folders.read(path) if outside else vault.read(path))
            return path, visible_to_agents(text)
        if findings:
            return path, f"(not read: {findings[0].problem})"
    return None


def _places(entity: Entity) -> list[str]:
    guide, work = (entity.fields.get(key) for key in ("agents_path", "work_path"))
    if isinstance(guide, str) and guide.rpartition("/")[2] in _GUIDES:
        return [guide]
    if isinstance(work, str) and work.strip("/ "):
        return [f"{work.rstrip('/')}/{name}" for name in _GUIDES]
    return []
