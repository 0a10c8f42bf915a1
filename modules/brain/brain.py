"""Brain: what other modules, agents and apps may ask of the entities."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from parachuted.errors import EditRefusedError
from parachuted.modules import Finding, Module, interface, reading, visible_to_agents

from . import rows, type_file
from .context import ContextText, read_instructions
from .entity import Entity, Json, last_day
from .entity_index import CERTAIN, Match, find_problems, find_twins
from .graph import Direction
from .mentioning import MentionFinder
from .recall import RecallIndex
from .store import Change, EntityStore
from .writing import Writer

_SURE_ENOUGH: Final = 0.6
_MOST: Final = 200
_SPARE: Final = 3  # times as many are looked for where some are to be left out
_RECENT: Final = 10
_ALIASES: Final = 5
_ENTRIES: Final = "Daily/"
_WORD: Final = re.compile(r"[^\s/]{1,200}")
_DATE: Final = re.compile(r"\d{4}(-\d\d){0,2}")


class Brain(Writer):
    """BrainInterface: its methods are awaited, and take and give JSON values."""

    def __init__(self, module: Module, recall: RecallIndex) -> None:
        self._module, self._vault = module, module.vault
        super().__init__(EntityStore(module.vault, recall, self._tell))
        self.mentions = MentionFinder(module, self)

    @interface("BrainInterface")
    async def search(
        self, query: str = "", type: str | None = None, limit: int = 20
    ) -> list[rows.EntityRow]:
        """Find entities by name, alias or words of their text; those so named come first."""
        await self.store.ready()
        limit, index, found = max(1, min(limit, _MOST)), self.store.index, dict[str, str]()

        def is_wanted(path: str) -> bool:
            one = index.at(path)
            return one is not None and type in {None, "", one.type}

        if query.strip():
            for match in index.resolve(query, type, limit):
                if match.confidence >= CERTAIN:
                    found[match.entity.path] = ""
            recall = self.store.recall
            for hit in await asyncio.to_thread(recall.search, query, limit, only=is_wanted):
                found.setdefault(hit.path, hit.text)
        else:
            found = dict.fromkeys((entity.path for entity in index), "")
        wanted = (one for path in found if is_wanted(path) and (one := index.at(path)))
        results: list[rows.EntityRow] = []
        async for one in self.store.readable(wanted):
            results.append(rows.row(one, found[one.path]))
            if len(results) == limit:
                break
        return results

    @interface("BrainInterface")
    async def resolve(self, text: str, type: str | None = None) -> rows.Resolved:
        """Which entity a text means: an id in any spelling, a path, a name, an alias, or nearly one
        of these.
        """
        await self.store.ready()
        found: dict[str, Match] = {
            match.entity.path: match for match in self.store.index.resolve(text, type)
        }
        candidates = [
            rows.Candidate(
                **rows.row(one), confidence=found[one.path].confidence, how=found[one.path].how
            )
            async for one in self.store.readable(match.entity for match in found.values())
        ]
        best = candidates[0]["confidence"] if candidates else 0.0
        is_only = [candidate["confidence"] for candidate in candidates].count(best) == 1
        if best < _SURE_ENOUGH or not is_only:
            return rows.Resolved(match=None, confidence=0.0, candidates=candidates)
        first = candidates[0]
        match = rows.row(await self.store.find(first["path"]), first["snippet"])
        return rows.Resolved(match=match, confidence=best, candidates=candidates)

    @interface("BrainInterface")
    async def recall(
        self,
        query: str,
        num_results: int = 5,
        *,
        exclude: str = "",
        only_matches: bool = False,
        min_score: float = 0.0,
    ) -> rows.Recollection:
        """What answers a question: passages of entities and of all other notes, the best first.
        `is_match` is false for what has no word of the question, and is only the nearest there is;
        `matches` is how many have one.

        Notes below the folder `exclude`, what does not match and what has a lower score are left
        out before they are read: a stranger's text that is not in the answer taints no caller.
        """
        await self.store.ready()
        await self.store.has_notes.wait()
        most = max(1, min(num_results, _MOST))
        looked_for = most * _SPARE if exclude else most
        recalled_passages = await asyncio.to_thread(self.store.recall.search, query, looked_for)
        wanted = [
            passage
            for passage in recalled_passages
            if not (exclude and passage.path.startswith(exclude))
            and (passage.is_match or not only_matches)
            and passage.score >= min_score
        ][:most]
        seen = await self.store.present(one.path for one in wanted)
        results = [
            rows.recalled_row(self.store.index.at(recalled_passage.path), recalled_passage)
            for recalled_passage in wanted
            if recalled_passage.path in seen
        ]
        matches = sum(result["is_match"] for result in results)
        return rows.Recollection(query=query, results=results, count=len(results), matches=matches)

    @interface("BrainInterface")
    async def suggest(self, text: str, *, min_confidence: float = 0.0) -> list[rows.MentionRow]:
        """The entities that a text names: where, by characters, and how surely (0 to 1)."""
        return await self.mentions.suggest(text, min_confidence)

    @interface("BrainInterface")
    async def detect_mentions(
        self, path: str, text: str, entry_id: str | None = None
    ) -> list[rows.MentionRow]:
        """The same for a text that was saved at `path`, with the entities that it links to.

        Each that is named with a confidence of 0.5 or more is given an id, and
        `brain.mention.detected` is published once for each entity and source. For a person or a
        topic that an entry names and that has no file, one is suggested, once.
        """
        found = await self.mentions.detect(path, text, entry_id)
        if entry_id is not None:
            await self.mentions.offer_new(path, text)
        return found

    @interface("BrainInterface")
    async def answer_mention(self, para_id: str, text: str, accepted: bool) -> None:  # noqa: FBT001
        """Learn from a person's answer: whether `text` means that entity. What was refused, and
        never accepted, is not suggested again.
        """
        known = await self.store.read(await self.store.find(para_id))
        await self.mentions.record(known.key, text, accepted=accepted)

    @interface("BrainInterface")
    async def types(self) -> list[rows.TypeShown]:
        """All types of entities with their fields, and how many entities have each."""
        await self.store.ready()
        counts = Counter(entity.type for entity in self.store.index)
        by_name = self.store.types.by_name
        return [rows.type_shown(kind, counts[name]) for name, kind in by_name.items()]

    @interface("BrainInterface")
    async def context(self, entity: str, max_tokens: int = 2_000) -> rows.Context:
        """What an agent should know of an entity: its file, what it is related to, where it was
        mentioned lately, and its project's AGENTS.md.
        """
        found = await self._meant(entity)
        text = ContextText(max_tokens)
        text.add("entity", found.path, visible_to_agents(await self._vault.read(found.path)))
        related = await self.traverse(found.path)
        text.add_lines("related", "Related", (_line(one) for one in related))
        guide = await read_instructions(found, self._vault, self._module.folders)
        if guide is not None:
            text.add("instructions", *guide)
        text.add_lines("mentions", "Mentioned in", await self._recent(found))
        return text.whole(rows.row(found))

    async def _recent(self, entity: Entity) -> list[str]:
        found: set[str] = set()
        for wanted in filter(None, (entity.name, entity.para_id, *entity.aliases[:_ALIASES])):
            hits = await self._vault.search('"' + wanted.replace('"', " ") + '"', _MOST)
            found.update(hit.path for hit in hits if not hit.path.startswith("Brain/"))
        lines = []
        for path in sorted(found, reverse=True)[:_RECENT]:
            says = ""
            with reading(path, []):  # it is gone, or not to be read by the caller
                if path.startswith(_ENTRIES):
                    says = await self.mentions.excerpt(await self._vault.note(path), entity)
            lines.append(f"- {path}: {says}" if says else f"- {path}")
        return lines

    async def _meant(self, text: str) -> Entity:
        """The entity of that id or path, or that the text surely means, as its file is now. Raises
        NotFoundError.
        """
        await self.store.ready()
        known = self.store.index.find(text)
        if known is None:
            match = (await self.resolve(text))["match"]
            known = await self.store.find(match["path"] if match else text)
        return await self.store.read(known)

    @interface("BrainInterface")
    async def traverse(
        self,
        entity: str,
        type: str | None = None,
        depth: int = 1,
        direction: Direction = "both",
        on: str | None = None,
    ) -> list[rows.RelatedRow]:
        """What an entity is related to, the nearest first: out by its own links, in by others'.
        `type` limits what is given, `on` (YYYY-MM-DD) to what held on that day.
        """
        start = await self._meant(entity)
        reached = self.store.graph.traverse(
            start, type=type or None, depth=depth, direction=direction, on=_day(on)
        )
        seen = await self._readable(one.entity.path for one in reached)
        return [
            rows.related_row(
                seen[reached_entity.entity.path],
                reached_entity.depth,
                reached_entity.edge,
                is_out=reached_entity.edge.target == reached_entity.entity.path,
            )
            for reached_entity in reached
            if reached_entity.entity.path in seen
        ]

    @interface("BrainInterface")
    async def backlinks(self, entity: str) -> list[rows.RelatedRow]:
        """Entities whose files link to it, and then other notes, whose `type` is ""."""
        target = await self._meant(entity)
        found = self.store.graph.backlinks(target)
        seen = await self._readable(other.path for other, _ in found)
        related = [
            rows.related_row(seen[other.path], 1, edge, is_out=False)
            for other, edge in found
            if other.path in seen
        ]
        links = {row.path: row for row in await self._vault.backlinks(target.path)}
        notes = sorted(path for path in links if path and self.store.index.at(path) is None)
        readable = await self.store.present(notes)
        return related + [
            rows.note_row(path, links[path].title) for path in notes if path in readable
        ]

    @interface("BrainInterface")
    async def facts(self, entity: str, on: str | None = None) -> list[rows.FactRow]:
        """The lines of an entity's `## Facts` and `## Relationships`; with `on` (YYYY-MM-DD, or a
        year or month, of which the last day counts) those that held then.
        """
        day = _day(on)
        return [
            rows.FactRow(
                text=fact.text,
                section=fact.section,
                since=fact.period.since,
                until=fact.period.until,
                line=fact.line,
            )
            for fact in (await self._meant(entity)).facts
            if day is None or fact.period.holds(day)
        ]

    async def graph(
        self, around: str | None, type: str | None, depth: int, limit: int, on: str | None
    ) -> dict[str, object]:
        start = await self._meant(around) if around else None
        await self.store.ready()
        nodes, edges, more = await self.store.graph.drawing(
            around=start, type=type or None, depth=depth, limit=limit, on=_day(on)
        )
        # No agent is given this answer, so that none of ten thousand files is opened for it.
        keys = {entity.path: entity.key for entity, _ in nodes}
        return {
            "nodes": [
                {
                    "id": entity.key,
                    "type": entity.type,
                    "name": entity.name,
                    "path": entity.path,
                    "degree": degree,
                }
                for entity, degree in nodes
            ],
            "edges": [
                {
                    "source": keys[edge.source],
                    "target": keys[edge.target],
                    "label": edge.label,
                    **asdict(edge.period),
                }
                for edge in edges
            ],
            "more": more,
        }

    async def twins(self, entity: str | None) -> rows.TwinsFound:
        wanted = (await self._meant(entity)).path if entity else None
        await self.store.ready()
        pairs = [
            pair
            for pair in find_twins(self.store.index)
            if wanted in {None, *(one.path for one in pair)}
        ]
        seen = await self.store.present({one.path for pair in pairs for one in pair})
        found = [
            rows.TwinRow(entity=rows.row(one), other=rows.row(other))
            for one, other in pairs
            if {one.path, other.path} <= seen
        ]
        return rows.TwinsFound(twins=found, count=len(found))

    @interface("BrainInterface")
    async def merge(self, keep: str, other: str) -> rows.Merged:
        """Make two entities one: the first takes over what the second says, every link follows, and
        the other's id means it too. One `parachute undo` takes it back.
        """
        done = await self.merge_entities(keep, other)
        ids = {"para_id": done["entity_id"], "merged_id": done["merged_id"]}
        self._announce("merged", done["path"], **ids)
        return done

    @interface("BrainInterface")
    async def suggest_type(
        self,
        name: str,
        fields: Mapping[str, Json] | list[Json] | None = None,
        description: str | None = None,
        reasoning: str = "",
    ) -> str:
        """Put a new type, or other fields of one, before a person, who decides in `Suggestions/`.
        The suggestion's id.
        """
        before, after = await self.types_with(name, fields or {}, description)
        return await self._module.suggest(
            "update" if before else "create",
            type_file.PATH,
            {"text": after} if before else {"text": after, "over": type_file.default_text()},
            reasoning=reasoning or f"Entities of the type {name} are written of.",
        )

    async def find_para(self, para_id: str) -> dict[str, str] | None:
        await self.store.ready()
        entity = self.store.index.find(para_id) if self.store.index.has_id(para_id) else None
        if entity is None or not await self.store.present([entity.path]):
            return None
        return {
            "para_id": entity.para_id,
            "type": entity.type,
            "path": entity.path,
            "title": entity.name,
            "url": f"/api/brain/entities/by_id?id={entity.para_id}",
        }

    async def problems(self) -> list[Finding]:
        await self.store.ready()
        store = self.store
        return list(find_problems(store.index, store.types, store.faults))

    def _tell(self, what: Change, entity: Entity) -> None:
        self._announce(what, entity.path, para_id=entity.para_id, type=entity.type)

    def _announce(self, what: str, path: str, **said: str) -> None:
        words = {key: value for key, value in said.items() if _WORD.fullmatch(value)}
        self._module.publish(f"brain.entity.{what}", path=path, **words)

    async def _readable(self, paths: Iterable[str]) -> dict[str, Entity]:
        seen = await self.store.present(paths)
        return {path: entity for path in seen if (entity := self.store.index.at(path)) is not None}


def _day(text: str | None) -> str | None:
    if not text:
        return None
    day = last_day(text) if _DATE.fullmatch(text) else ""
    if not day:
        raise EditRefusedError(f"{text[:80]!r} is not a day such as 2026-02-24")
    return day


def _line(related_row: rows.RelatedRow) -> str:
    label = f" - {related_row['label']}" if related_row["label"] else ""
    return f"- {related_row['name']} ({related_row['type']}){label}: {related_row['snippet']}"
