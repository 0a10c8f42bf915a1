"""Reach: what a note watches beyond what its writer may read.

An agent reads what is watched, so a list must not see more than they do.
"""

from __future__ import annotations

from parachuted.bubbling.patterns import WatchPattern, parse_declaration
from parachuted.keys import AccessGrant, PathGlob
from parachuted.vault import CONTEXT_NAMES, VaultPath, declared_watch


def watched_beyond(
    grant: AccessGrant,
    path: VaultPath,
    before: bytes,
    after: bytes,
    *,
    was: VaultPath | None = None,
) -> str | None:
    """A pattern that the note `after` watches by, beyond what `grant` sees, and that it did not
    watch by `before`, where it `was`.

    A list that reached further before may stay, if it excludes no less than it did.
    """
    if grant.alternatives is None:
        return None
    now = _patterns(path, after)
    wide = {
        _meant(pattern): pattern.text
        for pattern in now
        if not pattern.excludes and not _is_within(pattern, grant)
    }
    if not wide:
        return None
    then = _patterns(was or path, before)
    left_out = {_meant(pattern) for pattern in then if pattern.excludes} - {
        _meant(pattern) for pattern in now if pattern.excludes
    }
    known = {_meant(pattern) for pattern in then if not pattern.excludes}
    return next((text for meant, text in wide.items() if left_out or meant not in known), None)


def _patterns(path: VaultPath, data: bytes) -> tuple[WatchPattern, ...]:
    return parse_declaration(path, list(declared_watch(data)[0])).patterns


def _meant(pattern: WatchPattern) -> tuple[object, ...]:
    return (
        pattern.segments,
        pattern.context,
        pattern.narrowing,
        pattern.query and pattern.query.text,
    )


def _is_within(pattern: WatchPattern, grant: AccessGrant) -> bool:
    """Whether every file that the pattern can match is provably one that the grant sees; a query
    can match any.
    """
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
