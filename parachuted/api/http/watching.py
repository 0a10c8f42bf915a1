"""Watching: what a caller may have a note watch.

An agent reads that, so a `watch:` list must not see more than its writer does.
"""

from __future__ import annotations

from collections.abc import Callable

from parachuted.bubbling import watched_beyond
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.history import RefuseText
from parachuted.keys import AccessGrant, Identity
from parachuted.vault import Store, VaultPath, printable

_NOTHING = AccessGrant(alternatives=())


def readable(identity: Identity) -> AccessGrant:
    """What of the vault the caller may read, and so may have notes watch."""
    return identity.grant("vault", "read") or _NOTHING


def refuse_watching_beyond(
    grant: AccessGrant,
    store: Store,
    path: VaultPath,
    edited: Callable[[bytes], bytes],
    *,
    was: VaultPath | None = None,
) -> None:
    """Raises EditRefusedError when the note, once edited, watches what `grant` does not see and it
    did not watch already.

    A list that reached further before, where the note `was`, may stay, as long as it leaves out no
    less than it did. Blocks on the disk.
    """
    if grant.alternatives is None:
        return
    try:
        before = store.read(was or path).data
    except NotFoundError:
        before = b""
    new = watched_beyond(grant, path, before, edited(before), was=was)
    if new is not None:
        raise EditRefusedError(
            f"{printable(path)} may not watch {printable(new)} by this key, which may not read "
            "all of that"
        )


def refusing_to_watch_beyond(grant: AccessGrant, store: Store) -> RefuseText:
    """The same of a text that is to come back, by an undo or a restore."""
    return lambda path, text, was: refuse_watching_beyond(
        grant, store, path, lambda _now: text, was=was
    )
