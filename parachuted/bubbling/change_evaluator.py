"""Change evaluator: whether a change means anything to a watcher, compared with the text that it
last saw.

It reads texts, so it belongs into a thread; what it decides on is given to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from parachuted.bubbling.baseline_texts import store_texts
from parachuted.bubbling.meaning import Meaning, changed_units, matters, meaning
from parachuted.bubbling.pending_changes import PendingChange, PendingChanges, seen_by
from parachuted.bubbling.trie import WatchMatch
from parachuted.events import Change
from parachuted.vault import ObjectStore, VaultPath, VaultRoot
from parachuted.vault.conflicts import conflict_line

UNKNOWN = "(the earlier text is not known)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedChange:
    """A change and one watcher of the path: the file's own, or (`change.source`) one of a moved
    file.

    `source`: where the watcher saw the file last, when it watches both paths of a move. `is_new`:
    it did not watch the file before, though the file existed.
    """

    change: Change
    path: VaultPath
    match: WatchMatch
    source: VaultPath | None = None
    is_new: bool = False

    @property
    def before(self) -> str | None:
        """The digest of the text before the change, for this watcher."""
        if self.is_new:
            return None
        has_old = (
            self.change.kind != "moved" or self.path != self.change.path or self.source is not None
        )
        return self.change.old.digest if has_old and self.change.old is not None else None

    @property
    def target(self) -> str | None:
        """Where a file is that has been moved away from the path."""
        return str(self.change.path) if self.path != self.change.path else None

    @property
    def after(self) -> str | None:
        """The digest of the current text."""
        return (
            self.change.new.digest
            if self.path == self.change.path and self.change.new is not None
            else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a change means for one watcher.

    `known`: the difference that was open when it was evaluated; `review`: the one that is open now,
    if any. `wakes`: the change itself meant something too.
    """

    touched: WatchedChange
    known: PendingChange | None
    review: PendingChange | None
    wakes: bool


class ChangeEvaluator:
    """Evaluates the changes of one scan, sharing work between watchers."""

    def __init__(self, root: VaultRoot, objects: ObjectStore, reviews: PendingChanges) -> None:
        self._root, self._objects, self._reviews = root, objects, reviews
        self._kept: set[str] = set()
        self._meanings: dict[str, Meaning | None] = {}
        self._conflicts: set[str] = set()
        self._units: dict[tuple[str | None, str | None], tuple[str, ...]] = {}

    def evaluate(self, touched: Iterable[WatchedChange], fresh: PendingChange) -> list[Evaluation]:
        """Evaluate each; `fresh` is the template of a difference that opens now.

        Raises OSError. Blocks on the disk.
        """
        return [
            self._evaluate(one, replace(fresh, watcher=one.match.watcher, path=str(one.path)))
            for one in touched
        ]

    def _evaluate(self, touched: WatchedChange, fresh: PendingChange) -> Evaluation:
        if touched.after is not None and touched.after not in self._kept:
            self._kept.add(touched.after)
            store_texts(
                self._root, self._objects, [(touched.path, touched.after, touched.change.data)]
            )
        known = self._reviews.get(fresh.watcher, touched.path)
        review = replace(known or self._opened(touched, fresh), target=touched.target)
        units = self._mattering(touched, seen_by(review))
        is_open = (
            bool(units)
            or review.asked
            or (review.source is not None and self._is_there_for(touched))
        )
        wakes = bool(self._mattering(touched, touched.before)) or (
            touched.source is not None and is_open
        )
        is_in_conflict = self._is_in_conflict(touched.after)
        review = (
            replace(review, is_in_conflict=is_in_conflict)
            if is_in_conflict != review.is_in_conflict
            else review
        )
        return Evaluation(
            touched=touched,
            known=known,
            review=review if is_open else None,
            wakes=wakes and not is_in_conflict,
        )

    def _is_in_conflict(self, digest: str | None) -> bool:
        """Whether the text has conflict markers; its watchers wait until a person has resolved
        them.
        """
        with contextlib.suppress(LookupError):
            self._meaning(digest)
        return digest in self._conflicts

    def _opened(self, touched: WatchedChange, fresh: PendingChange) -> PendingChange:
        """The new difference; for a moved file, the one that was open at its old path continues."""
        earlier = (
            self._reviews.get(fresh.watcher, touched.source) if touched.source is not None else None
        )
        if earlier is None:
            return replace(fresh, base=touched.before, source=touched.source)
        source = earlier.source or earlier.path
        return replace(
            earlier,
            path=fresh.path,
            source=source if source != fresh.path else None,
            reviewing=None,
        )

    def _mattering(self, touched: WatchedChange, base: str | None) -> tuple[str, ...]:
        units = self._changed(base, touched.after)
        return units if units == (UNKNOWN,) else matters(units, touched.match)

    def _is_there_for(self, touched: WatchedChange) -> bool:
        """Whether a moved file holds anything that the watcher cares for."""
        units = self._changed(None, touched.after)
        return units == (UNKNOWN,) or bool(matters(units, touched.match))

    def _changed(self, base: str | None, digest: str | None) -> tuple[str, ...]:
        if base == digest:
            return ()
        if (base, digest) not in self._units:
            self._units[base, digest] = self._work_out(base, digest)
        return self._units[base, digest]

    def _work_out(self, base: str | None, digest: str | None) -> tuple[str, ...]:
        try:
            return changed_units(self._meaning(base), self._meaning(digest))
        except LookupError:
            return (UNKNOWN,)

    def _meaning(self, digest: str | None) -> Meaning | None:
        if digest is None:
            return None
        if digest not in self._meanings:
            data = self._objects.get(digest)
            self._meanings[digest] = None if data is None else meaning(data)
            if data is not None and conflict_line(data) is not None:
                self._conflicts.add(digest)
        found = self._meanings[digest]
        if found is None:
            raise LookupError(digest)
        return found
