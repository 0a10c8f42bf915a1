"""Plan: which runs a change of a file would start, without starting them."""

from __future__ import annotations

from dataclasses import dataclass

from parachuted.bubbling.graph import reachable
from parachuted.bubbling.watches import WatchRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One watcher that would wake: its distance in notes, the file and the patterns that
    wake it.
    """

    watcher: str
    depth: int
    because: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """All runs that one change of `path` can lead to, in order; never more.

    `loops`: notes that wake each other in a cycle.

    `most_cost_usd` is their maximum cost in US dollars.
    """

    path: str
    runs: tuple[PlannedRun, ...]
    loops: tuple[tuple[str, ...], ...]
    most_cost_usd: float


def plan_for(path: str, watches: WatchRegistry, *, most_cost_usd: float) -> ChangePlan:
    """The plan for a change of `path`; `most_cost_usd` is the limit of one run.

    A watcher's own change can wake it again only through others, so it is counted when a cycle
    leads back to it.
    """
    cascade = reachable(path, watches.downstream)
    runs = tuple(
        PlannedRun(
            watcher=step.watcher,
            depth=step.depth,
            because=step.via,
            patterns=_patterns(step.via, step.watcher, watches),
        )
        for step in cascade.steps
    )
    return ChangePlan(
        path=path, runs=runs, loops=cascade.loops, most_cost_usd=len(runs) * most_cost_usd
    )


def _patterns(path: str, watcher: str, watches: WatchRegistry) -> tuple[str, ...]:
    return tuple(
        pattern.text
        for match in watches.watchers_of(path)
        if match.watcher == watcher
        for pattern in match.patterns
    )
