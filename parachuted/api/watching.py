"""Watching: what a caller may have a note watch. An agent reads that, so a `watch:` list must not see more than its writer does."""

from __future__ import annotations

from collections.abc import Callable

from parachuted.bubbling import Pattern, parse_declaration
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.keys import Glob, Grant, Identity
from parachuted.vault import CONTEXT_NAMES, Store, VaultPath, declared_watch, printable

_NOTHING = Grant(alternatives=())


def readable(identity: Identity) -> Grant:
    """What of the vault the caller may read, and so may have notes watch."""
    return identity.grant("vault", "read") or _NOTHING


def refuse_watching_beyond(
    grant: Grant, store: Store, path: VaultPath, edited: Callable[[bytes], bytes], *, was: VaultPath | None = None
) -> None:  # fmt: skip
    """Raises EditRefusedError when the note, once edited, watches what `grant` does not see and it did not watch already.

    A list that reached further before, where the note `was`, may stay, as long as it leaves out no less than it did. Blocks on the disk.
    """
    if grant.alternatives is None:
        return
    try:
        before = store.read(was or path).data
    except NotFoundError:
        before = b""
    now = _patterns(path, edited(before))
    wide = {_meant(pattern): pattern.text for pattern in now if not pattern.excludes and not _is_within(pattern, grant)}
    if not wide:
        return
    then = _patterns(was or path, before)
    left_out = {_meant(pattern) for pattern in then if pattern.excludes} - {_meant(pattern) for pattern in now if pattern.excludes}
    new = [text for meant, text in wide.items() if left_out or meant not in {_meant(one) for one in then if not one.excludes}]
    if new:
        raise EditRefusedError(f"{printable(path)} may not watch {printable(new[0])} by this key, which may not read all of that")


def _patterns(path: VaultPath, data: bytes) -> tuple[Pattern, ...]:
    return parse_declaration(path, list(declared_watch(data)[0])).patterns


def _meant(pattern: Pattern) -> tuple[object, ...]:
    return pattern.segments, pattern.context, pattern.narrowing


def _is_within(pattern: Pattern, grant: Grant) -> bool:
    """Whether every file that the pattern can mean is provably one that the grant sees."""
    names = "/".join(segment if isinstance(segment, str) else segment.text for segment in pattern.segments)
    meant = [f"{names}/{name}" if names else name for name in CONTEXT_NAMES] if pattern.context else [names]
    try:
        globs = [Glob(one) for one in meant]
    except ValueError:
        return False
    return all(any(all(_covers(every, glob) for every in alternative) for alternative in grant.alternatives or ()) for glob in globs)


def _covers(globs: tuple[Glob, ...], wanted: Glob) -> bool:
    return any(glob.covers(wanted) for glob in globs)
