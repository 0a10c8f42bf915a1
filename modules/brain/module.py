"""Brain: knowledge as plain files, one for each person, project and topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.errors import NotFoundError
from parachuted.modules import Finding, Module, Response, event, mcp_tool, reading, route

from . import queries, rows
from .brain import Brain
from .entity import Json
from .entity_index import listed
from .graph import Direction
from .queries import SavedQuery
from .recall import RecallIndex
from .vectors import load_embedder

_PATIENCE_S = 5
_PAUSE_S = 0.02  # in which others use the index
Limit = Annotated[int, Field(ge=1, le=500)]
Offset = Annotated[int, Field(ge=0, le=1_000_000_000)]
Depth = Annotated[int, Field(ge=1, le=6)]
Tokens = Annotated[int, Field(ge=100, le=100_000)]
Data = dict[str, object]


class EntityPage(TypedDict):
    """Entities of one type, by name; `count` is how many there are in all."""

    results: list[dict[str, object]]
    count: int
    offset: int


class EntityRows(TypedDict):
    """Entities by name; `count` is how many there are in all."""

    results: list[rows.EntityRow]
    count: int
    offset: int


class Mentions(TypedDict):
    """What a text names."""

    suggestions: list[rows.MentionRow]
    count: int


class Related(TypedDict):
    """What an entity is related to."""

    results: list[rows.RelatedRow]
    count: int


class BrainModule(Module):
    def interfaces(self) -> Mapping[str, object]:
        return {"BrainInterface": self.brain}

    async def on_enable(self) -> None:
        """Read the entities; the last of very many while the module serves: what asks waits."""
        path = self.data_folder / "recall.db"
        self._recall = await asyncio.to_thread(lambda: RecallIndex(path, load_embedder()))
        self.brain = Brain(self, self._recall)
        loading = self.spawn(self._load, name="loading entities")
        await asyncio.wait([loading], timeout=_PATIENCE_S)
        if loading.done():
            loading.result()

    async def _load(self) -> None:
        await self.brain.mentions.load()
        await self.brain.store.load()
        self.spawn(self.brain.store.load_notes, name="loading notes")
        self.spawn(self._embed, name="embedding")

    async def _embed(self) -> None:
        has_new_texts = self.brain.store.has_new_texts
        while self._recall.has_vectors:
            await has_new_texts.wait()
            has_new_texts.clear()
            left = 1
            while left:
                left = await asyncio.to_thread(self._recall.embed)
                await asyncio.sleep(_PAUSE_S)

    async def on_disable(self) -> None:
        await asyncio.to_thread(self._recall.close)

    @route("GET", "/problems")
    async def doctor(self) -> list[Finding]:
        """What is wrong with entities, types and kept searches, and what to do."""
        return [*await self.brain.problems(), *(await self._queries())[1]]

    @event("file.created")
    @event("file.modified")
    async def on_saved(self, path: str) -> None:
        findings: list[Finding] = []
        with reading(path, findings):
            await self.brain.store.look(path)
        for one in findings:
            self.log.warning(
                "a saved note was not taken in whole", extra={"path": one.path, "why": one.problem}
            )

    @event("file.deleted")
    async def on_deleted(self, path: str) -> None:
        await self.brain.store.look(path)

    @event("file.moved")
    async def on_moved(self, path: str, data: Data) -> None:
        await self.brain.store.follow_move(str(data.get("from", "")), path)

    @event("suggestion.resolved")
    async def on_resolved(self, path: str, source_agent: str, status: str) -> None:
        await self.brain.mentions.resolved(path, source_agent, status)

    async def find_para(self, para_id: str) -> dict[str, str] | None:
        return await self.brain.find_para(para_id)

    @route("GET", "/search")
    async def search_route(
        self,
        q: str = "",
        query: str = "",
        type: str | None = None,
        limit: Limit = 20,
    ) -> dict[str, object]:
        """Entities by name, alias or words of their text."""
        results = await self.brain.search(q or query, type, limit)
        return {"query": q or query, "results": results, "count": len(results)}

    @route("GET", "/resolve")
    async def resolve_route(
        self,
        q: str = "",
        text: str = "",
        type: str | None = None,
    ) -> rows.Resolved:
        """Which entity a text means."""
        return await self.brain.resolve(q or text, type)

    @route("POST", "/merge")
    async def merge_route(self, keep: str, other: str) -> rows.Merged:
        """Make two entities one. `parachute undo` of the answer's `run` takes it back."""
        return await self.brain.merge(keep, other)

    @route("GET", "/twins")
    async def twins_route(self, entity: str | None = None) -> rows.TwinsFound:
        """Entities of one type that are called the same: all, or those of one entity."""
        return await self.brain.twins(entity)

    @route("GET", "/facts")
    async def facts_route(self, entity: str, on: str | None = None) -> list[rows.FactRow]:
        """What is known of an entity, or was on a day."""
        return await self.brain.facts(entity, on)

    @route("POST", "/suggest", capability="read")
    async def suggest_route(self, text: Annotated[str, Field(max_length=200_000)]) -> Mentions:
        """The entities that a text names."""
        found = await self.brain.suggest(text)
        return Mentions(suggestions=found, count=len(found))

    @route("POST", "/mentions/answer")
    async def answer_route(self, para_id: str, text: str, accepted: bool) -> dict[str, bool]:  # noqa: FBT001
        """Say whether a text means that entity; what is refused is not suggested again."""
        await self.brain.answer_mention(para_id, text, accepted)
        return {"accepted": accepted}

    @route("GET", "/recall")
    async def recall_route(
        self, query: str, num_results: Annotated[int, Field(ge=1, le=50)] = 5
    ) -> rows.Recollection:
        """What answers a question: passages, the best first."""
        return await self.brain.recall(query, num_results)

    @route("GET", "/context")
    async def context_route(self, entity: str, max_tokens: Tokens = 2_000) -> rows.Context:
        """What an agent should know of an entity."""
        return await self.brain.context(entity, max_tokens)

    @route("GET", "/traverse")
    async def traverse_route(
        self,
        entity: str,
        type: str | None = None,
        depth: Depth = 1,
        direction: Direction = "both",
        on: str | None = None,
    ) -> Related:
        """What an entity is related to, the nearest first."""
        found = await self.brain.traverse(entity, type, depth, direction, on)
        return Related(results=found, count=len(found))

    @route("GET", "/backlinks")
    async def backlinks_route(self, entity: str) -> Related:
        """Entities and other notes that link to it."""
        found = await self.brain.backlinks(entity)
        return Related(results=found, count=len(found))

    @route("GET", "/graph")
    async def graph_route(
        self,
        around: str | None = None,
        type: str | None = None,
        depth: Depth = 2,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 300,
        on: str | None = None,
    ) -> dict[str, object]:
        """Nodes and edges to draw: those around an entity, or those with the most links."""
        return await self.brain.graph(around, type, depth, limit, on)

    @route("GET", "/schemas")
    async def schemas(self) -> dict[str, list[rows.TypeShown]]:
        """All types."""
        return {"schemas": await self.brain.types()}

    @route("GET", "/types")
    async def list_types(self) -> list[rows.TypeShown]:
        """All types."""
        return await self.brain.types()

    @route("POST", "/types", tolerant=True)
    async def create_type(
        self,
        name: str,
        fields: dict[str, object] | list[object] | None = None,
        key_strategy: str | None = None,
        description: str | None = None,
    ) -> rows.TypeShown:
        """Make a type."""
        await self.brain.set_type(name, fields or {}, key_strategy, description, is_new=True)
        return await self._type(name)

    @route("POST", "/types/suggest")
    async def suggest_type_route(
        self,
        name: str,
        fields: dict[str, object] | list[object] | None = None,
        description: str | None = None,
        reasoning: str = "",
    ) -> dict[str, str]:
        """Put a type before a person, who decides on it."""
        made = await self.brain.suggest_type(name, fields, description, reasoning)
        return {"suggestion": made}

    @route("PUT", "/types/{name}", tolerant=True)
    async def change_type(
        self,
        name: str,
        fields: dict[str, object] | list[object],
        key_strategy: str | None = None,
        description: str | None = None,
    ) -> rows.TypeShown:
        """Give a type these fields in the place of all that it had."""
        await self.brain.set_type(name, fields, key_strategy, description, is_new=False)
        return await self._type(name)

    @route("DELETE", "/types/{name}")
    async def delete_type(self, name: str) -> dict[str, str]:
        """Take a type away that no entity has."""
        return await self.brain.delete_type(name)

    @route("GET", "/entities/by_id")
    async def get_entity(self, id: str) -> dict[str, object]:
        """One entity."""
        return await self._shown(id)

    @route("GET", "/entities")
    async def list_all_entities(
        self,
        type: str | None = None,
        q: Annotated[str, Field(max_length=200)] = "",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> EntityRows:
        """Entities of all types, or of one, by name; `q` is a part of a name or alias."""
        store = self.brain.store
        await store.ready()
        entities = listed(store.index, type, q)
        part = [
            rows.row(entity) async for entity in store.readable(entities[offset : offset + limit])
        ]
        return EntityRows(results=part, count=len(entities), offset=offset)

    @route("GET", "/entities/{type}")
    async def list_entities(self, type: str, limit: Limit = 100, offset: Offset = 0) -> EntityPage:
        """Entities of a type, by name."""
        store = self.brain.store
        await store.ready()
        entities, kind = listed(store.index, type), store.types.by_name.get(type)
        part = [
            rows.flat(one, kind) async for one in store.readable(entities[offset : offset + limit])
        ]
        return EntityPage(results=part, count=len(entities), offset=offset)

    @route("POST", "/entities", tolerant=True)
    async def create_entity(
        self, entity_type: str, data: Data, commit_msg: str | None = None, **rest: object
    ) -> rows.Upserted:
        """Write an entity; one that is there by that name is added to. The text of a new one is
        `body`, in `data` or beside it.
        """
        made = await self.brain.upsert_entity(entity_type, _with_body(data, rest), commit_msg)
        # the annotation is the body's shape
        return Response(status=201 if made["created"] else 200, body=made)  # type: ignore[return-value]

    @route("PUT", "/entities/{id...}", tolerant=True)
    async def change_entity(
        self,
        id: str,
        data: Data,
        commit_msg: str | None = None,
        **rest: object,
    ) -> dict[str, object]:
        """Give an entity's fields these values. Its text is `body`, in `data` or beside it."""
        del commit_msg
        changed = await self.brain.update_entity(id, _with_body(data, rest))
        return {**await self._shown(changed.path), "entity_id": changed.key}

    @route("DELETE", "/entities/{id...}", tolerant=True)
    async def remove_entity(self, id: str, commit_msg: str | None = None) -> dict[str, str]:
        """Remove an entity's file. `parachute undo` brings it back."""
        del commit_msg
        return await self.brain.delete_entity(id)

    @route("GET", "/queries")
    async def list_queries(self) -> dict[str, list[SavedQuery]]:
        """The searches that were kept."""
        return {"queries": (await self._queries())[0]}

    async def _queries(self) -> tuple[list[SavedQuery], list[Finding]]:
        findings: list[Finding] = []
        with reading(queries.PATH, findings), suppress(NotFoundError):
            return queries.read_queries(await self.vault.read(queries.PATH))
        return [], findings

    @route("POST", "/queries")
    async def keep_query(self, body: SavedQuery) -> dict[str, str]:
        """Keep a search."""
        made = ""

        def edit(text: str) -> str:
            nonlocal made
            new, made = queries.with_query(text, body)
            return new

        await self.brain.store.rewrite(queries.PATH, edit)
        return {"id": made}

    @route("DELETE", "/queries/{query_id}")
    async def delete_query(self, query_id: str) -> dict[str, str]:
        """Forget a search."""
        await self.brain.store.rewrite(
            queries.PATH, lambda text: queries.without_query(text, query_id)
        )
        return {"id": query_id}

    @mcp_tool("brain-search")
    async def search(
        self,
        query: str,
        type: str | None = None,
        limit: Limit = 10,
    ) -> list[rows.EntityRow]:
        """Find people, projects and other entities."""
        return await self.brain.search(query, type, limit)

    @route("POST", "/resolve", capability="read")
    @mcp_tool("brain-resolve")
    async def resolve(self, text: str, type: str | None = None) -> rows.Resolved:
        """Which entity a name, alias or id means."""
        return await self.brain.resolve(text, type)

    @route("POST", "/link")
    @mcp_tool("brain-link", writes=True)
    async def link(self, path: str, para_id: str, label: str | None = None) -> rows.Linked:
        """Link an entity or a note to an entity."""
        return await self.brain.link(path, para_id, label)

    @mcp_tool("brain-suggest")
    async def find_mentions(self, text: str) -> list[rows.MentionRow]:
        """Entities that a text names."""
        return await self.brain.suggest(text)

    @mcp_tool("brain-context")
    async def context(self, entity: str, max_tokens: Tokens = 2_000) -> str:
        """An entity's file, relations and recent mentions."""
        return (await self.brain.context(entity, max_tokens))["text"]

    @mcp_tool("brain-types")
    async def types(
        self,
        action: Literal["list", "set", "delete", "suggest"] = "list",
        name: str = "",
        fields: dict[str, object] | list[object] | None = None,
        description: str | None = None,
    ) -> list[rows.TypeShown]:
        """List, set, delete or suggest entity types."""
        if action == "set":
            await self.brain.store.ready()
            is_new = name not in self.brain.store.types.by_name
            await self.brain.set_type(name, fields or {}, None, description, is_new=is_new)
        elif action == "suggest":
            await self.brain.suggest_type(name, fields, description)
        elif action == "delete":
            await self.brain.delete_type(name)
        return await self.brain.types()

    async def _type(self, name: str) -> rows.TypeShown:
        return next(type_ for type_ in await self.brain.types() if type_["name"] == name)

    async def _shown(self, spelling: str) -> dict[str, Json]:
        store = self.brain.store
        entity = await store.read(await store.find(spelling))
        return rows.flat(entity, store.types.by_name.get(entity.type))


def _with_body(data: Data, beside: Data) -> Data:
    text = beside.get("body", beside.get("content"))
    return data if text is None else {**data, "body": text}
