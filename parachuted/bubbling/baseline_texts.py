"""Baseline texts: the texts of watched files, stored before their next change, so that it can be
shown as a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from parachuted.bubbling.watches import WatchRegistry
from parachuted.errors import ParachuteError
from parachuted.events import Change
from parachuted.vault import ObjectStore, VaultIndex, VaultPath, VaultRoot, digest_of

_PIECE = 100
_AT_ONCE = 1_000
_LARGEST = 4 << 20


def store_texts(
    root: VaultRoot,
    objects: ObjectStore,
    texts: Iterable[tuple[VaultPath, str | None, bytes | None]],
) -> None:
    """Store texts by path, digest and, if it is known, content; one that is not there any more
    under its digest is left out. Blocks on the disk.
    """
    objects.see(_missing(root, objects, texts))


def _missing(
    root: VaultRoot,
    objects: ObjectStore,
    texts: Iterable[tuple[VaultPath, str | None, bytes | None]],
) -> Iterator[tuple[str, bytes]]:
    for path, digest, data in texts:
        if digest is None or digest in objects:
            continue
        try:
            text = root.read(path).data if data is None else data
        # gone or unreadable again: the scanner comes by, and the text counts as unknown until then
        except ParachuteError:
            continue
        if len(text) <= _LARGEST and digest_of(text) == digest:
            yield digest, text


@dataclass(slots=True, kw_only=True)
class BaselineTexts:
    """Stores the texts that no watcher has reviewed yet.

    `declared`: watchers whose declaration is new, for `keep_declared`. Storing raises
    StorageFailedError or OSError, and can be repeated.
    """

    root: VaultRoot
    objects: ObjectStore
    index: VaultIndex
    watches: WatchRegistry
    declared: set[str] = field(default_factory=set, init=False)
    _waiting: list[VaultPath] = field(default_factory=list, init=False)
    _first_texts: dict[str, bytes] = field(default_factory=dict, init=False)

    @property
    def has_waiting(self) -> bool:
        """Whether texts wait for `keep_waiting`."""
        return bool(self._waiting)

    def remember(self, changes: Iterable[Change]) -> None:
        """First contact: keep what was read in memory until `keep_watched`."""
        self.declared.clear()
        self._first_texts.update(
            {change.path: change.data for change in changes if change.data is not None}
        )

    async def keep_watched(self, paths: Iterable[VaultPath]) -> None:
        """Store the present texts of those of the files that are watched."""
        paths = list(paths)
        for start in range(0, len(paths), _PIECE):
            await self.keep(self._watched(paths[start : start + _PIECE]))
        self._first_texts = {}

    async def keep_declared(self) -> None:
        """Store the present texts of what new declarations watch; of very many, most wait, so that
        no other change waits for them.

        A daemon that ends meanwhile does it at its next start.
        """
        for watcher in tuple(self.declared):
            watched = await asyncio.to_thread(self.watches.watched_by, watcher)
            await self.keep(watched[:_AT_ONCE])
            self._waiting += watched[_AT_ONCE:]
            self.declared.discard(watcher)

    async def keep_waiting(self) -> None:
        """Store what `keep_declared` left."""
        while self._waiting:
            await self.keep(self._waiting[:_PIECE])
            del self._waiting[:_PIECE]

    async def keep_before(self, changes: Iterable[Change]) -> None:
        """Store what the first contact read of files that change before `keep_watched` gets to
        them.
        """
        paths = [change.source or change.path for change in changes]
        await self.keep(self._watched(path for path in paths if path in self._first_texts))

    async def keep(self, paths: Sequence[VaultPath]) -> None:
        """Store the present texts of these files."""
        for start in range(0, len(paths), _PIECE):
            texts = [
                (path, entry.digest, self._first_texts.get(path))
                for path in paths[start : start + _PIECE]
                if (entry := self.index.get(path))
            ]
            await asyncio.to_thread(store_texts, self.root, self.objects, texts)

    def _watched(self, paths: Iterable[VaultPath]) -> list[VaultPath]:
        return [path for path in paths if self.watches.watchers_of(path)]
