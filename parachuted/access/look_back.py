"""Look back: finds the notes that declare an untrusted origin, in a vault that was used before
origins were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from parachuted.access.origins import Origins
from parachuted.errors import ParachuteError
from parachuted.state import StateStore
from parachuted.vault import (
    NOTE_SUFFIXES,
    IndexEntry,
    VaultIndex,
    VaultPath,
    VaultRoot,
    declared_origin,
)

_HEAD = 256 << 10
_AT_ONCE = 500
_TABLE, _KEY = "control", "origins"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A `Sighting` of an unchanged note."""

    path: str
    new: IndexEntry
    origin: object
    old: IndexEntry | None = None
    source: str | None = None
    data: bytes | None = None


def is_looked_back(state: StateStore) -> bool:
    """Whether this vault was searched already."""
    return state.table(_TABLE).take(_KEY) is not None


def set_looked_back(state: StateStore, at: datetime) -> None:
    """Record that it was searched, or that there was nothing to search. Raises
    StorageFailedError.
    """
    state.table(_TABLE).put(_KEY, {"at": at.isoformat()})


def look_back(
    origins: Origins, root: VaultRoot, index: VaultIndex, paths: Iterable[VaultPath]
) -> None:
    """Read the beginnings of those notes.

    Blocks on the disk, 50 µs per note. Raises StorageFailedError.
    """
    notes = (path for path in paths if path.endswith(NOTE_SUFFIXES))
    while piece := list(islice(notes, _AT_ONCE)):
        origins.notice(
            [found for path in piece if (found := _declaring(root, index, path)) is not None]
        )


def _declaring(root: VaultRoot, index: VaultIndex, path: VaultPath) -> _Known | None:
    entry = index.get(path)
    if entry is None:
        return None
    try:
        with root.straight():
            data, _size = root.read_head(path, _HEAD)
    except ParachuteError:  # it is gone, or a link by now, which the next scan sees
        return None
    origin = declared_origin(data)
    return None if not origin else _Known(path=path, new=entry, origin=origin)
