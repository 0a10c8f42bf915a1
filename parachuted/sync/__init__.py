"""Sync: what a device asks of the vault: its files, its changes, and texts to write back."""

from parachuted.sync.listing import (
    BINARY_SUFFIXES,
    FileDigests,
    ListedFile,
    ListingQuery,
    list_files,
)
from parachuted.sync.putting import PutResult, can_be_merged, put_whole

__all__ = [
    "BINARY_SUFFIXES",
    "FileDigests",
    "ListedFile",
    "ListingQuery",
    "PutResult",
    "can_be_merged",
    "list_files",
    "put_whole",
]
