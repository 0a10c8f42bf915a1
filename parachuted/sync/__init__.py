"""Sync: what a device asks of the vault: what there is, what changed, and texts that come back changed."""

from parachuted.sync.deletions import Deletions
from parachuted.sync.digests import Digests
from parachuted.sync.listing import BINARY_SUFFIXES, Asked, Part, Row, Sees, View
from parachuted.sync.putting import Put, can_be_merged, put_whole

__all__ = [
    "BINARY_SUFFIXES",
    "Asked",
    "Deletions",
    "Digests",
    "Part",
    "Put",
    "Row",
    "Sees",
    "View",
    "can_be_merged",
    "put_whole",
]
