"""Brain: what other modules, agents and apps may ask of the entities."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import Finding, StateAccess, VaultAccess, interface, visible_to_agents

from .checks import find_problems
from .context import ContextText
from .entity import Entity, Json
from .entity_index import CERTAIN, Match
from .graph import Direction
from .hiding import wikilinks
from .mentions import LINKED_FROM, Mention, MentionHistory
from .periods import last_day
from .private import without_private
from .recall_index import RecallIndex
from .rows import (
    Candidate,
    Context,
    EntityRow,
    FactRow,
    Linked,
    MentionRow,
    Merged,
    Recollection,
    RelatedRow,
    Resolved,
    TypeShown,
    Upserted,
    recalled_row,
    related_row,
    row,
    type_shown,
)
from .store import UNREADABLE, Change, EntityStore
from .writing import Writer

_SURE_ENOUGH: Final = 0.6
_GUIDES = ("AGENTS.md", "CLAUDE.md")
_MOST: Final = 200
_RECENT: Final = 10
_TOLD: Final = "mentions/"
_ANSWERS: Final = "answers"
_WORD: Final = re.compile(r"[^\s/]{1,200}")
_DATE: Final = re.compile(r"\d{4}(-\d\d){0,2}")


class Brain:
    """The BrainInterface: its methods are awaited, and take and give JSON values."""

    def __init__(
        self,
        vault: VaultAccess,
        state: StateAccess,
        recall: RecallIndex,
        publish: Callable[..., None],
    ) -> None:
        """`publish` is the module's."""
        self._vault, self._state, self._publish = vault, state, publish
        self.store = EntityStore(vault, recall, self._tell)
        self.writer = Writer(self.store)

    @interface("BrainInterface")
    async def search(
        self, query: str = "", type: str | None = None, limit: int = 20
    ) -> list[EntityRow]:
        """Find entities by name, alias or words of their text; those so named come first."""
        limit = max(1, min(limit, _MOST))
        index, found = await self.store.loaded(), dict[str, str]()
        if query.strip():
            for match in index.resolve(query, type, limit):
                if match.confidence >= CERTAIN:
                    found[match.entity.path] = ""
            for hit in (await asyncio.to_thread(self.store.recall.search, query, limit)).results:
                if hit.is_match:
                    found.setdefault(hit.path, hit.text)
        else:
            found = dict.fromkeys((one.path for one in index), "")
        wanted = (one for path in found if (one := index.at(path)) and type in {None, "", one.type})
        rows: list[EntityRow] = []
        async for one in self.store.readable(wanted):
            rows.append(row(one, found[one.path]))
            if len(rows) == limit:
                break
        return rows

    @interface("BrainInterface")
    async def resolve(self, text: str, type: str | None = None) -> Resolved:
        """Which entity a text means: an id in any spelling, a path, a name, an alias, or nearly one
        of these.
        """
        candidates = await self._candidates(text, type)
        best = candidates[0] if candidates else None
        if best is None or best["confidence"] < _SURE_ENOUGH:
            return Resolved(match=None, confidence=0.0, candidates=candidates)
        if len(candidates) > 1 and candidates[1]["confidence"] == best["confidence"]:
            return Resolved(match=None, confidence=0.0, candidates=candidates)
        match = row(await self.store.find(best["path"]), best["snippet"])
        return Resolved(match=match, confidence=best["confidence"], candidates=candidates)

    async def _candidates(self, text: str, kind: str | None) -> list[Candidate]:
        found: dict[str, Match] = {
            match.entity.path: match for match in (await self.store.loaded()).resolve(text, kind)
        }
        return [
            Candidate(**row(one), confidence=found[one.path].confidence, how=found[one.path].how)
            async for one in self.store.readable(match.entity for match in found.values())
        ]

    @interface("BrainInterface")
    async def recall(self, query: str, num_results: int = 5, explain: bool = False) -> Recollection:  # noqa: FBT001, FBT002
        """What answers a question: passages of entities' files, the best first. `is_match` is false
        for what has no word of the question, and is only the nearest there is.
        """
        await self.store.loaded()
        most = max(1, min(num_results, _MOST))
        asked = await asyncio.to_thread(self.store.recall.search, query, most * 4, explain=explain)
        seen = await self._readable(one.path for one in asked.results)
        results = [recalled_row(seen[one.path], one) for one in asked.results if one.path in seen][
            :most
        ]
        return Recollection(query=query, results=results, count=len(results))

    @interface("BrainInterface")
    async def suggest(self, text: str) -> list[MentionRow]:
        """The entities that a text names: where, by characters, and how surely (0 to 1)."""
        return [_shown(mention, entity) for mention, entity in await self._mentions(text)]

    @interface("BrainInterface")
    async def detect_mentions(
        self, path: str, text: str, entry_id: str | None = None
    ) -> list[MentionRow]:
        """The same for a text that was saved at `path`, with the entities that it links to.

        Each that is surely named is given an id, and `brain.mention.detected` is published once for
        each entity and source.
        """
        found: list[MentionRow] = []
        for mention, entity in (*await self._mentions(text), *await self._linked(text)):
            if mention.confidence > LINKED_FROM and not entity.para_id:
                await self.writer.id_of(entity.path)
            found.append(_shown(mention, self.store.index.at(entity.path) or entity))
        await self._announce(entry_id or path, found)
        return found

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
        index = await self.store.loaded()
        links = [(place, index.linked(place[2])) for place in wikilinks(text)]
        seen = await self._readable(entity.path for _, entity in links if entity)
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
        index = await self.store.loaded()
        scanned = self.store.derived.mentions.scan(text)
        found = {mention.id: index.find(mention.id) for mention in scanned}
        seen = await self._readable(entity.path for entity in found.values() if entity)
        return [
            (mention, entity)
            for mention in scanned
            if (entity := found[mention.id]) and entity.path in seen
        ]

    @interface("BrainInterface")
    async def answer_mention(self, para_id: str, text: str, accepted: bool) -> None:  # noqa: FBT001
        """Learn from a person's answer: whether `text` means that entity. What was refused, and
        never accepted, is not suggested again.
        """
        known = await self.store.read(await self.store.find(para_id))
        self.store.derived.mentions.history.record(known.key, text, accepted=accepted)
        await self._state.put(_ANSWERS, self.store.derived.mentions.history.to_json())

    async def load(self) -> None:
        """Read every entity, and the answers that were given."""
        held = await self._state.get(_ANSWERS)
        if isinstance(held, dict):
            self.store.derived.mentions.history = MentionHistory.from_json(held)
        await self.store.load()

    @interface("BrainInterface")
    async def link(self, path: str, para_id: str, label: str | None = None) -> Linked:
        """Link to an entity: from another one, in its `## Relationships`; from any other note, in
        the `mentions` of its frontmatter. What is linked already stays as it is.
        """
        return await self.writer.link(path, para_id, label)

    @interface("BrainInterface")
    async def types(self) -> list[TypeShown]:
        """All types of entities with their fields, and how many entities have each."""
        counts: dict[str, int] = {}
        seen = set(await self._vault.list("Brain/"))
        for one in (entity for entity in await self.store.loaded() if entity.path in seen):
            counts[one.type] = counts.get(one.type, 0) + 1
        return [
            type_shown(kind, counts.get(name, 0)) for name, kind in self.store.types.by_name.items()
        ]

    @interface("BrainInterface")
    async def context(self, entity: str, max_tokens: int = 2_000) -> Context:
        """What an agent should know of an entity: its file, what it is related to, where it was
        mentioned lately, and its project's AGENTS.md.
        """
        found = await self.store.read(await self._meant(entity))
        text = ContextText(max_tokens)
        whole = await self.store.note(found.path)
        text.add("entity", found.path, without_private(whole))
        related = await self.traverse(found.path)
        text.add_lines("related", "Related", (_line(one) for one in related))
        guide = found.fields.get("agents_path")
        if isinstance(guide, str) and guide.rpartition("/")[2] in _GUIDES:
            text.add("instructions", guide, visible_to_agents(await self.store.text_of(guide)))
        mentions = await self._recent(found)
        text.add_lines("mentions", "Mentioned in", (f"- {path}" for path in mentions))
        return text.whole(row(found))

    async def _recent(self, entity: Entity) -> list[str]:
        """Notes outside Brain/ that have its id or its name, the newest days first. No text of
        them: a journal may hold what no prompt may.
        """
        found: set[str] = set()
        for wanted in filter(None, (entity.name, entity.para_id)):
            hits = await self._vault.search('"' + wanted.replace('"', " ") + '"', _MOST)
            found.update(hit.path for hit in hits if not hit.path.startswith("Brain/"))
        return sorted(found, reverse=True)[:_RECENT]

    async def _meant(self, text: str) -> Entity:
        """The entity of that id or path, or that the text surely means. Raises NotFoundError."""
        known = (await self.store.loaded()).find(text)
        if known is not None:
            return known
        match = (await self.resolve(text))["match"]
        if match is None:
            raise NotFoundError("There is no such entity.")
        return await self.store.find(match["path"])

    @interface("BrainInterface")
    async def traverse(
        self,
        entity: str,
        type: str | None = None,
        depth: int = 1,
        direction: Direction = "both",
        on: str | None = None,
    ) -> list[RelatedRow]:
        """What an entity is related to, the nearest first: out by its own links, in by others'.
        `type` limits what is given, `on` (YYYY-MM-DD) to what held on that day.
        """
        start = await self.store.read(await self._meant(entity))
        reached = self.store.derived.graph.traverse(
            start.path, type=type or None, depth=depth, direction=direction, on=_day(on)
        )
        seen = await self._readable(one.node.path for one in reached)
        return [
            related_row(
                seen[one.node.path], one.depth, one.edge, is_out=one.edge.target == one.node.path
            )
            for one in reached
            if one.node.path in seen
        ]

    @interface("BrainInterface")
    async def backlinks(self, entity: str) -> list[RelatedRow]:
        """Entities whose files link to it."""
        target = await self.store.read(await self._meant(entity))
        found = self.store.derived.graph.backlinks(target.path)
        seen = await self._readable(node.path for node, _ in found)
        return [
            related_row(seen[node.path], 1, edge, is_out=False)
            for node, edge in found
            if node.path in seen
        ]

    @interface("BrainInterface")
    async def facts(self, entity: str, on: str | None = None) -> list[FactRow]:
        """The lines of an entity's `## Facts` and `## Relationships`; with `on` (YYYY-MM-DD, or a
        year or month, of which the last day counts) those that held then.
        """
        day = _day(on)
        found = await self.store.read(await self._meant(entity))
        return [
            FactRow(
                text=one.text,
                section=one.section,
                since=one.period.since,
                until=one.period.until,
                line=one.line,
            )
            for one in found.facts
            if day is None or one.period.holds(day)
        ]

    @interface("BrainInterface")
    async def upsert_entity(
        self, entity_type: str, data: Mapping[str, Json], commit_msg: str | None = None
    ) -> Upserted:
        """Write an entity: the one that `data` names by `para_id`, or by its name and type, or a
        new one. Aliases, tags and relationships are added to those that it has.
        """
        return await self.writer.upsert_entity(entity_type, data, commit_msg)

    @interface("BrainInterface")
    async def delete_entity(self, entity_id: str) -> dict[str, str]:
        """Remove an entity's file. `parachute undo` brings it back."""
        return await self.writer.delete_entity(entity_id)

    @interface("BrainInterface")
    async def merge(self, keep: str, other: str) -> Merged:
        """Make two entities one: the first takes over what the second says, every link follows, and
        the other's id means it too. One `parachute undo` takes it back.
        """
        done = await self.writer.merge(keep, other)
        ids = {"para_id": done["entity_id"], "merged_id": done["merged_id"]}
        words = {key: value for key, value in ids.items() if _WORD.fullmatch(value)}
        self._publish("brain.entity.merged", path=done["path"], **words)
        return done

    async def graph(
        self, around: str | None, type: str | None, depth: int, limit: int, on: str | None
    ) -> dict[str, object]:
        """What can be drawn: nodes and edges by para-id, and how many nodes were left out."""
        start = (await self._meant(around)).path if around else None
        drawing = self.store.derived.graph.drawing(
            around=start, type=type or None, depth=depth, limit=limit, on=_day(on)
        )
        nodes, edges, more = drawing["nodes"], drawing["edges"], drawing["more"]
        assert isinstance(nodes, list)  # noqa: S101  as its docstring says
        assert isinstance(edges, list)  # noqa: S101
        seen = await self._readable(node["path"] for node in nodes)
        return {
            "nodes": [
                {**node, "id": seen[node["path"]].key} for node in nodes if node["path"] in seen
            ],
            "edges": [
                {**edge, "source": seen[edge["source"]].key, "target": seen[edge["target"]].key}
                for edge in edges
                if edge["source"] in seen and edge["target"] in seen
            ],
            "more": more,
        }

    async def find_para(self, para_id: str) -> dict[str, str] | None:
        """The entity of that id, for `GET /api/para/{id}`."""
        index = await self.store.loaded()
        found = index.find(para_id) if index.has_id(para_id) else None
        if found is None or not await self._readable([found.path]):
            return None
        return {
            "para_id": found.para_id,
            "type": found.type,
            "path": found.path,
            "title": found.name,
            "url": f"/api/brain/entities/by_id?id={found.para_id}",
        }

    async def problems(self) -> list[Finding]:
        """What is wrong with files that the caller may read, and what to do."""
        store = self.store
        found = list(find_problems(await store.loaded(), store.types, store.faults))
        seen = set(await self._vault.list("Brain/"))
        return [one for one in found if one.path in seen]

    async def _readable(self, paths: Iterable[str]) -> dict[str, Entity]:
        """The entities of those files, as far as the caller may read them; that they are named is
        part of the answer, so they count as read.
        """

        async def readable(path: str) -> Entity | None:
            try:
                await self._vault.read(path)
            except UNREADABLE:
                return None
            return self.store.index.at(path)

        wanted = list(dict.fromkeys(paths))
        found = await asyncio.gather(*map(readable, wanted))
        return {path: one for path, one in zip(wanted, found, strict=True) if one is not None}

    def _tell(self, what: Change, entity: Entity) -> None:
        said = {"para_id": entity.para_id, "type": entity.type}
        words = {key: value for key, value in said.items() if _WORD.fullmatch(value)}
        self._publish(f"brain.entity.{what}", path=entity.path, **words)


def _day(text: str | None) -> str | None:
    if not text:
        return None
    day = last_day(text) if _DATE.fullmatch(text) else ""
    if not day:
        raise EditRefusedError(f"{text[:80]!r} is no day such as 2026-02-24")
    return day


def _shown(mention: Mention, entity: Entity) -> MentionRow:
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


def _line(one: RelatedRow) -> str:
    label = f" - {one['label']}" if one["label"] else ""
    return f"- {one['name']} ({one['type']}){label}: {one['snippet']}"
