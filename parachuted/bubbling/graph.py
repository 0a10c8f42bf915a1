"""Watch graph: which watchers a change reaches, and who waits for whom.

An edge runs from a path to each watcher of it. Notes that watch each other in a ring count as one
place, so that an order exists for every graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

Downstream = Callable[[str], Iterable[str]]
_Edges = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeStep:
    """A watcher that a change can wake, its distance in notes, and the nearest that leads to it."""

    watcher: str
    depth: int
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """All that one change can wake, upstream first; `loops` are notes that wake one another."""

    steps: tuple[CascadeStep, ...]
    loops: tuple[tuple[str, ...], ...]


def reachable(start: str, downstream: Downstream) -> Cascade:
    """`start` itself is among the steps only where a cycle leads back to it."""
    edges, steps = _explored(start, downstream)
    rings = [ring for ring in _rings(edges) if ring != (start,)]
    ordered = _ordered(rings, edges, lambda path: (steps[path].depth, path))
    return Cascade(
        steps=tuple(steps[path] for ring in ordered for path in ring),
        loops=tuple(ring for ring in ordered if len(ring) > 1),
    )


class WatchGraph:
    """Which note is upstream of which; build it again when a declaration changes.

    What is downstream of a place is computed on demand, as an integer with a bit per place: n
    watchers in a single chain hold n²/16 bytes (6 MB for 10,000).
    """

    def __init__(self, edges: _Edges) -> None:
        rings = _rings(edges)
        self._place = {path: place for place, ring in enumerate(rings) for path in ring}
        self._next = [self._places_after(ring, edges) for ring in rings]
        self._below: dict[int, int] = {}

    def blockers(self, watchers: Collection[str]) -> dict[str, str]:
        """For each of these that should wait for another of them, one such."""
        here = [
            (watcher, place)
            for watcher in watchers
            if (place := self._place.get(watcher)) is not None
        ]
        below = 0
        for place in {place for _watcher, place in here}:
            below |= self._places_below(place)
        blocked = [(watcher, place) for watcher, place in here if below >> place & 1]
        return {
            lower: next(upper for upper, above in here if self._places_below(above) >> place & 1)
            for lower, place in blocked
        }

    def _places_after(self, ring: tuple[str, ...], edges: _Edges) -> tuple[int, ...]:
        places = {self._place[after] for path in ring for after in edges[path]} - {
            self._place[ring[0]]
        }
        # so that the most downstream, with the lowest number, is worked out first
        return tuple(sorted(places, reverse=True))

    def _places_below(self, place: int) -> int:
        waiting = [place]
        while waiting:
            here = waiting[-1]
            missing = (
                []
                if here in self._below
                else [after for after in self._next[here] if after not in self._below]
            )
            waiting += missing
            if not missing:
                self._keep_below(waiting.pop())
        return self._below[place]

    def _keep_below(self, place: int) -> None:
        if place not in self._below:
            below = 0
            for after in self._next[place]:
                below |= self._below[after] | 1 << after
            self._below[place] = below


def woken_by(path: str, downstream: Downstream) -> tuple[str, ...]:
    return tuple(sorted(set(downstream(path)) - {path}))


def _explored(start: str, downstream: Downstream) -> tuple[_Edges, dict[str, CascadeStep]]:
    edges: dict[str, tuple[str, ...]] = {}
    steps: dict[str, CascadeStep] = {}
    level, depth = [start], 0
    while level:
        depth += 1
        woken = []
        for path in level:
            edges[path] = woken_by(path, downstream)
            for watcher in edges[path]:
                if watcher not in steps:
                    steps[watcher] = CascadeStep(watcher=watcher, depth=depth, via=path)
                    woken.append(watcher)
        level = woken
    return edges, steps


def _rings(edges: _Edges) -> list[tuple[str, ...]]:
    """The strongly connected components, downstream first (Tarjan, with its own stack)."""
    found: list[tuple[str, ...]] = []
    low: dict[str, int] = {}  # the earliest place in `open_` that a path leads back to
    open_: list[str] = []
    closed: set[str] = set()
    for root in edges:
        if root in low:
            continue
        walk = [(root, len(open_), iter(edges[root]))]
        low[root] = len(open_)
        open_.append(root)
        while walk:
            path, place, rest = walk[-1]
            after = next((name for name in rest if name not in closed), None)
            if after is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[path])
                if low[path] == place:
                    found.append(tuple(open_[place:]))
                    closed.update(open_[place:])
                    del open_[place:]
            elif after in low:
                low[path] = min(low[path], low[after])
            else:
                low[after] = len(open_)
                walk.append((after, len(open_), iter(edges[after])))
                open_.append(after)
    return found


def _ordered(
    rings: list[tuple[str, ...]], edges: _Edges, rank: Callable[[str], tuple[int, str]]
) -> list[tuple[str, ...]]:
    """Upstream first; among those that are free to go, and within each, by rank."""
    members = [tuple(sorted(ring, key=rank)) for ring in rings]
    place = {path: number for number, ring in enumerate(members) for path in ring}
    after = [
        {place[below] for path in ring for below in edges[path]} - {number}
        for number, ring in enumerate(members)
    ]
    waits = [0] * len(members)
    for below in (number for ring in after for number in ring):
        waits[below] += 1
    free = [(rank(ring[0]), number) for number, ring in enumerate(members) if not waits[number]]
    heapq.heapify(free)
    ordered = []
    while free:
        number = heapq.heappop(free)[1]
        ordered.append(members[number])
        for below in after[number]:
            waits[below] -= 1
            if not waits[below]:
                heapq.heappush(free, (rank(members[below][0]), below))
    return ordered
