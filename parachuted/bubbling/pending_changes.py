"""Pending changes: for each watcher, the files whose current text it has not seen, and the text it
saw last.

Only open differences are kept: a watcher has seen everything else. So first contact with a vault
costs nothing, and a lost table means only that differences are forgotten, not that work is
invented.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime

from parachuted.state import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """One open difference.

    `base`: digest of the text last seen (None: no file); `asked`: a person requested a review,
    changed or not.

    With the watcher itself as `path` it requests a review of everything that it watches. `source`
    is where the file was when it was last seen under another path; `target` where it has been
    moved, where this watcher does not watch it; `reviewing` the digest that an agent is reviewing
    ("": no file). `is_in_conflict`: the current text has conflict markers, and is shown to no agent
    until they are resolved.
    """

    watcher: str
    path: str
    base: str | None
    since: datetime
    source: str | None = None
    asked: bool = False
    reviewing: str | None = None
    is_in_conflict: bool = False
    target: str | None = None

    @property
    def is_of_all(self) -> bool:
        """Whether it is about everything that the watcher watches, and not about one file."""
        return self.path == self.watcher


class PendingChanges:
    """The open differences. Changes join the state's open batch."""

    def __init__(self, state: StateStore) -> None:
        self._table = state.table("reviews")
        self._load()
        state.on_undone(self._load)

    def of(self, watcher: str) -> list[PendingChange]:
        """What a watcher has not seen, by path."""
        return [review for _path, review in sorted(self._open.get(watcher, {}).items())]

    def get(self, watcher: str, path: str) -> PendingChange | None:
        return self._open.get(watcher, {}).get(path)

    def has(self, watcher: str) -> bool:
        return watcher in self._open

    def watchers(self) -> list[str]:
        """Every watcher with an open difference."""
        return sorted(self._open)

    def digests(self) -> set[str]:
        """Every text that an open difference begins at, or that an agent is reviewing."""
        found = {
            digest
            for reviews in self._open.values()
            for review in reviews.values()
            for digest in (review.base, review.reviewing)
        }
        return {digest for digest in found if digest}

    def open(self, review: PendingChange) -> None:
        """Store an open difference, replacing the pair's former one."""
        row = {field.name: getattr(review, field.name) for field in fields(review)}
        self._table.put(
            _key(review.watcher, review.path), {**row, "since": review.since.isoformat()}
        )
        self._hold(review)

    def close(self, watcher: str, path: str) -> None:
        """The watcher has seen the current text."""
        if self.get(watcher, path) is None:
            return
        self._table.drop(_key(watcher, path))
        del self._open[watcher][path]
        if not self._open[watcher]:
            del self._open[watcher]

    def close_all(self, watcher: str, keep: Iterable[str] = ()) -> None:
        """Close a watcher's differences except for these paths: it no longer watches the others."""
        kept = set(keep)
        for review in self.of(watcher):
            if review.path not in kept:
                self.close(watcher, review.path)

    def rename(self, watcher: str, now: str) -> None:
        """A watcher has another path.

        An agent at work cannot find it at the old one, so what it reviews stays open.
        """
        for review in self.of(watcher):
            self.close(watcher, review.path)
            self.open(
                replace(
                    review,
                    watcher=now,
                    path=now if review.is_of_all else review.path,
                    reviewing=None,
                )
            )

    def look_at(self, review: PendingChange, digest: str | None) -> PendingChange:
        """An agent starts to review that text."""
        looking = replace(review, reviewing=digest if digest is not None else "")
        self.open(looking)
        return looking

    def looking(self, watcher: str) -> list[PendingChange]:
        """What agents are reviewing; at the start, what they were reviewing when the last daemon
        ended.
        """
        return [review for review in self.of(watcher) if review.reviewing is not None]

    def saw(self, looked: PendingChange, present: str | None, at: datetime) -> None:
        """The agent is done: what it reviewed is now the text last seen; later changes and requests
        stay open.
        """
        now = self.get(looked.watcher, looked.path)
        if now is None:
            return  # the watcher no longer watches it, or is gone
        digest = looked.reviewing or None
        asked = now.asked and not looked.asked
        if (digest == present or looked.is_of_all) and not asked:
            self.close(looked.watcher, looked.path)
        else:
            review = PendingChange(
                watcher=looked.watcher, path=looked.path, base=digest, since=at, asked=asked
            )
            self.open(replace(review, is_in_conflict=now.is_in_conflict))

    def give_up(self, looked: PendingChange) -> None:
        """The agent failed: the difference stays open as it was."""
        now = self.get(looked.watcher, looked.path)
        if now is not None:
            self.open(replace(now, reviewing=None))

    def _hold(self, review: PendingChange) -> None:
        self._open.setdefault(review.watcher, {})[review.path] = review

    def _load(self) -> None:
        self._open: dict[str, dict[str, PendingChange]] = {}
        for row in self._table:
            self._hold(PendingChange(**{**row, "since": datetime.fromisoformat(row["since"])}))


def seen_by(review: PendingChange) -> str | None:
    """The text that the watcher has seen, once the agent at work is done."""
    return review.base if review.reviewing is None else review.reviewing or None


def _key(watcher: str, path: str) -> str:
    return f"{watcher}\t{path}"
