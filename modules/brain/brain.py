"""Brain: what other modules, agents and apps may ask of the entities."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import (
    Finding,
    FolderAccess,
    StateAccess,
    VaultAccess,
    interface,
    reading,
    visible_to_agents,
)

from . import rows, type_file
from .context import ContextText, read_instructions
from .entity import Entity, Json, last_day
from .entity_index import CERTAIN, Match, find_problems, find_twins
from .graph import Direction
from .loader import Change, Loader, View, is_entity
from .mentioning import MentionFinder, Suggest
from .recall_index import RecallIndex
from .store import EntityStore
from .writing import Writer

_SURE_ENOUGH: Final = 0.6
_MOST: Final = 200
_SPARE: Final = 3  # times as many are looked for where some are to be left out
_RECENT: Final = 10
_ALIASES: Final = 5
_ENTRIES: Final = "Daily/"
_WORD: Final = re.compile(r"[^\s/]{1,200}")
_DATE: Final = re.compile(r"\d{4}(-\d\d){0,2}")


class Brain:
    """The BrainInterface: its methods are awaited, and take and give JSON values."""

    def __init__(
        self,
        vault: VaultAccess,
        folders: FolderAccess,
        state: StateAccess,
        publish: Callable[..., None],
        suggest: Suggest,
        recall: RecallIndex,
    ) -> None:
        self._vault, self._folders, self._publish = vault, folders, publish
        self._suggest = suggest
        view = self._view = View(recall)
        self.loader = Loader(vault, view, self._tell)
        self.store = EntityStore(vault, self.loader, view)
        self.writer = Writer(self.store)
        self.mentions = MentionFinder(vault, self.store, self.writer, state, publish, suggest)

    async def load(self) -> None:
        await self.mentions.load(self._view.index.mentions)
        await self.loader.load()

    @interface("BrainInterface")
    async def search(
        self, query: str = "", type: str | None = None, limit: int = 20
    ) -> list[rows.EntityRow]:
        """Find entities by name, alias or words of their text; those so named come first."""
        limit = max(1, min(limit, _MOST))
        view, found = await self.store.view(), dict[str, str]()

        def is_wanted(path: str) -> bool:
            one = view.index.at(path)
            return one is not None and type in {None, "", one.type}

        if query.strip():
            for match in view.index.resolve(query, type, limit):
                if match.confidence >= CERTAIN:
                    found[match.entity.path] = ""
            hits = await asyncio.to_thread(view.recall.search, query, limit, only=is_wanted)
            for hit in hits:
                found.setdefault(hit.path, hit.text)
        else:
            found = dict.fromkeys((one.path for one in view.index), "")
        wanted = (one for path in found if is_wanted(path) and (one := view.index.at(path)))
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
        candidates = await self._candidates(text, type)
        best = candidates[0] if candidates else None
        if best is None or best["confidence"] < _SURE_ENOUGH:
            return rows.Resolved(match=None, confidence=0.0, candidates=candidates)
        if len(candidates) > 1 and candidates[1]["confidence"] == best["confidence"]:
            return rows.Resolved(match=None, confidence=0.0, candidates=candidates)
        match = rows.row(await self.store.find(best["path"]), best["snippet"])
        return rows.Resolved(match=match, confidence=best["confidence"], candidates=candidates)

    async def _candidates(self, text: str, kind: str | None) -> list[rows.Candidate]:
        found: dict[str, Match] = {
            match.entity.path: match
            for match in (await self.store.view()).index.resolve(text, kind)
        }
        return [
            rows.Candidate(
                **rows.row(one), confidence=found[one.path].confidence, how=found[one.path].how
            )
            async for one in self.store.readable(match.entity for match in found.values())
        ]

    @interface("BrainInterface")
    async def recall(
        self,
        query: str,
        num_results: int = 5,
        explain: bool = False,  # noqa: FBT001, FBT002
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
        await self.loader.has_notes.wait()
        view, most = await self.store.view(), max(1, min(num_results, _MOST))
        looked_for = most * _SPARE if exclude else most
        asked = await asyncio.to_thread(view.recall.search, query, looked_for, explain=explain)
        wanted = [
            one
            for one in asked
            if not (exclude and one.path.startswith(exclude))
            and (one.is_match or not only_matches)
            and one.score >= min_score
        ][:most]
        seen = await self.store.present(one.path for one in wanted)
        results = [
            rows.recalled_row(view.index.at(one.path), one) for one in wanted if one.path in seen
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

    async def note_saved(self, path: str) -> list[Finding]:
        findings: list[Finding] = []
        with reading(path, findings):
            await self.loader.look(path)
        with reading(path, findings):
            names = self.loader.pop_new_names(path)
            entity = (await self.store.view()).index.at(path) if names else None
            if entity is not None:
                await self.mentions.offer_links(entity, names)
        with reading(path, findings), suppress(NotFoundError):
            if is_entity(path):
                await self.mentions.offer_end(path)
        return findings

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
        before, after = await self.writer.types_with(name, fields or {}, description)
        over = type_file.whole_file(type_file.DEFAULTS.by_name.values())
        return await self._suggest(
            "update" if before else "create",
            type_file.PATH,
            {"text": after} if before else {"text": after, "over": over},
            reasoning=reasoning or f"Entities of the type {name} are written of.",
        )

    @interface("BrainInterface")
    async def link(self, path: str, para_id: str, label: str | None = None) -> rows.Linked:
        """Link to an entity: from another one, in its `## Relationships`; from any other note, in
        the `mentions` of its frontmatter. What is linked already stays as it is.
        """
        return await self.writer.link(path, para_id, label)

    @interface("BrainInterface")
    async def types(self) -> list[rows.TypeShown]:
        """All types of entities with their fields, and how many entities have each."""
        view = await self.store.view()
        counts = Counter(one.type for one in view.index)
        return [rows.type_shown(kind, counts[name]) for name, kind in view.types.by_name.items()]

    @interface("BrainInterface")
    async def context(self, entity: str, max_tokens: int = 2_000) -> rows.Context:
        """What an agent should know of an entity: its file, what it is related to, where it was
        mentioned lately, and its project's AGENTS.md.
        """
        found = await self.store.read(await self._meant(entity))
        text = ContextText(max_tokens)
        whole = await self.store.note(found.path)
        text.add("entity", found.path, visible_to_agents(whole.text))
        related = await self.traverse(found.path)
        text.add_lines("related", "Related", (_line(one) for one in related))
        guide = await read_instructions(found, self._vault, self._folders)
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
        """The entity of that id or path, or that the text surely means. Raises NotFoundError."""
        known = (await self.store.view()).index.find(text)
        if known is not None:
            return known
        match = (await self.resolve(text))["match"]
        if match is None:
            raise NotFoundError("That entity was not found.")
        return await self.store.find(match["path"])

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
        start = await self.store.read(await self._meant(entity))
        view = await self.store.view()
        reached = view.graph.traverse(
            start, type=type or None, depth=depth, direction=direction, on=_day(on)
        )
        seen = await self._readable(view, (one.entity.path for one in reached))
        return [
            rows.related_row(
                seen[one.entity.path],
                one.depth,
                one.edge,
                is_out=one.edge.target == one.entity.path,
            )
            for one in reached
            if one.entity.path in seen
        ]

    @interface("BrainInterface")
    async def backlinks(self, entity: str) -> list[rows.RelatedRow]:
        """Entities whose files link to it, and then other notes, whose `type` is ""."""
        target = await self.store.read(await self._meant(entity))
        view = await self.store.view()
        found = view.graph.backlinks(target)
        seen = await self._readable(view, (other.path for other, _ in found))
        related = [
            rows.related_row(seen[other.path], 1, edge, is_out=False)
            for other, edge in found
            if other.path in seen
        ]
        links = {row.path: row for row in await self._vault.backlinks(target.path)}
        notes = sorted(path for path in links if path and view.index.at(path) is None)
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
        found = await self.store.read(await self._meant(entity))
        return [
            rows.FactRow(
                text=fact.text,
                section=fact.section,
                since=fact.period.since,
                until=fact.period.until,
                line=fact.line,
            )
            for fact in found.facts
            if day is None or fact.period.holds(day)
        ]

    @interface("BrainInterface")
    async def upsert_entity(
        self, entity_type: str, data: Mapping[str, Json], commit_msg: str | None = None
    ) -> rows.Upserted:
        """Write an entity: the one that `data` names by `para_id`, or by its name and type, or a
        new one. Aliases, tags and relationships are added to those that it has.
        """
        del commit_msg  # why a file changed is known by its cause
        return await self.writer.upsert_entity(entity_type, data)

    @interface("BrainInterface")
    async def delete_entity(self, entity_id: str) -> dict[str, str]:
        """Remove an entity's file. `parachute undo` brings it back."""
        return await self.writer.delete_entity(entity_id)

    @interface("BrainInterface")
    async def merge(self, keep: str, other: str) -> rows.Merged:
        """Make two entities one: the first takes over what the second says, every link follows, and
        the other's id means it too. One `parachute undo` takes it back.
        """
        done = await self.writer.merge(keep, other)
        ids = {"para_id": done["entity_id"], "merged_id": done["merged_id"]}
        self._announce("merged", done["path"], **ids)
        return done

    async def graph(
        self, around: str | None, type: str | None, depth: int, limit: int, on: str | None
    ) -> dict[str, object]:
        """What can be drawn: nodes and edges by para-id, and how many nodes were left out."""
        start = await self._meant(around) if around else None
        view = await self.store.view()
        nodes, edges, more = await view.graph.drawing(
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

    async def find_para(self, para_id: str) -> dict[str, str] | None:
        index = (await self.store.view()).index
        found = index.find(para_id) if index.has_id(para_id) else None
        if found is None or not await self.store.present([found.path]):
            return None
        return {
            "para_id": found.para_id,
            "type": found.type,
            "path": found.path,
            "title": found.name,
            "url": f"/api/brain/entities/by_id?id={found.para_id}",
        }

    async def twins(self, entity: str | None = None) -> list[rows.TwinRow]:
        wanted = (await self._meant(entity)).path if entity else None
        view = await self.store.view()
        pairs = [
            pair for pair in find_twins(view.index) if wanted in {None, *(one.path for one in pair)}
        ]
        seen = await self.store.present({one.path for pair in pairs for one in pair})
        return [
            rows.TwinRow(entity=rows.row(one), other=rows.row(other))
            for one, other in pairs
            if {one.path, other.path} <= seen
        ]

    async def problems(self) -> list[Finding]:
        view = await self.store.view()
        return list(find_problems(view.index, view.types, view.faults))

    async def _readable(self, view: View, paths: Iterable[str]) -> dict[str, Entity]:
        seen = await self.store.present(paths)
        return {path: one for path in seen if (one := view.index.at(path)) is not None}

    def _tell(self, what: Change, entity: Entity) -> None:
        self._announce(what, entity.path, para_id=entity.para_id, type=entity.type)

    def _announce(self, what: str, path: str, **said: str) -> None:
        words = {key: value for key, value in said.items() if _WORD.fullmatch(value)}
        self._publish(f"brain.entity.{what}", path=path, **words)


def _day(text: str | None) -> str | None:
    if not text:
        return None
    day = last_day(text) if _DATE.fullmatch(text) else ""
    if not day:
        raise EditRefusedError(f"{text[:80]!r} is not a day such as 2026-02-24")
    return day


def _line(one: rows.RelatedRow) -> str:
    label = f" - {one['label']}" if one["label"] else ""
    return f"- {one['name']} ({one['type']}){label}: {one['snippet']}"
