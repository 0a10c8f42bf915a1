"""Earlier entries: those that named an entity before it was made, or before it was called so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from parachuted.modules import Note, VaultAccess, reading

from .answers import MentionAnswers, mentions_of
from .entity import Entity
from .mentioning import SUGGESTED_FROM, MentionFinder
from .mentions import LINKED_FROM
from .names import fold
from .private import without_private
from .writing import Writer

_ENTRIES: Final = "Daily/"
_DAYS: Final = 90
_MOST: Final = 20  # entries for one entity
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class EarlierMentions:
    """Links recent entries to an entity that they name, or suggests it."""

    def __init__(
        self,
        vault: VaultAccess,
        finder: MentionFinder,
        answers: MentionAnswers,
        writer: Writer,
    ) -> None:
        self._vault, self._finder, self._writer = vault, finder, writer
        self._answers = answers

    async def offer(self, entity: Entity, names: Iterable[str]) -> list[str]:
        """Look for these names of the entity, which are new, in entries of the last 90 days; the
        paths of those that were linked.
        """
        since = (datetime.now(UTC) - timedelta(days=_DAYS)).date().isoformat()
        found: dict[str, None] = {}
        for name in names:
            wanted = " ".join(name.replace('"', " ").split())
            for hit in await self._vault.search(f'"{wanted}"', 100) if fold(wanted) else ():
                if hit.path.startswith(_ENTRIES) and _day(hit.path, since) >= since:
                    found[hit.path] = None
        linked = []
        for path in sorted(found, reverse=True)[:_MOST]:
            with reading(path, []):  # it is gone, or changed meanwhile: its next save is looked at
                if await self._look(await self._vault.note(path), entity):
                    linked.append(path)
        return linked

    async def _look(self, note: Note, entity: Entity) -> bool:
        if note.modified < datetime.now(UTC) - timedelta(days=_DAYS) and not _DAY.search(note.path):
            return False
        text = without_private(note)[note.body_start :]
        best = await self._finder.surest(text, entity)
        if best is None or best.confidence < SUGGESTED_FROM:
            return False
        para_id = await self._writer.id_of(entity.path)
        if para_id in mentions_of(note):
            return False
        if best.confidence > LINKED_FROM:
            return (await self._writer.link(note.path, para_id))["linked"]
        await self._answers.suggest(note, para_id, best)
        return False


def _day(path: str, default: str) -> str:
    """The day that a path names."""
    found = _DAY.search(path)
    return found[0] if found else default
