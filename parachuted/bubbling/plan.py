"""Plan: which runs a change would start, and which watched files a text would reach."""

from __future__ import annotations

from dataclasses import dataclass

from parachuted.bubbling.graph import reachable
from parachuted.bubbling.patterns import WatchPattern, parse_declaration
from parachuted.bubbling.watches import WatchRegistry
from parachuted.keys import AccessGrant, PathGlob
from parachuted.vault import CONTEXT_NAMES, PathText, VaultPath, declared_watch


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A watcher that would wake, its distance in notes, and the file and patterns that wake it."""

    watcher: PathText
    depth: int
    because: PathText
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """All runs that one change of `path` can lead to; `loops`: notes that wake each other."""

    path: PathText
    most_runs: int
    most_cost_usd: float
    runs: tuple[PlannedRun, ...]
    loops: tuple[tuple[PathText, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedPlan(ChangePlan):
    cause: str
    tasks: tuple[str, ...]


def plan_for(
    path: str, watches: WatchRegistry, *, most_cost_usd: float, looks: bool = False
) -> ChangePlan:
    """`most_cost_usd` is the limit of one run. `looks`: it also looks at what it watches itself."""
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
    own = watches.of(path) if looks else None
    if own is not None and all(run.watcher != path for run in runs):
        patterns = tuple(pattern.text for pattern in own.patterns)
        runs = (PlannedRun(watcher=path, depth=0, because=path, patterns=patterns), *runs)
    return ChangePlan(
        path=path,
        most_runs=len(runs),
        most_cost_usd=round(len(runs) * most_cost_usd, 4),
        runs=runs,
        loops=cascade.loops,
    )


def _patterns(path: str, watcher: str, watches: WatchRegistry) -> tuple[str, ...]:
    return tuple(
        pattern.text
        for match in watches.watchers_of(path)
        if match.watcher == watcher
        for pattern in match.patterns
    )


def watched_beyond(
    grant: AccessGrant,
    path: VaultPath,
    before: bytes,
    after: bytes,
    *,
    was: VaultPath | None = None,
) -> str | None:
    """A pattern by which the note newly watches more than `grant` sees.

    A list that reached further before may stay, if it excludes no less than it did.
    """
    if grant.alternatives is None:
        return None
    now = _reached_patterns(path, after)
    wide = {
        _meant(pattern): pattern.text
        for pattern in now
        if not pattern.excludes and not _is_within(pattern, grant)
    }
    if not wide:
        return None
    then = _reached_patterns(was or path, before)
    left_out = {_meant(pattern) for pattern in then if pattern.excludes} - {
        _meant(pattern) for pattern in now if pattern.excludes
    }
    known = {_meant(pattern) for pattern in then if not pattern.excludes}
    return next((text for meant, text in wide.items() if left_out or meant not in known), None)


def _reached_patterns(path: VaultPath, data: bytes) -> tuple[WatchPattern, ...]:
    return parse_declaration(path, list(declared_watch(data)[0])).patterns


def _meant(pattern: WatchPattern) -> tuple[object, ...]:
    return (
        pattern.segments,
        pattern.context,
        pattern.narrowing,
        pattern.query and pattern.query.text,
    )


def _is_within(pattern: WatchPattern, grant: AccessGrant) -> bool:
    """Whether the grant provably sees every file that it can match; a query can match any."""
    if pattern.query is not None:
        return False
    names = "/".join(
        segment if isinstance(segment, str) else segment.text for segment in pattern.segments
    )
    meant = (
        [f"{names}/{name}" if names else name for name in CONTEXT_NAMES]
        if pattern.context
        else [names]
    )
    try:
        globs = [PathGlob(one) for one in meant]
    except ValueError:
        return False
    return all(
        any(
            all(_covers(every, glob) for every in alternative)
            for alternative in grant.alternatives or ()
        )
        for glob in globs
    )


def _covers(globs: tuple[PathGlob, ...], wanted: PathGlob) -> bool:
    return any(glob.covers(wanted) for glob in globs)
