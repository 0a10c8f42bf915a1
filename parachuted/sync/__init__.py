"""Sync: what a device asks of the vault: its files, its changes, and texts to write back."""

from parachuted.sync.listing import (
    BINARY_SUFFIXES,
    FileDigests,
    FolderListing,
    ListingQuery,
    ListingRow,
    ListingView,
    VisibleFiles,
)
from parachuted.sync.putting import DeletionCounter, PutResult, can_be_merged, put_whole

__all__ = [
    "BINARY_SUFFIXES",
    "DeletionCounter",
    "FileDigests",
    "FolderListing",
    "ListingQuery",
    "ListingRow",
    "ListingView",
    "PutResult",
    "VisibleFiles",
    "can_be_merged",
    "put_whole",
]
