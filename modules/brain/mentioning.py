"""Mentioning: which entities a text names, what follows from it, and what people answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.modules import Note, StateAccess, VaultAccess, reading

from .compose import new_file, texts_in
from .entity import Entity, Fact, contradictions
from .hiding import hide, wikilinks
from .loader import has_private, without_private
from .mentions import LINKED_FROM, ORDINARY, Mention, MentionHistory, MentionIndex
from .rows import MentionRow
from .store import ENTITIES, EntityStore
from .words import fold_name, slug
from .writing import Writer

_ANSWERS: Final = "answers"
_OFFERED: Final = "offered/"  # by the id of a suggestion of Brain's own
_LIKELY: Final = "likely/"  # by the path of an entry, whose module suggests them
_SUGGESTING: Final = "module:daily"
_ACCEPTED: Final = frozenset({"approved", "modified"})
SUGGESTED_FROM: Final = 0.5
_ANNOUNCED: Final = "mentions/"
_EXCERPT: Final = 300  # characters
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
_OFFERED_ENDS: Final = "contradiction/"
_ENTRIES: Final = "Daily/"
_DAYS: Final = 90
_MOST_EARLIER: Final = 20  # entries for one entity
_DAY_IN_PATH = re.compile(r"\d{4}-\d{2}-\d{2}")

Suggest = Callable[..., Awaitable[str]]


class MentionFinder:
    def __init__(
        self,
        vault: VaultAccess,
        store: EntityStore,
        writer: Writer,
        state: StateAccess,
        publish: Callable[..., None],
        suggest: Suggest,
    ) -> None:
        self._vault, self._store, self._writer, self._state = vault, store, writer, state
        self._publish, self._suggest = publish, suggest
        self._one_at_a_time = asyncio.Lock()  # of two that begin together, both would suggest

    async def suggest(self, text: str, least: float = 0.0) -> list[MentionRow]:
        return [row_of(mention, entity) for mention, entity in await self._mentions(text, least)]

    async def detect(self, path: str, text: str, entry_id: str | None) -> list[MentionRow]:
        """The same for a saved text, with its links; each that may be referred to has a para-id."""
        found: list[MentionRow] = []
        likely: list[Mention] = []
        for mention, entity in (*await self._mentions(text), *await self._linked(text)):
            named = entity
            if mention.confidence >= SUGGESTED_FROM and not entity.para_id:
                try:
                    await self._writer.id_of(entity.path)
                except ActRefusedError:  # the caller may not write that file
                    continue
                named = (await self._store.view()).index.at(entity.path) or entity
            found.append(row_of(mention, named))
            if SUGGESTED_FROM <= mention.confidence <= LINKED_FROM:
                likely.append(replace(mention, id=named.key))
        await self._expect(path, likely)
        await self._announce(entry_id or path, found)
        return found

    async def surest(self, text: str, entity: Entity) -> Mention | None:
        found = [one for one, named in await self._mentions(text) if named.path == entity.path]
        return max(found, key=lambda one: one.confidence, default=None)

    async def excerpt(self, note: Note, entity: Entity) -> str:
        text = without_private(note)[note.body_start :]
        best = await self.surest(text, entity)
        if best is None:
            return ""
        before, after = text[: best.start].rpartition("\n\n")[2], text[best.start :]
        words = " ".join((before + after.partition("\n\n")[0]).split())
        return words if len(words) <= _EXCERPT else f"{words[: _EXCERPT - 1].rstrip()}…"

    async def _announce(self, source: str, found: Iterable[MentionRow]) -> None:
        sure: dict[str, float] = {}
        for one in found:
            if ":" in one["para_id"]:
                sure[one["para_id"]] = max(one["confidence"], sure.get(one["para_id"], 0))
        if not sure:
            return
        source_id = "_".join(source.replace("/", ":").split())[:200]
        announced = set(texts_in(await self._state.get(_ANNOUNCED + source_id)))
        for para_id, confidence in sure.items():
            if para_id not in announced:
                self._publish(
                    "brain.mention.detected",
                    source_id=source_id,
                    para_id=para_id,
                    confidence=confidence,
                )
        if set(sure) - announced:
            await self._state.put(_ANNOUNCED + source_id, sorted(announced | set(sure)))

    async def _linked(self, text: str) -> list[tuple[Mention, Entity]]:
        index = (await self._store.view()).index
        links = [(place, index.linked(place[2])) for place in wikilinks(text)]
        seen = await self._store.present(entity.path for _, entity in links if entity)
        return [
            (
                Mention(
                    id=entity.key,
                    name=entity.name,
                    type=entity.type,
                    start=start,
                    end=end,
                    text=text[start:end],
                    confidence=1.0,
                    manner="link",
                    why=(("a link", 1.0),),
                ),
                entity,
            )
            for (start, end, _), entity in links
            if entity and entity.path in seen
        ]

    async def _mentions(self, text: str, least: float = 0.0) -> list[tuple[Mention, Entity]]:
        view = await self._store.view()
        scanned = [one for one in view.index.mentions.scan(text) if one.confidence >= least]
        found = {mention.id: view.index.find(mention.id) for mention in scanned}
        seen = await self._store.present(entity.path for entity in found.values() if entity)
        return [
            (mention, entity)
            for mention in scanned
            if (entity := found[mention.id]) and entity.path in seen
        ]

    async def load(self, names: MentionIndex) -> None:
        held = await self._state.get(_ANSWERS)
        if isinstance(held, dict):
            names.history = MentionHistory.from_json(held)

    async def record(self, key: str, text: str, *, accepted: bool, manner: str = "") -> None:
        history = (await self._store.view()).index.mentions.history
        history.record(key, text, accepted=accepted, manner=manner)
        await self._state.put(_ANSWERS, history.to_json())

    async def _expect(self, path: str, likely: Iterable[Mention]) -> None:
        """These mentions are suggested for the note at that path, by the module that asked."""
        new = {one.id: [one.text, one.manner] for one in likely}
        held = await self._held(_LIKELY + path) if new else {}
        if any(held.get(key) != one for key, one in new.items()):
            await self._state.put(_LIKELY + path, {**held, **new})

    async def suggest_link(self, note: Note, para_id: str, mention: Mention) -> None:
        made = await self._suggest(
            "update",
            note.path,
            {"key": "mentions", "value": [*mentions_of(note), para_id]},
            reasoning=f"The entry may mention {mention.name} ({mention.text!r}, "
            f"{mention.confidence:.0%}).",
        )
        await self._state.put(_OFFERED + made, {para_id: [mention.text, mention.manner]})

    async def resolved(self, suggestion: str, path: str, source: str, status: str) -> None:
        offered = await self._held(_OFFERED + suggestion)
        if offered:
            await self._state.delete(_OFFERED + suggestion)
            if status in _ACCEPTED or status == "rejected":
                await self._learn(offered, offered if status in _ACCEPTED else ())
            return
        likely = await self._held(_LIKELY + path) if source == _SUGGESTING else {}
        if not likely or (status not in _ACCEPTED and status != "rejected"):
            return
        there: list[str] = []
        with reading(path, []):  # what is gone, or no text, mentions nothing
            there = mentions_of(await self._store.note(path))
        await self._state.delete(_LIKELY + path)
        await self._learn(likely, there)

    async def _learn(self, offered: Mapping[str, list[str]], accepted: Iterable[str]) -> None:
        yes = set(accepted)
        for para_id, (text, manner) in offered.items():
            await self.record(para_id, text, accepted=para_id in yes, manner=manner)

    async def _held(self, key: str) -> dict[str, list[str]]:
        held = await self._state.get(key)
        return dict(held) if isinstance(held, dict) else {}

    async def offer_new(self, path: str, text: str) -> None:
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
            if is_known or fold_name(name) in asked or not (folder and slug(name)):
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
            suggested.append(fold_name(name))
            if len(suggested) == _MOST:
                break
        if suggested:
            await self._state.put(_ASKED, [*asked, *suggested][-_MOST_ASKED:])

    async def offer_end(self, path: str) -> None:
        """Suggest that the older of two values ended, one field at a time."""
        note = await self._store.note(path)
        entity = await self._store.entity_of(note)
        sections = [one for one in note.sections if one.heading.strip().casefold() == _SECTION]
        if len(sections) != 1 or has_private(note):
            return
        section = sections[0]
        offered = texts_in(await self._state.get(_OFFERED_ENDS + path))
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
            await self._state.put(_OFFERED_ENDS + path, [*offered, both])
            return

    async def offer_links(self, entity: Entity, names: Iterable[str]) -> None:
        """For entries of the last 90 days; where a name is less sure, suggest the link."""
        since = (datetime.now(UTC) - timedelta(days=_DAYS)).date().isoformat()
        found: dict[str, None] = {}
        for name in names:
            wanted = " ".join(name.replace('"', " ").split())
            for hit in await self._vault.search(f'"{wanted}"', 100) if fold_name(wanted) else ():
                if hit.path.startswith(_ENTRIES) and _day(hit.path, since) >= since:
                    found[hit.path] = None
        for path in sorted(found, reverse=True)[:_MOST_EARLIER]:
            with reading(path, []):  # it is gone, or changed meanwhile: its next save is looked at
                await self._link(await self._vault.note(path), entity)

    async def _link(self, note: Note, entity: Entity) -> None:
        if note.modified < datetime.now(UTC) - timedelta(days=_DAYS) and not _DAY_IN_PATH.search(
            note.path
        ):
            return
        text = without_private(note)[note.body_start :]
        best = await self.surest(text, entity)
        if best is None or best.confidence < SUGGESTED_FROM:
            return
        para_id = await self._writer.id_of(entity.path)
        if para_id in mentions_of(note):
            return
        if best.confidence > LINKED_FROM:
            await self._writer.link(note.path, para_id)
        else:
            await self.suggest_link(note, para_id, best)


def row_of(mention: Mention, entity: Entity) -> MentionRow:
    return MentionRow(
        para_id=entity.key,
        name=entity.name,
        type=entity.type,
        start=mention.start,
        end=mention.end,
        text=mention.text,
        confidence=mention.confidence,
        why=[reason for reason, weight in mention.why if weight],
    )


def mentions_of(note: Note) -> list[str]:
    return texts_in(note.frontmatter.get("mentions"))


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Names in the text with the type that the words before them suggest, in order."""
    visible = hide(text)
    for found in _PERSON.finditer(visible):
        words: list[str] = []
        for word in found[1].split(" "):
            if not word[0].isupper() or fold_name(word) in ORDINARY:
                break
            words.append(word)
        if words and len(words[0]) >= _SHORTEST:
            yield " ".join(words), "person"
    for found in _TOPIC.finditer(visible):
        if not any(fold_name(word) in ORDINARY for word in found[1].split(" ")):
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
    found = _DAY_IN_PATH.search(path)
    return found[0] if found else default
