"""Bases: the texts that an edit may be based on: earlier texts of the file, here or where it was
before.

All texts are kept under their digests, and what comes of a merge tells of its base. So a digest
alone gives nobody a text: it counts for a path only if that text is known to have stood at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from parachuted.vault.history import History
from parachuted.vault.objects import ObjectStore
from parachuted.vault.root import digest_of
from parachuted.vault.trail import trail_of

PathPredicate: TypeAlias = Callable[[str], bool]


class KnownBases:
    """Asked by the one writer, and by who else merges. Blocks on the disk; threads may share it."""

    def __init__(self, objects: ObjectStore, history: History) -> None:
        self._objects, self._history = objects, history

    def text(self, path: str, digest: str, sees: PathPredicate | None = None) -> bytes | None:
        """The kept text of that digest, if it stood at that path, or, where `sees` sees them, at a
        path that the file had before. Raises StorageFailedError.
        """
        return (
            self._objects.get(digest)
            if self._stood(path, digest) or self._stood_before(path, digest, sees)
            else None
        )

    def keep(self, path: str, data: bytes) -> str:
        """Keep a text for good as one that stood there; returns its digest.

        Raises StorageFailedError.
        """
        digest = self._objects.put(data)
        self._objects.stood([(path, digest)])
        return digest

    def see(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Keep texts, by path, that were only read there, as long as nothing happens to this
        machine. Raises OSError.
        """
        found = [(path, digest_of(data), data) for path, data in texts]
        self._objects.see(
            (digest, data) for _, digest, data in found if digest not in self._objects
        )
        self._objects.stood((path, digest) for path, digest, _ in found)

    def _stood(self, path: str, digest: str) -> bool:
        return self._objects.has_stood(path, digest) or self._history.knows_text(path, digest)

    def _stood_before(self, path: str, digest: str, sees: PathPredicate | None) -> bool:
        if sees is None:
            return False
        places = {version.path for version in trail_of(self._history, path)} - {path}
        return any(self._stood(place, digest) for place in places if sees(place))
