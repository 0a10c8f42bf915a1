"""Graph: what is related to what, as the files say it: directed, typed, with dates.

Derived and in memory. A relationship to something that is not there yet counts when that comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Direction: TypeAlias = Literal["out", "in", "both"]

MOST_DEPTH = 6
MOST_NODES = 2_000


@dataclass(frozen=True, slots=True)
class Node:
    """An entity, or any note that links to one (`type` "")."""

    id: str
    type: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` is related to `target`: `label` as it is written, "" for a plain link.

    `since` and `until` are the first and the last day it held, YYYY-MM-DD; None: open.
    """

    source: str
    target: str
    label: str = ""
    since: str | None = None
    until: str | None = None

    def holds(self, day: str) -> bool:
        return (self.since or "") <= day and (self.until is None or day <= self.until)


@dataclass(frozen=True, slots=True)
class Reached:
    """A node, so many steps away, and the edge that led to it."""

    node: Node
    depth: int
    edge: Edge


class Graph:
    """Nodes by id, and the edges of each in both directions."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._out: dict[str, tuple[Edge, ...]] = {}
        self._in: dict[str, dict[Edge, None]] = {}

    def put(self, node: Node, edges: Iterable[Edge]) -> None:
        """Take up a node with all edges that its file holds, in place of what was known of it.

        Raises ValueError for an edge of another source.
        """
        found = tuple(dict.fromkeys(edges))
        if any(edge.source != node.id for edge in found):
            message = f"an edge of {node.id} has another source"
            raise ValueError(message)
        self.remove(node.id)
        self._nodes[node.id] = node
        if found:
            self._out[node.id] = found
        for edge in found:
            self._in.setdefault(edge.target, {})[edge] = None

    def remove(self, key: str) -> None:
        """Forget a node and its edges; what others say of it stays, for when it comes back."""
        self._nodes.pop(key, None)
        for edge in self._out.pop(key, ()):
            left = self._in[edge.target]
            left.pop(edge, None)
            if not left:
                del self._in[edge.target]

    def traverse(
        self,
        start: str,
        *,
        type: str | None = None,  # noqa: A002
        depth: int = 1,
        direction: Direction = "both",
        on: str | None = None,
    ) -> list[Reached]:
        """What can be reached from `start`, the nearest first, each once, at most 2,000.

        `type` limits what is given, not what is walked through; `on`, a day, limits the edges.
        """
        found: list[Reached] = []
        seen, border = {start}, [start]
        for step in range(1, min(depth, MOST_DEPTH) + 1):
            next_border = []
            for key in border:
                for edge, other in self._beside(key, direction, on):
                    if other in seen or (node := self._nodes.get(other)) is None:
                        continue
                    if len(seen) > MOST_NODES:
                        return found
                    seen.add(other)
                    next_border.append(other)
                    if type is None or node.type == type:
                        found.append(Reached(node, step, edge))
            border = next_border
        return found

    def backlinks(self, key: str) -> list[tuple[Node, Edge]]:
        """Who is related to it by their own file, ordered by name."""
        found = [
            (self._nodes[edge.source], edge)
            for edge, _source in self._beside(key, "in", None)
            if edge.source in self._nodes
        ]
        return sorted(found, key=lambda one: (one[0].name, one[0].id, one[1].label))

    def drawing(
        self,
        *,
        around: str | None = None,
        type: str | None = None,  # noqa: A002
        depth: int = 2,
        limit: int = 300,
        on: str | None = None,
    ) -> tuple[list[tuple[Node, int]], list[Edge], int]:
        """What can be drawn: nodes, each with its number of edges, the edges between them, and how
        many nodes were left out.

        Those around a node, the nearest first; else those with the most edges.
        """
        degrees = Counter(
            {key: len(self._out.get(key, ())) + len(self._in.get(key, ())) for key in self._nodes}
        )
        if around is None:
            chosen = [
                key for key, _count in sorted(degrees.items(), key=lambda one: (-one[1], one[0]))
            ]
        else:
            near = self.traverse(around, depth=depth, on=on)
            chosen = [key for key in [around] if key in self._nodes]
            chosen += [one.node.id for one in near]
        nodes = [
            self._nodes[key]
            for key in chosen
            if type is None or self._nodes[key].type == type or key == around
        ]
        shown = {node.id: node for node in nodes[:limit]}
        edges = [
            edge
            for key in shown
            for edge in self._out.get(key, ())
            if edge.target in shown and (on is None or edge.holds(on))
        ]
        drawn = [(node, degrees[node.id]) for node in shown.values()]
        return drawn, edges, len(nodes) - len(shown)

    def _beside(self, key: str, direction: Direction, on: str | None) -> Iterator[tuple[Edge, str]]:
        """The edges of a node with what is at their other end."""
        found: list[tuple[Edge, str]] = []
        if direction != "in":
            found += [(edge, edge.target) for edge in self._out.get(key, ())]
        if direction != "out":
            found += [(edge, edge.source) for edge in sorted(self._in.get(key, ()), key=_order)]
        return ((edge, other) for edge, other in found if on is None or edge.holds(on))


def _order(edge: Edge) -> tuple[str, str, str, str]:
    """An order that does not depend on which file was read first."""
    return edge.source, edge.label, edge.since or "", edge.until or ""
