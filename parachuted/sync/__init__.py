"""Sync: what a device asks of the vault: its files, its changes, and texts to write back."""

from parachuted.sync.deletions import DeletionCounter
from parachuted.sync.digests import FileDigests
from parachuted.sync.listing import (
    BINARY_SUFFIXES,
    FolderListing,
    ListingQuery,
    ListingRow,
    ListingView,
    VisibleFiles,
)
from parachuted.sync.putting import PutResult, can_be_merged, put_whole

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
