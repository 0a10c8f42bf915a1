"""Contradictions: where a field has two values that both hold, ending one is suggested, once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from parachuted.modules import StateAccess

from .answers import Suggest
from .entity import Fact, contradictions
from .private import has_private
from .store import EntityStore

_SECTION: Final = "facts"
_OFFERED: Final = "contradiction/"


class Contradictions:
    """Puts two values of one field before a person, who decides in `Suggestions/`."""

    def __init__(self, store: EntityStore, state: StateAccess, suggest: Suggest) -> None:
        """`suggest` is the module's."""
        self._store, self._state, self._suggest = store, state, suggest

    async def offer(self, path: str) -> None:
        """Suggest that the older value of the entity at that path has ended. Of several such fields
        the first: the others follow with the next change. A file with a private part, or with
        several sections of that name, is left to `doctor`.
        """
        note = await self._store.note(path)
        entity = await self._store.entity_of(note)
        sections = [one for one in note.sections if one.heading.strip().casefold() == _SECTION]
        if len(sections) != 1 or has_private(note):
            return
        section = sections[0]
        held = await self._state.get(_OFFERED + path, [])
        offered = [str(one) for one in held] if isinstance(held, list) else []
        for pair in contradictions(entity.facts):
            older, newer = sorted(pair, key=lambda one: (one.period.since or "", one.line))
            both = f"{older.text} | {newer.text}"
            line = note.text.split("\n")[older.line - 1].rstrip("\r")
            if both in offered or older.text not in line:  # where a part of it is code
                continue
            await self._suggest(
                "update",
                path,
                {
                    "section": section.heading,
                    "content": section.content(note).replace(line, _ended(line, older, newer), 1),
                },
                reasoning=f"{older.text!r} and {newer.text!r} both hold. If the second took the "
                "place of the first, let the first end.",
                base=note.digest,
            )
            await self._state.put(_OFFERED + path, [*offered, both])
            return


def _ended(line: str, older: Fact, newer: Fact) -> str:
    """The line of the older one with its last day: that before the newer's first, else today."""
    day = datetime.now(UTC).date()
    if newer.period.since and newer.period.since > (older.period.since or ""):
        first = date.fromisoformat(newer.period.since)
        day = first - timedelta(days=first > date.min)
    since = older.period.since
    when = f"({since} to {day})" if since else f"(until {day})"
    return f"{line[: line.index(older.text) + len(older.text)]} {when}"
