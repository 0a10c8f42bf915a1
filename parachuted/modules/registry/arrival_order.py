"""The order in which modules start, so that an interface's users find it, and which module
came first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from parachuted.errors import StorageFailedError
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.state import StateStore

_TABLE = "module_order"


def waves(ready: Iterable[ApprovedModule]) -> list[list[ApprovedModule]]:
    """Groups to start one after the other, each at once.

    Modules in a cycle come last, together.
    """
    left = list(ready)
    found: list[list[ApprovedModule]] = []
    while left:
        offered = {
            name: [one.name for one in left if name in one.manifest.provides]
            for one in left
            for name in one.manifest.provides
        }
        free = [one for one in left if not _awaited(one, offered)] or left
        found.append(free)
        started = {one.name for one in free}
        left = [one for one in left if one.name not in started]
    return found


def _awaited(one: ApprovedModule, offered: dict[str, list[str]]) -> bool:
    """Whether a module that has not started yet provides what it uses."""
    return any(
        provider != one.name
        for name in one.manifest.optional_requires
        for provider in offered.get(name, ())
    )


class ArrivalOrder:
    """In which order modules came, over all restarts: modules.yaml is a person's, who may
    sort it.
    """

    def __init__(self, state: StateStore | None) -> None:
        self._table = state.table(_TABLE) if state is not None else None
        self._ranks = (
            {name: int(str(record["rank"])) for name, record in self._table.items()}
            if self._table is not None
            else {}
        )

    def rank(self, name: str) -> int:
        """Its place in the order of first approvals; lower is earlier."""
        if name not in self._ranks:
            self._ranks[name] = max(self._ranks.values(), default=-1) + 1
            if self._table is not None:
                with suppress(
                    StorageFailedError
                    # the disk refuses, which is told elsewhere: until the next start it is known
                    # here
                ):
                    self._table.put(name, {"rank": self._ranks[name]})
        return self._ranks[name]
