"""Index entries that differ from others."""

from __future__ import annotations

from parachuted.vault import IndexEntry

_NAMES = ("mtime_ns", "ctime_ns", "size", "inode", "digest")


def changed(entry: IndexEntry, **values: int | str | None) -> IndexEntry:
    """The same entry with these values."""
    return IndexEntry(**dict(zip(_NAMES, entry.values(), strict=True)) | values)
