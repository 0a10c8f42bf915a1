"""Graph: what is related to what, as the files say it: directed, with labels and dates.

Edges are read from the entities for one question, so that nothing has to follow their changes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .entity import ALWAYS, Entity, Period
from .entity_index import EntityIndex

Direction: TypeAlias = Literal["out", "in", "both"]

MOST_DEPTH = 6
MOST_NODES = 2_000
_AT_ONCE = 200  # entities, some 5 ms


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    label: str = ""
    period: Period = ALWAYS

    def holds(self, day: str | None) -> bool:
        return day is None or self.period.holds(day)


@dataclass(frozen=True, slots=True)
class Reached:
    entity: Entity
    depth: int
    edge: Edge


class Graph:
    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self._out: dict[str, tuple[Edge, ...]] = {}

    def traverse(
        self,
        start: Entity,
        *,
        type: str | None = None,  # noqa: A002
        depth: int = 1,
        direction: Direction = "both",
        on: str | None = None,
    ) -> list[Reached]:
        """The nearest first, each once, at most 2,000; `type` limits the result, not the walk."""
        reached_entities: list[Reached] = []
        seen, border = {start.path}, [start]
        for step in range(1, min(depth, MOST_DEPTH) + 1):
            next_border = []
            for entity in border:
                for edge, other in self._beside(entity, direction):
                    if other.path in seen or not edge.holds(on):
                        continue
                    if len(seen) > MOST_NODES:
                        return reached_entities
                    seen.add(other.path)
                    next_border.append(other)
                    if type is None or other.type == type:
                        reached_entities.append(Reached(other, step, edge))
            border = next_border
        return reached_entities

    def backlinks(self, entity: Entity) -> list[tuple[Entity, Edge]]:
        found = [(other, edge) for edge, other in self._beside(entity, "in")]
        return sorted(found, key=lambda link: (link[0].name, link[0].path, link[1].label))

    async def drawing(
        self,
        *,
        around: Entity | None = None,
        type: str | None = None,  # noqa: A002
        depth: int = 2,
        limit: int = 300,
        on: str | None = None,
    ) -> tuple[list[tuple[Entity, int]], list[Edge], int]:
        """Entities with their numbers of edges, the edges between them, how many were left out."""
        if around is None:
            degrees = Counter[str]()
            async for entity in _paced(self._index):
                for edge in self._edges(entity):
                    degrees.update((edge.source, edge.target))
            chosen = sorted(self._index, key=lambda entity: (-degrees[entity.path], entity.path))
        else:
            near = self.traverse(around, depth=depth, on=on)
            chosen = [around, *(reached.entity for reached in near)]
        wanted = [entity for entity in chosen if type in {None, entity.type} or entity is around]
        nodes = {entity.path: entity for entity in wanted[:limit]}
        drawn = [
            (entity, sum(1 for _ in self._beside(entity, "both")))
            async for entity in _paced(nodes.values())
        ]
        between = [
            edge
            for entity in nodes.values()
            for edge in self._edges(entity)
            if edge.target in nodes and edge.holds(on)
        ]
        return drawn, between, len(wanted) - len(nodes)

    def _beside(self, entity: Entity, direction: Direction) -> Iterator[tuple[Edge, Entity]]:
        if direction != "in":
            for edge in self._edges(entity):
                if (other := self._index.at(edge.target)) is not None:
                    yield edge, other
        if direction != "out":
            for other in self._index.linking(entity):
                edges = [edge for edge in self._edges(other) if edge.target == entity.path]
                for edge in sorted(edges, key=_order):
                    yield edge, other

    def _edges(self, entity: Entity) -> tuple[Edge, ...]:
        if entity.path not in self._out:
            found = [(link, self._index.linked(link.target)) for link in entity.relationships]
            edges = (
                Edge(entity.path, to.path, link.label, link.period)
                for link, to in found
                if to and to.path != entity.path
            )
            self._out[entity.path] = tuple(dict.fromkeys(edges))
        return self._out[entity.path]


async def _paced(entities: Iterable[Entity]) -> AsyncIterator[Entity]:
    """With pauses, so that ten thousand do not hold up the event loop."""
    for number, entity in enumerate(entities, 1):
        yield entity
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)


def _order(edge: Edge) -> tuple[str, str, str]:
    return edge.label, edge.period.since or "", edge.period.until or ""
