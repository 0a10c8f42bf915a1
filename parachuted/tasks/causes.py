"""Causes: one person's change and all that follows from it.

Each wakes a watcher at most once, so everything halts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from parachuted.state import StateStore
from parachuted.vault import printable

_REMEMBERED = 5000
_FORGOTTEN_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What started it: `kind` is `change` or `request`, `path` the first file concerned, `files`
    their number.
    """

    id: str
    kind: str
    path: str
    files: int
    at: datetime


class Causes:
    """The causes that may wake a watcher, and whom each has woken.

    Changes join the state's open batch.
    """

    def __init__(self, state: StateStore) -> None:
        self._table = state.table("causes")
        self._wakings = state.table("wakings")
        self._woken: dict[str, set[str]] = {}
        self._load()
        state.on_undone(self._load)

    def open(self, cause: Cause) -> None:
        """Remember a cause; idempotent."""
        if self._table.take(cause.id) is None:
            self._table.put(
                cause.id,
                {
                    "kind": cause.kind,
                    "path": cause.path,
                    "files": cause.files,
                    "at": cause.at.isoformat(),
                },
            )
            self._woken.setdefault(cause.id, set())

    def get(self, cause: str) -> Cause | None:
        """The cause, if it is remembered."""
        row = self._table.take(cause)
        if row is None:
            return None
        return Cause(
            id=cause,
            kind=row["kind"],
            path=row["path"],
            files=row["files"],
            at=datetime.fromisoformat(row["at"]),
        )

    def root_of(self, cause: str) -> str | None:
        """The file that a cause began with, as it is printed."""
        found = self.get(cause)
        return None if found is None else printable(found.path)

    def that_may_wake(self, watcher: str, causes: Iterable[str]) -> tuple[str, ...]:
        """Those of the causes that have not woken the watcher yet."""
        return tuple(cause for cause in causes if watcher not in self._woken.get(cause, ()))

    def wake(self, watcher: str, causes: Iterable[str]) -> None:
        """Remember that these causes have woken the watcher; also unknown ones, or they would go
        round for ever.
        """
        for cause in causes:
            woken = self._woken.setdefault(cause, set())
            if watcher not in woken:
                self._wakings.put(f"{cause}\t{watcher}", {"cause": cause, "watcher": watcher})
                woken.add(watcher)

    def rename(self, watcher: str, now: str) -> None:
        """A watcher has another path."""
        for cause, woken in self._woken.items():
            if watcher in woken:
                self.wake(now, (cause,))

    def forget_old(self, needed: Callable[[], Collection[str]]) -> None:
        """Drop the oldest beyond some thousands, a few at a time, but none that is `needed`."""
        excess = len(self._woken) - _REMEMBERED
        if excess <= 0:
            return
        kept, rows = needed(), 0
        for cause in [cause for cause in self._woken if cause not in kept][:excess]:
            rows += 1 + len(self._woken[cause])
            self._forget(cause)
            if rows > _FORGOTTEN_AT_ONCE:
                return

    def _forget(self, cause: str) -> None:
        for watcher in self._woken.pop(cause):
            self._wakings.drop(f"{cause}\t{watcher}")
        self._table.drop(cause)

    def _load(self) -> None:
        self._woken = {cause: set() for cause, _row in self._table.items()}
        for row in self._wakings:
            self._woken.setdefault(row["cause"], set()).add(row["watcher"])
