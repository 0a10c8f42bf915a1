"""Mentioning: which entities a text names, and what people said of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from parachuted.errors import ActRefusedError
from parachuted.modules import StateAccess

from .entity import Entity
from .hiding import wikilinks
from .mentions import Mention, MentionHistory
from .rows import MentionRow
from .store import EntityStore
from .views import View
from .writing import Writer

SUGGESTED_FROM: Final = 0.5
_TOLD: Final = "mentions/"
_ANSWERS: Final = "answers"


class MentionFinder:
    """Finds mentions, announces them, and learns from answers."""

    def __init__(
        self,
        store: EntityStore,
        writer: Writer,
        whole: View,
        state: StateAccess,
        publish: Callable[..., None],
    ) -> None:
        """`whole` is the view whose history is kept; `publish` is the module's."""
        self._store, self._writer, self._whole = store, writer, whole
        self._state, self._publish = state, publish

    async def load(self) -> None:
        """Read the answers that were given."""
        held = await self._state.get(_ANSWERS)
        if isinstance(held, dict):
            self._whole.mentions.history = MentionHistory.from_json(held)

    async def suggest(self, text: str) -> list[MentionRow]:
        """The entities that a text names, as far as the caller may know of them."""
        return [row_of(mention, entity) for mention, entity in await self._mentions(text)]

    async def detect(self, path: str, text: str, entry_id: str | None) -> list[MentionRow]:
        """The same for a text that was saved, with what it links to. Each that may be referred to
        has a para-id; one that cannot be given any is left out.
        """
        found: list[MentionRow] = []
        for mention, entity in (*await self._mentions(text), *await self._linked(text)):
            if mention.confidence >= SUGGESTED_FROM and not entity.para_id:
                try:
                    await self._writer.id_of(entity.path)
                except ActRefusedError:  # the caller may not write that file
                    continue
                view = await self._store.view()
                found.append(row_of(mention, view.index.at(entity.path) or entity))
            else:
                found.append(row_of(mention, entity))
        await self._announce(entry_id or path, found)
        return found

    async def record(self, entity: Entity, text: str, *, accepted: bool, manner: str = "") -> None:
        """Learn from a person's answer: whether `text` means that entity."""
        history = self._whole.mentions.history
        history.record(entity.key, text, accepted=accepted, manner=manner)
        await self._state.put(_ANSWERS, history.to_json())

    async def _announce(self, source: str, found: Iterable[MentionRow]) -> None:
        sure: dict[str, float] = {}
        for one in found:
            if ":" in one["para_id"]:
                sure[one["para_id"]] = max(one["confidence"], sure.get(one["para_id"], 0))
        source_id = "_".join(source.replace("/", ":").split())[:200]
        before = await self._state.get(_TOLD + source_id, [])
        told = set(before) if isinstance(before, list) else set()
        for para_id, confidence in sure.items():
            if para_id not in told:
                self._publish(
                    "brain.mention.detected",
                    source_id=source_id,
                    para_id=para_id,
                    confidence=confidence,
                )
        if set(sure) - told:
            await self._state.put(_TOLD + source_id, sorted(told | set(sure)))

    async def _linked(self, text: str) -> list[tuple[Mention, Entity]]:
        """What it links to, as far as the caller may know of it: somebody said so."""
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

    async def _mentions(self, text: str) -> list[tuple[Mention, Entity]]:
        """What is named, as far as the caller may know of it."""
        view = await self._store.view()
        scanned = view.mentions.scan(text)
        found = {mention.id: view.index.find(mention.id) for mention in scanned}
        seen = await self._store.present(entity.path for entity in found.values() if entity)
        return [
            (mention, entity)
            for mention in scanned
            if (entity := found[mention.id]) and entity.path in seen
        ]


def row_of(mention: Mention, entity: Entity) -> MentionRow:
    """The mention as JSON."""
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
