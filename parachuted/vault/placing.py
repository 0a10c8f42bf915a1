"""Placing: a file that came in pieces becomes a file of the vault."""

from __future__ import annotations

from parachuted.vault.author import Author
from parachuted.vault.edit_request import WriteResult
from parachuted.vault.objects import IncomingFile
from parachuted.vault.paths import VaultPath
from parachuted.vault.scanner import NOTE_SUFFIXES
from parachuted.vault.store import Store

_KEPT_BYTES = 1 << 20


def place_incoming(
    store: Store,
    path: VaultPath,
    incoming: IncomingFile,
    author: Author,
    *,
    base: str | None = None,
    is_new: bool = False,
) -> WriteResult:
    """Durably; nothing is merged. Raises ConflictError as `Store.place` does.

    Small files and notes stay kept as bases of merges; large files do not take their room twice.
    """
    digest, is_kept = incoming.digest, False
    with store.objects.needed(digest):
        is_first = incoming.keep()
        try:
            written = store.place(path, digest, author, base=base, is_new=is_new)
            is_kept = path.endswith(NOTE_SUFFIXES) or incoming.size <= _KEPT_BYTES
        finally:
            if is_first and not is_kept:
                store.objects.drop(digest)
    return written
