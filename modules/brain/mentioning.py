"""Mentioning: which entities a text names, and what people said of mentions that were suggested."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from parachuted.errors import ActRefusedError
from parachuted.modules import Note, StateAccess, reading

from .compose import texts_in
from .entity import Entity
from .hiding import wikilinks
from .mentions import LINKED_FROM, Mention, MentionHistory, MentionIndex
from .private import without_private
from .rows import MentionRow
from .store import EntityStore
from .writing import Writer

_ANSWERS: Final = "answers"
_OFFERED: Final = "offered/"  # by the id of a suggestion of Brain's own
_LIKELY: Final = "likely/"  # by the path of an entry, whose module suggests them
_SUGGESTING: Final = "module:daily"
_ACCEPTED: Final = frozenset({"approved", "modified"})
SUGGESTED_FROM: Final = 0.5
_ANNOUNCED: Final = "mentions/"
_EXCERPT: Final = 300  # characters

Suggest = Callable[..., Awaitable[str]]


class MentionFinder:
    """Finds mentions, announces and suggests them, and learns from the answers."""

    def __init__(
        self,
        store: EntityStore,
        writer: Writer,
        state: StateAccess,
        publish: Callable[..., None],
        suggest: Suggest,
    ) -> None:
        self._store, self._writer, self._state = store, writer, state
        self._publish, self._suggest = publish, suggest

    async def suggest(self, text: str, least: float = 0.0) -> list[MentionRow]:
        return [row_of(mention, entity) for mention, entity in await self._mentions(text, least)]

    async def detect(self, path: str, text: str, entry_id: str | None) -> list[MentionRow]:
        """The same for a text that was saved, with its links. Each that may be referred to has a
        para-id; one that cannot be given any is left out.
        """
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
        """The paragraph of a note that names the entity, in one line; empty where none does."""
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
        """Learn whether `text` means the entity of that key."""
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
