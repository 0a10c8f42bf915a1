"""Debouncer: paths to scan again after a delay, since more changes may follow the first hint.

Pure: it is told what is heard, and when. Times are the event loop's, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Heard = Literal["closed", "open", "gone", "touched"]

_MANY = 20
_ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class DebounceTimes:
    """How long to wait, in seconds.

    `new`: after a new file was closed, for it may be a scrap that is renamed at once. `gone`: after
    a file went, for many editors take it away for a moment. `touched`: after a path about which no
    more is known. `open`: after the last write into a file that stays open. `burst`: how long a
    storm over one path, or of deletions, may put the look off. `patience`: the same for a file that
    is always being written. `heartbeat`: between looks at whether the vault is still there, and
    between walks where hints cannot be had. `canary`: between looks at whether hints still come.
    """

    new: float = 0.1
    gone: float = 0.15
    touched: float = 0.15
    open: float = 2.0
    burst: float = 2.0
    patience: float = 60.0
    heartbeat: float = 5.0
    canary: float = 60.0


class Debouncer:
    """What was heard of each path that waits, and which known files are missing since when."""

    def __init__(self, pace: DebounceTimes) -> None:
        self._pace = pace
        self._due: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._closed: set[str] = set()
        self._written: dict[str, float] = {}
        self._missing: dict[str, float] = {}
        self._last_missed = -math.inf

    def __bool__(self) -> bool:
        return bool(self._due)

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths that are taken to be missing, for long enough or not."""
        return tuple(self._missing)

    def next_due(self) -> float:
        """When something is to be looked at; infinity: nothing waits."""
        return min(self._due.values(), default=math.inf)

    def hear(self, path: str, heard: Heard, now: float) -> None:
        """Hold a path for as long as the hint demands."""
        since = self._since.setdefault(path, now)
        if heard == "closed":
            self._missing.pop(path, None)
            self._written.pop(path, None)
            self._closed.add(path)
            self._due[path] = min(now + self._pace.new, max(since + self._pace.burst, now))
        elif heard == "open":
            self._missing.pop(path, None)
            self._closed.discard(path)
            self._written[path] = now
            self._due[path] = min(now + self._pace.open, max(since + self._pace.patience, now))
        elif heard == "gone":
            self._closed.discard(path)
            self._written.pop(path, None)
            self._miss(path, now)
        else:
            self.again(path, now)

    def again(self, path: str, now: float) -> None:
        """Look at it once more, a moment from now."""
        self._since.setdefault(path, now)
        self._due[path] = min(self._due.get(path, math.inf), now + self._pace.touched)

    def take(self, now: float) -> tuple[set[str], set[str]]:
        """The paths that are due: those whose writers are done or were waited for long enough, and
        the others.
        """
        due = {path for path, moment in self._due.items() if moment <= now}
        for path in due:
            del self._due[path]
        finished = {
            path
            for path in due
            if path in self._closed or now - self._since[path] >= self._pace.patience - _ROUNDING_S
        }
        return finished, due - finished

    def looked(self, paths: Iterable[str], now: float) -> None:
        """These were looked at and need not wait, unless more was heard of them since they were
        taken.
        """
        for path in paths:
            if path in self._due:
                self._since[path] = now
            else:
                self.let_go(path)

    def let_go(self, path: str) -> None:
        """Forget all about a path, but for that it is missing."""
        self._due.pop(path, None)
        self._since.pop(path, None)
        self._closed.discard(path)
        self._written.pop(path, None)

    def is_written_since(self, path: str, moment: float) -> bool:
        """Whether someone was heard to write into the file since then, and not yet to have closed
        it.
        """
        return self._written.get(path, -math.inf) >= moment

    def waiting(self) -> Iterator[str]:
        """The paths that are to be looked at and not taken to be missing."""
        return (path for path in self._due if path not in self._missing)

    def is_gone(self, path: str, now: float, *, may_have_moved: bool) -> bool:
        """Whether a path that is missing now has been so for long enough; else it is held.

        That takes longer in a storm of deletions, and while it may turn out to be one of the files
        that are still to be looked at.
        """
        age = now - self._missing.get(path, now) + _ROUNDING_S
        is_storm = (
            len(self._missing) >= _MANY and now - self._last_missed + _ROUNDING_S < self._pace.gone
        )
        if age >= (self._pace.burst if is_storm or may_have_moved else self._pace.gone):
            return True
        self._miss(path, now)
        return False

    def found(self, paths: Iterable[str]) -> None:
        """These are not missing, or their absence is settled."""
        for path in paths:
            self._missing.pop(path, None)

    def _miss(self, path: str, now: float) -> None:
        self._since.setdefault(path, now)
        if path not in self._missing:
            self._missing[path] = now
            self._last_missed = now
        self._due[path] = min(self._due.get(path, math.inf), now + self._pace.gone)
