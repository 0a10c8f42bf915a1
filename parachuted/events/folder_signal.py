"""Folder signal: says when something in a few folders may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from parachuted.events.watcher import make_watcher


class FolderSignal:
    """Watches folders below `root`, by relative name ("" for itself).

    A hint only: `wait` returns after `longest_s` anyway, or `shortest_s` where nothing is watched.
    """

    def __init__(
        self, root: Path, folders: Iterable[str], *, shortest_s: float, longest_s: float
    ) -> None:
        self._folders, self._shortest_s, self._longest_s = tuple(folders), shortest_s, longest_s
        self._changed = asyncio.Event()
        self._watcher = make_watcher(root)
        self._watcher.start(lambda _hints: self._changed.set())
        self._is_watched = self._enter()

    async def wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_s if self._is_watched else self._shortest_s):
                await self._changed.wait()
        self._changed.clear()
        # before anyone looks, so that what is made in a new folder meanwhile is heard
        self._is_watched = self._enter()

    def close(self) -> None:
        self._watcher.close()

    def _enter(self) -> bool:
        try:
            for folder in self._folders:
                self._watcher.enter(folder)
        except OSError:
            return False
        return True
