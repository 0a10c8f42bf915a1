"""Pending changes: what each watcher has not seen yet, and whether a change means anything to it.

A watcher has seen all else: first contact costs nothing, and a lost table repeats no work.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime

from parachuted.bubbling.patterns import PatternPart
from parachuted.bubbling.trie import WatchMatch
from parachuted.bubbling.watches import store_texts
from parachuted.events import Change
from parachuted.state import StateStore
from parachuted.vault import ObjectStore, VaultPath, VaultRoot
from parachuted.vault.note import (
    FRONTMATTER,
    OWN_NAMES,
    WHOLE,
    Meaning,
    changed_units,
    conflict_line,
    folded_title,
    meaning,
    plain_title,
    says_something,
)

_NUMBER = re.compile(r" \(\d+\)\Z")


def matters(units: Iterable[str], match: WatchMatch) -> tuple[str, ...]:
    """The changed units in the match's sections, with everything below them, and its keys."""
    return tuple(
        unit
        for unit in units
        if (
            not match.narrowings
            or unit in {WHOLE, FRONTMATTER}
            or any(_is_within(unit, part) for part in match.narrowings)
        )
        and not any(_is_within(unit, part) for part in match.without)
    )


def _is_within(unit: str, part: PatternPart) -> bool:
    if part.mark == "@":
        return unit.startswith("@") and folded_title(unit[1:]) == folded_title(part.name)
    if unit.startswith("@") or unit in OWN_NAMES:
        return False
    wanted = [folded_title(title) for title in plain_title(part.name).split(">")]
    path = unit.removeprefix("#").split(">")
    return any(_is_named(path[start : start + len(wanted)], wanted) for start in range(len(path)))


