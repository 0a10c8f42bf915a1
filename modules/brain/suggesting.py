"""What Brain suggests by itself, once each: files for new names, ends for old values, links."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

from parachuted.errors import ParachuteError
from parachuted.modules import Note, StateAccess, VaultAccess, reading

from .compose import new_file, texts_in
from .entity import Entity, Fact, contradictions
from .hiding import hide
from .mentioning import SUGGESTED_FROM, MentionFinder, Suggest, mentions_of
from .mentions import LINKED_FROM, ORDINARY
from .names import fold, slug
from .private import has_private, without_private
from .store import ENTITIES, EntityStore
from .writing import Writer

_ASKED: Final = "unknown_names"
_MOST_ASKED: Final = 2_000
_MOST: Final = 3  # of one entry
_SHORTEST: Final = 3
_WORD: Final = r"[^\W\d_](?:[\w-]|['\u2019](?![sS]\b))*"
_PERSON: Final = re.compile(
    r"\b(?i:met(?: up)?(?: with)?|(?:lunch|dinner|breakfast|coffee|tea|talked|spoke|meeting|walk) "
    r"with|talked to|spoke to|called|phoned|emailed|thanked|visited|asked|told) "
    rf"({_WORD}(?: {_WORD}){{0,2}})"
)
_TOPIC: Final = re.compile(
    r"\b(?i:learn(?:ing|ed)? about|studying|(?:module|course|workshop|talk|book|lesson) "
    rf"(?:on|about)) ({_WORD}(?: {_WORD}){{1,2}})(?=[.,;:!?\n)]|\Z)"
)
_SECTION: Final = "facts"
_OFFERED: Final = "contradiction/"
_ENTRIES: Final = "Daily/"
_DAYS: Final = 90
_MOST_EARLIER: Final = 20  # entries for one entity
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Suggestions:
    """`vault`, `state` and `suggest` are the module's."""

    def __init__(
        self,
        vault: VaultAccess,
        state: StateAccess,
        suggest: Suggest,
        store: EntityStore,
        writer: Writer,
        mentions: MentionFinder,
    ) -> None:
        self._vault, self._state, self._suggest = vault, state, suggest
        self._store, self._writer, self._mentions = store, writer, mentions
        self._one_at_a_time = asyncio.Lock()  # of two that begin together, both would suggest

    async def offer_new(self, path: str, text: str) -> None:
        """Suggest files for what the entry at that path names, each once."""
        if new := dict(names_in(text)):
            async with self._one_at_a_time:
                await self._offer_new(path, new)

    async def _offer_new(self, path: str, new: dict[str, str]) -> None:
        view = await self._store.view()
        asked = texts_in(await self._state.get(_ASKED))
        suggested: list[str] = []
        for name, kind in list(new.items()):
            folder = view.types.by_name[kind].folder if kind in view.types.by_name else ""
            is_known = bool(view.index.mentions.scan(name) or view.index.resolve(name))
            if is_known or fold(name) in asked or not (folder and slug(name)):
                continue
            try:
                await self._suggest(
                    "create",
                    f"{ENTITIES}{folder}/{slug(name)}.md",
                    {"text": new_file(self._store.new_id(), kind, name, {})},
                    reasoning=f"{path} speaks of {name}, of whom or which Brain has no file.",
                )
            except ParachuteError:  # too many wait, or a file is there: the next entry asks again
                break
            suggested.append(fold(name))
            if len(suggested) == _MOST:
                break
        if suggested:
            await self._state.put(_ASKED, [*asked, *suggested][-_MOST_ASKED:])

    async def offer_end(self, path: str) -> None:
        """Suggest that the older of two values ended: one field at a time. A file with a private
        part, or with several sections of that name, is left to `doctor`.
        """
        note = await self._store.note(path)
        entity = await self._store.entity_of(note)
        sections = [one for one in note.sections if one.heading.strip().casefold() == _SECTION]
        if len(sections) != 1 or has_private(note):
            return
        section = sections[0]
        offered = texts_in(await self._state.get(_OFFERED + path))
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

    async def offer_links(self, entity: Entity, names: Iterable[str]) -> None:
        """Link entries of the last 90 days that have these new names to it; less sure ones: suggest
        it.
        """
        since = (datetime.now(UTC) - timedelta(days=_DAYS)).date().isoformat()
        found: dict[str, None] = {}
        for name in names:
            wanted = " ".join(name.replace('"', " ").split())
            for hit in await self._vault.search(f'"{wanted}"', 100) if fold(wanted) else ():
                if hit.path.startswith(_ENTRIES) and _day(hit.path, since) >= since:
                    found[hit.path] = None
        for path in sorted(found, reverse=True)[:_MOST_EARLIER]:
            with reading(path, []):  # it is gone, or changed meanwhile: its next save is looked at
                await self._link(await self._vault.note(path), entity)

    async def _link(self, note: Note, entity: Entity) -> None:
        if note.modified < datetime.now(UTC) - timedelta(days=_DAYS) and not _DAY.search(note.path):
            return
        text = without_private(note)[note.body_start :]
        best = await self._mentions.surest(text, entity)
        if best is None or best.confidence < SUGGESTED_FROM:
            return
        para_id = await self._writer.id_of(entity.path)
        if para_id in mentions_of(note):
            return
        if best.confidence > LINKED_FROM:
            await self._writer.link(note.path, para_id)
        else:
            await self._mentions.suggest_link(note, para_id, best)


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Names in the text with the type that the words before them suggest, in order."""
    shown = hide(text)
    for found in _PERSON.finditer(shown):
        words: list[str] = []
        for word in found[1].split(" "):
            if not word[0].isupper() or fold(word) in ORDINARY:
                break
            words.append(word)
        if words and len(words[0]) >= _SHORTEST:
            yield " ".join(words), "person"
    for found in _TOPIC.finditer(shown):
        if not any(fold(word) in ORDINARY for word in found[1].split(" ")):
            yield found[1], "topic"


def _ended(line: str, older: Fact, newer: Fact) -> str:
    day = datetime.now(UTC).date()
    if newer.period.since and newer.period.since > (older.period.since or ""):
        first = date.fromisoformat(newer.period.since)
        day = first - timedelta(days=first > date.min)
    since = older.period.since
    when = f"({since} to {day})" if since else f"(until {day})"
    return f"{line[: line.index(older.text) + len(older.text)]} {when}"


def _day(path: str, default: str) -> str:
    found = _DAY.search(path)
    return found[0] if found else default
