"""Debouncer: paths to scan again after a delay, since more changes may follow the first hint.

Pure: what was heard, and when, are arguments. Times are the event loop's, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

HintKind = Literal["closed", "open", "gone", "touched"]

_MANY = 20
_ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class DebounceTimes:
    """Delays in seconds.

    `new`: after a new file was closed, since it may be temporary. `gone`: after a file went, since
    many editors remove it briefly. `touched`: after a path of which no more is known. `open`: after
    the last write into a file that stays open. `burst`: how long a storm over one path, or of
    deletions, may delay the scan. `patience`: the same for a file that is always being written.
    `heartbeat`: between checks that the vault is still there, and between walks where hints are
    unavailable. `canary`: between checks that hints still come.
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
    """The last hint for each waiting path, and since when known files are missing."""

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
        """The paths that seem to be missing, for long enough or not."""
        return tuple(self._missing)

    def next_due(self) -> float:
        """When the next scan is due; infinity: nothing waits."""
        return min(self._due.values(), default=math.inf)

    def add(self, path: str, hint: HintKind, now: float) -> None:
        """Delay a path for as long as the hint demands."""
        since = self._since.setdefault(path, now)
        if hint == "closed":
            self._missing.pop(path, None)
            self._written.pop(path, None)
            self._closed.add(path)
            self._due[path] = min(now + self._pace.new, max(since + self._pace.burst, now))
        elif hint == "open":
            self._missing.pop(path, None)
            self._closed.discard(path)
            self._written[path] = now
            self._due[path] = min(now + self._pace.open, max(since + self._pace.patience, now))
        elif hint == "gone":
            self._closed.discard(path)
            self._written.pop(path, None)
            self._miss(path, now)
        else:
            self.again(path, now)

    def again(self, path: str, now: float) -> None:
        """Scan it once more, after a delay."""
        self._since.setdefault(path, now)
        self._due[path] = min(self._due.get(path, math.inf), now + self._pace.touched)

    def take(self, now: float) -> tuple[set[str], set[str]]:
        """The paths that are due: those whose writers finished or were waited for long enough, and
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

    def scanned(self, paths: Iterable[str], now: float) -> None:
        """These need not wait any more, unless new hints came after they were taken."""
        for path in paths:
            if path in self._due:
                self._since[path] = now
            else:
                self.discard(path)

    def discard(self, path: str) -> None:
        """Forget all about a path, except that it is missing."""
        self._due.pop(path, None)
        self._since.pop(path, None)
        self._closed.discard(path)
        self._written.pop(path, None)

    def is_written_since(self, path: str, moment: float) -> bool:
        """Whether a program started writing the file since then and has not closed it yet."""
        return self._written.get(path, -math.inf) >= moment

    def waiting(self) -> Iterator[str]:
        """The paths that are to be scanned and do not seem to be missing."""
        return (path for path in self._due if path not in self._missing)

    def is_gone(self, path: str, now: float, *, may_have_moved: bool) -> bool:
        """Whether a missing path has been missing for long enough; else it waits.

        That takes longer in a storm of deletions, and while it may turn out to be one of the files
        still to be scanned.
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
        """These are not missing, or their removal is settled."""
        for path in paths:
            self._missing.pop(path, None)

    def _miss(self, path: str, now: float) -> None:
        self._since.setdefault(path, now)
        if path not in self._missing:
            self._missing[path] = now
            self._last_missed = now
        self._due[path] = min(self._due.get(path, math.inf), now + self._pace.gone)
