"""Rescue: brings what a program wrote too late into the note that replaced its file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from itertools import chain

from parachuted.errors import ConflictError, NotFoundError, PathRefusedError, StorageFailedError
from parachuted.vault.author import Author
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.store import Store
from parachuted.vault.swap import copy_names
from parachuted.vault.write_journal import new_id


def rescue(store: Store, now: datetime, *, last_call: bool = False) -> list[str]:
    """Save late writes as the person's; call it once a second. Returns what a person should know.

    What cannot be saved now comes again; at the `last_call` nothing is waited for.
    """
    said = []
    with store.late_files(last_call=last_call) as arrived:
        for file, data in arrived:
            with contextlib.suppress(StorageFailedError):
                digest = store.bases.keep(file.path, data)
                text = _bring_in(store, file.path, data, file.digest, now)
                file.digest = digest
                said += [text] if text is not None else []
    return said


def _bring_in(store: Store, path: VaultPath, data: bytes, base: str, now: datetime) -> str | None:
    """Where it clashes, or nothing can be there, put it beside."""
    author = Author(by="person", causes=(new_id("c", now),))
    try:
        # it was saved where the note was then
        store.replace(path, data, author, base=base, sees=lambda _path: True)
    except NotFoundError:
        names: Iterable[str] = chain([path.name], copy_names(path.name, now))
    except (ConflictError, PathRefusedError):
        names = copy_names(path.name, now)
    else:
        return None
    for name in names:
        with contextlib.suppress(ConflictError, PathRefusedError):
            made = store.create(path.folder / name, data, author)
            return (
                f"what a program wrote into {printable(path)} after it was replaced is kept as "
                f"{printable(made.path)}"
            )
    raise StorageFailedError(
        f"no name is free for what a program wrote into {printable(path)} after it was replaced"
    )
