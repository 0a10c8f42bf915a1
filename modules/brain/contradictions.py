"""Contradictions: where a field has two values that both hold, ending one is suggested, once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from parachuted.modules import Note, StateAccess

from .answers import Suggest
from .entity import Fact, contradictions
from .loader import UNREADABLE
from .private import has_private
from .store import EntityStore

_SECTION: Final = "Facts"
_OFFERED: Final = "contradiction/"


class Contradictions:
    """Puts two values of one field before a person, who decides in `Suggestions/`."""

    def __init__(self, store: EntityStore, state: StateAccess, suggest: Suggest) -> None:
        """`suggest` is the module's."""
        self._store, self._state, self._suggest = store, state, suggest

    async def offer(self, path: str) -> None:
        """Suggest that the older value of the entity at that path has ended. Of several such fields
        the first: the others follow with the next change. A file with a private part is left to
        `doctor`.
        """
        try:
            note = await self._store.note(path)
            entity = await self._store.entity_of(note)
        except UNREADABLE:
            return
        held = await self._state.get(_OFFERED + path, [])
        offered = [str(one) for one in held] if isinstance(held, list) else []
        for pair in contradictions(entity.facts) if not has_private(note) else ():
            older, newer = sorted(pair, key=lambda one: (one.period.since or "", one.line))
            both = f"{older.text} | {newer.text}"
            section = note.section(_SECTION)
            if both in offered or section is None:
                continue
            line = note.text.split("\n")[older.line - 1].rstrip("\r")
            await self._suggest(
                "update",
                path,
                {
                    "section": section.heading,
                    "content": section.content(note).replace(line, _ended(note, older, newer), 1),
                },
                reasoning=f"{older.text!r} and {newer.text!r} both hold. If the second took the "
                "place of the first, let the first end.",
                base=note.digest,
            )
            await self._state.put(_OFFERED + path, [*offered, both])
            return


def _ended(note: Note, older: Fact, newer: Fact) -> str:
    """The line of the older one with its last day: that before the newer's first, else today."""
    line = note.text.split("\n")[older.line - 1]
    day = datetime.now(UTC).date()
    if newer.period.since and newer.period.since > (older.period.since or ""):
        day = date.fromisoformat(newer.period.since) - timedelta(days=1)
    since = older.period.since
    when = f"({since} to {day})" if since else f"(until {day})"
    return f"{line[: line.index(older.text) + len(older.text)]} {when}"
