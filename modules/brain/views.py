"""Views: what a caller may know of. Every query starts from one.

The view of a caller who is not limited holds all. That of one who is limited to some paths is made
of the files that it may read, and of nothing else, so that no name, number or order in an answer
depends on the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from parachuted.modules import Finding, VaultAccess

from . import type_file
from .derived import Derived
from .entity import Entity, retyped
from .recall_index import RecallIndex
from .type_file import DEFAULTS, Types

_MOST_VIEWS: Final = 4
_AT_ONCE: Final = 200


class View(Derived):
    """Entities, types, and all that is derived from them.

    `faults` are the files of entities that could not be read whole, by path. `notes` are the
    paths of the other notes that questions find. `changes` grows with each change. `is_whole`: the
    caller may read all.
    """

    def __init__(self, recall: RecallIndex, *, is_whole: bool) -> None:
        super().__init__()
        self.recall, self.is_whole = recall, is_whole
        self.types: Types = DEFAULTS
        self.faults: dict[str, Finding] = {}
        self.notes: set[str] = set()
        self.changes = 0


class Views:
    """The view of each caller: those that are not limited share the whole one."""

    def __init__(
        self, vault: VaultAccess, whole: View, make_recall: Callable[[], RecallIndex]
    ) -> None:
        """`make_recall` makes an empty index for a limited view."""
        self._vault, self.whole, self._make_recall = vault, whole, make_recall
        self._limited: OrderedDict[str, _LimitedView] = OrderedDict()

    async def get(self) -> View:
        """The present caller's."""
        scope = await self._vault.scope()
        if not scope:
            return self.whole
        limited = self._limited.get(scope)
        if limited is None:
            limited = self._limited[scope] = _LimitedView(View(self._make_recall(), is_whole=False))
            while len(self._limited) > _MOST_VIEWS:
                self._limited.popitem(last=False)
        self._limited.move_to_end(scope)
        await limited.follow(self.whole, self._vault)
        return limited.view


class _LimitedView:
    """A view that follows the whole one, as far as some caller may read."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._sources: dict[str, Entity] = {}
        self._following = asyncio.Lock()
        self._seen = -1

    async def follow(self, whole: View, vault: VaultAccess) -> None:
        """Bring it up to date."""
        async with self._following:
            if self._seen != whole.changes:
                seen = whole.changes
                named = dict.fromkeys((type_file.PATH, *whole.index.paths, *whole.notes))
                named |= dict.fromkeys(whole.faults)
                await self._take(whole, set(await vault.readable(list(named))))
                self._seen = seen
            history = whole.mentions.history
            self.view.mentions.history = history.of_names()

    async def _take(self, whole: View, paths: set[str]) -> None:
        view = self.view
        types = whole.types if type_file.PATH in paths else DEFAULTS
        is_retyped, view.types = types is not view.types, types
        wanted = {path: one for path in paths if (one := whole.index.at(path)) is not None}
        view.faults = {path: said for path, said in whole.faults.items() if path in paths}
        view.notes = whole.notes & paths
        for path in self._sources.keys() - wanted.keys():
            del self._sources[path]
            view.index.remove(path)
        new = [
            one for path, one in wanted.items() if is_retyped or self._sources.get(path) is not one
        ]
        if len(new) > _AT_ONCE:
            view.begin_load()
        for number, one in enumerate(new, 1):
            self._sources[one.path] = one
            view.index.put(retyped(one, types.by_folder))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # the loop is everybody's
        if len(new) > _AT_ONCE:
            view.end_load()
        await asyncio.to_thread(_follow, view.recall, whole.recall, wanted.keys() | view.notes)


def _follow(recall: RecallIndex, whole: RecallIndex, keys: Collection[str]) -> None:
    recall.follow(whole, keys)
    while recall.embed():  # what the whole one has no vectors of yet
        pass
