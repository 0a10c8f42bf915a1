"""Deletions: limits how much of the vault a caller deletes in a short time, so that a faulty device
is stopped.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timedelta

_WINDOW = timedelta(minutes=10)
_SHARE = 5
_FEW = 10
_MOST_CALLERS = 1_000


class DeletionCounter:
    """Counts what each caller deletes. `clock` is one that no jump of the wall clock moves."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._recent: OrderedDict[str, deque[tuple[datetime, int]]] = OrderedDict()

    def needs_confirming(self, caller: str, count: int, files: int) -> bool:
        """Whether so many more are over a fifth of the vault's files: at once, or, past ten, within
        ten minutes.
        """
        recent = self._count(caller)
        at_once = count > 1 and count * _SHARE > files
        in_pieces = recent + count > _FEW and (recent + count) * _SHARE > files + recent
        return at_once or (count > 0 and in_pieces)

    def remember(self, caller: str, count: int) -> None:
        """So many are deleted."""
        self._recent.setdefault(caller, deque()).append((self._clock(), count))
        self._recent.move_to_end(caller)
        while len(self._recent) > _MOST_CALLERS:
            self._recent.popitem(last=False)

    def _count(self, caller: str) -> int:
        recent, since = self._recent.get(caller, deque()), self._clock() - _WINDOW
        while recent and recent[0][0] < since:
            recent.popleft()
        return sum(count for _at, count in recent)
