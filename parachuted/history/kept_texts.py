"""Kept texts: which of the texts that are kept are still needed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from parachuted.bubbling import PendingChanges
from parachuted.suggestions import Suggestions
from parachuted.vault import ObjectStore, VaultIndex

_FOLDERS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTexts:
    index: VaultIndex
    reviews: PendingChanges
    suggestions: Suggestions
    objects: ObjectStore

    async def needed(self) -> set[str]:
        """The digests of the vault's texts, and of those that reviews and suggestions compare with.

        Reviews come last: a text that changes meanwhile is among theirs by then.
        """
        needed: set[str] = set()
        for number, folder in enumerate(self.index.all_folders()):
            needed |= self._digests(folder)
            if number % _FOLDERS_AT_ONCE == 0:
                await asyncio.sleep(0)
        needed |= self.suggestions.bases()
        return needed | self.reviews.digests()

    def forget_unneeded(self) -> None:
        """Drop the texts that no review compares with. Blocks; call it before changes are
        followed.
        """
        present = set[str]().union(*map(self._digests, self.index.all_folders()))
        self.objects.forget_seen(present | self.reviews.digests())

    def _digests(self, folder: str) -> set[str]:
        """Of the notes directly in that folder."""
        entries = self.index.entries(folder).values()
        return {entry.digest for entry in entries if entry.digest is not None}