def _is_named(titles: list[str], wanted: list[str]) -> bool:
    pairs = zip(titles, wanted, strict=False)
    return len(titles) == len(wanted) and all(
        name in {folded_title(title), folded_title(_NUMBER.sub("", title))} for title, name in pairs
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """One open difference; with the watcher itself as `path`, of everything that it watches.

    `base`: digest of the text last seen (None: no file); `reviewing`: of the text that an agent is
    reviewing ("": no file). `asked`: a person requested it, changed or not; `asked_again`: during a
    review. `source`: its path when last seen; `target`: its path now, where that is not watched.
    `is_in_conflict`: no agent is shown it until its conflict markers are resolved.
    """

    watcher: str
    path: str
    base: str | None
    since: datetime
    source: str | None = None
    asked: bool = False
    reviewing: str | None = None
    asked_again: bool = False
    is_in_conflict: bool = False
    target: str | None = None

    @property
    def is_of_all(self) -> bool:
        return self.path == self.watcher


class PendingChanges:
    """Changes join the state's open batch."""

    def __init__(self, state: StateStore) -> None:
        self._table = state.table("reviews")
        self._load()
        state.on_undone(self._load)

    def of(self, watcher: str) -> list[PendingChange]:
        return [review for _path, review in sorted(self._open.get(watcher, {}).items())]

    def get(self, watcher: str, path: str) -> PendingChange | None:
        return self._open.get(watcher, {}).get(path)

    def has(self, watcher: str) -> bool:
        return watcher in self._open

    def watchers(self) -> list[str]:
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
        row = {field.name: getattr(review, field.name) for field in fields(review)}
        self._table.put(
            _key(review.watcher, review.path), {**row, "since": review.since.isoformat()}
        )
        self._hold(review)

    def close(self, watcher: str, path: str) -> None:
        if self.get(watcher, path) is None:
            return
        self._table.drop(_key(watcher, path))
        del self._open[watcher][path]
        if not self._open[watcher]:
            del self._open[watcher]

    def close_all(self, watcher: str, keep: Iterable[str] = ()) -> None:
        """It no longer watches others than `keep`."""
        kept = set(keep)
        for review in self.of(watcher):
            if review.path not in kept:
                self.close(watcher, review.path)

    def rename(self, watcher: str, now: str) -> None:
        """An agent at work cannot find the watcher at the old path, so its review stays open."""
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
        looking = replace(review, reviewing=digest if digest is not None else "", asked_again=False)
        self.open(looking)
        return looking

    def looking(self, watcher: str) -> list[PendingChange]:
        """What agents review; at the start, what they reviewed when the last daemon ended."""
        return [review for review in self.of(watcher) if review.reviewing is not None]

    def saw(self, looked: PendingChange, present: str | None, at: datetime) -> None:
        """The agent is done: later changes and requests stay open."""
        now = self.get(looked.watcher, looked.path)
        if now is None:
            return  # the watcher no longer watches it, or is gone
        digest = (looked if now.reviewing is None else now).reviewing or None
        if (digest == present or looked.is_of_all) and not now.asked_again:
            self.close(looked.watcher, looked.path)
        else:
            review = PendingChange(
                watcher=looked.watcher,
                path=looked.path,
                base=digest,
                since=at,
                asked=now.asked_again,
                is_in_conflict=now.is_in_conflict,
            )
            self.open(review)

    def give_up(self, looked: PendingChange) -> None:
        """The agent failed: the difference stays open as it was."""
        now = self.get(looked.watcher, looked.path)
        if now is not None:
            asked = now.asked or now.asked_again
            self.open(replace(now, reviewing=None, asked=asked, asked_again=False))

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


UNKNOWN = "(the earlier text is not known)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedChange:
    """A change and one watcher of the path: the file's own, or a moved file's former one.

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
        return (
            self.change.new.digest
            if self.path == self.change.path and self.change.new is not None
            else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """`known` was open when it was evaluated, `review` is open now.

    `wakes`: the change itself meant something. `is_of_ids`: it is only ids, added by a module.
    """

    touched: WatchedChange
    known: PendingChange | None
    review: PendingChange | None
    wakes: bool
    is_of_ids: bool = False


class ChangeEvaluator:
    def __init__(self, root: VaultRoot, objects: ObjectStore, reviews: PendingChanges) -> None:
        self._root, self._objects, self._reviews = root, objects, reviews
        self._kept: set[str] = set()
        self._meanings: dict[str, Meaning | None] = {}
        self._conflicts: set[str] = set()
        self._units: dict[tuple[str | None, str | None], tuple[str, ...]] = {}

    def evaluate(self, touched: Iterable[WatchedChange], fresh: PendingChange) -> list[Evaluation]:
        """`fresh` is the template of a difference that opens now. Raises OSError. Blocks."""
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
            or (review.source is not None and bool(self._mattering(touched, None)))
        )
        wakes = bool(self._mattering(touched, touched.before)) or (
            touched.source is not None and is_open
        )
        is_in_conflict = self._is_in_conflict(touched.after)
        return Evaluation(
            touched=touched,
            known=known,
            review=replace(review, is_in_conflict=is_in_conflict) if is_open else None,
            wakes=wakes and not is_in_conflict,
            is_of_ids=bool(units)
            and (known is None or known.reviewing is not None)
            and self._are_ids(units, touched, seen_by(review)),
        )

    def _is_in_conflict(self, digest: str | None) -> bool:
        """Watchers wait until a person has resolved conflict markers."""
        with contextlib.suppress(LookupError):
            self._meaning(digest)
        return digest in self._conflicts

    def _opened(self, touched: WatchedChange, fresh: PendingChange) -> PendingChange:
        """For a moved file, the one that was open at its old path continues."""
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

    def _are_ids(self, units: Iterable[str], touched: WatchedChange, base: str | None) -> bool:
        """Whether a module added ids alone, and the watcher does not name their keys."""
        if touched.match.narrowings or not touched.change.author.is_module or UNKNOWN in units:
            return False
        old, new = self._meaning(base), self._meaning(touched.after)
        return not any(says_something(unit, old, new) for unit in units)

    def _changed(self, base: str | None, digest: str | None) -> tuple[str, ...]:
        if base == digest:
            return ()
        if (base, digest) not in self._units:
            try:
                units = changed_units(self._meaning(base), self._meaning(digest))
            except LookupError:
                units = (UNKNOWN,)
            self._units[base, digest] = units
        return self._units[base, digest]

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
