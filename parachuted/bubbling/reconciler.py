"""Reconciler: turns a change into tasks for those who watch the file, before it is forgotten."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from parachuted.access.paths import is_control
from parachuted.bubbling.patterns import WatchQuery
from parachuted.bubbling.pending_changes import (
    ChangeEvaluator,
    Evaluation,
    PendingChange,
    PendingChanges,
    WatchedChange,
)
from parachuted.bubbling.watches import DeclarationChange, WatchedTexts
from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.events import Bus, Change
from parachuted.search import NoteQuery
from parachuted.state import StateStore
from parachuted.tasks import Cause, Causes, Queue, Task
from parachuted.texts.times import time_of
from parachuted.vault import BRINGS_BACK, VaultPath, new_id
from parachuted.vault.note import conflict_line

log = logging.getLogger(__name__)

_PIECE = 100
_AGAIN_S = 5.0
_MOST_PATHS_TOLD = 100
_MOST_BEGINNINGS = 5000


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """`withdrawn` tasks have nothing left to review."""

    declared: list[DeclarationChange]
    queued: dict[str, Task] = field(default_factory=dict)
    withdrawn: list[Task] = field(default_factory=list)


class Reconciler:
    """A change with meaning wakes each watcher, each cause each watcher once."""

    def __init__(
        self,
        texts: WatchedTexts,
        reviews: PendingChanges,
        causes: Causes,
        queue: Queue,
        *,
        state: StateStore,
        bus: Bus,
        clock: Callable[[], datetime],
        reviews_at_once: bool = False,
    ) -> None:
        """`reviews_at_once`: a note that declares what it watches reviews all of it at once,
        because its agent costs nothing.
        """
        self._texts, self._watches, self._reviews = texts, texts.watches, reviews
        self._causes, self._queue, self._state, self._bus = causes, queue, state, bus
        self._clock, self._reviews_at_once = clock, reviews_at_once
        self.stood_at: dict[str, datetime] = {}
        """When a restored text was current, by its digest: who began to watch later has not seen
        it.
        """
        self._reviewing_all: set[str] = set()
        self._beginnings: dict[str, VaultPath] = {}
        self._has_more = asyncio.Event()

    async def record(self, changes: Sequence[Change]) -> Callable[[], None]:
        """Record changes, before the index does; call the result to publish what follows.

        Raises StorageFailedError or OSError; the same call again then repeats nothing.
        """
        outcome = _Outcome(declared=[])
        self._declare(changes, outcome, at_once=self._reviews_at_once)
        await self._texts.keep_declared()
        if self._texts.has_waiting:
            self._has_more.set()
        await self._texts.keep_before(changes)
        evaluator = ChangeEvaluator(self._texts.root, self._texts.objects, self._reviews)
        new, left = await self._follow(changes)
        files = Counter(cause for change in changes for cause in change.author.causes)
        touched = (one for change in changes for one in self._touched(change, new))
        with self._watches.leaving(left):
            while piece := list(islice(touched, _PIECE)):
                while piece:
                    # what became another difference meanwhile is weighed again
                    piece = await self._take_in(piece, evaluator, files, outcome)
                await asyncio.sleep(0)
        with self._state.batch():
            self._causes.forget_old(self._queue.causes)
        self._remember_beginnings(changes)
        return functools.partial(self._tell, outcome)

    async def follow_up(self, search: Callable[[NoteQuery], Awaitable[Iterable[str]]]) -> None:
        """Until cancelled: store texts that `record` left, and answer queries of new watches."""
        self._has_more.set()
        while True:
            await self._has_more.wait()
            self._has_more.clear()
            try:
                await self._texts.keep_waiting()
                for query in self._watches.queries():
                    if not self._watches.matches.is_known(query):
                        await self._answer(query, await search(query.asked))
            except (StorageFailedError, OSError) as error:
                log.warning(
                    "what notes watch was not looked through yet", extra={"error": str(error)}
                )
                await asyncio.sleep(_AGAIN_S)
                self._has_more.set()

    async def _answer(self, query: WatchQuery, listed: Iterable[str]) -> None:
        paths = [VaultPath(path) for path in listed]
        await self._texts.keep(paths)
        outcome = _Outcome(declared=[])
        with self._state.batch():
            self._watches.matches.answer(query, paths)
            for watcher in self._reviewing_all.intersection(self._watches.watchers_by(query)):
                now = self._clock()
                cause = Cause(id=new_id("c", now), kind="change", path=watcher, files=1, at=now)
                self._causes.open(cause)
                self._ask(watcher, watcher, None, now)
                self._add(watcher, (cause.id,), (), now, outcome, wait=True)
        self._tell(outcome)

    async def _follow(
        self, changes: Sequence[Change]
    ) -> tuple[set[tuple[WatchQuery, str]], set[tuple[WatchQuery, str]]]:
        """The notes that a query lists now, and those that it lists no longer."""
        queries = self._watches.queries()
        new: set[tuple[WatchQuery, str]] = set()
        left: set[tuple[WatchQuery, str]] = set()
        for start in range(0, len(changes) if queries else 0, _PIECE):
            piece = changes[start : start + _PIECE]
            found = await asyncio.to_thread(self._texts.listed, queries, piece)
            with self._state.batch():
                for change, answers in zip(piece, found, strict=True):
                    for query, is_match in zip(queries, answers, strict=True):
                        if self._watches.matches.decide(query, change.path, is_match=is_match):
                            (new if is_match else left).add((query, str(change.path)))
                        if change.source is not None and self._watches.matches.decide(
                            query, change.source, is_match=False
                        ):
                            left.add((query, str(change.source)))
        return new, left

    def baseline(self, changes: Sequence[Change]) -> None:
        """First contact: present texts count as seen; `WatchedTexts.keep_watched` stores them."""
        self._declare(
            [change for change in changes if change.watch or change.problems],
            _Outcome(declared=[]),
            at_once=False,
        )
        self._texts.remember(changes)

    def ask(self, path: VaultPath) -> tuple[Cause, list[Task]]:
        """A person requests a review. NotFoundError when `path` neither watches nor is watched."""
        watchers = [match.watcher for match in self._watches.watchers_of(path)] + (
            [str(path)] if self._watches.of(path) else []
        )
        if not watchers:
            raise NotFoundError(
                f"nothing watches {path}, and it watches nothing; `parachute watches` lists who "
                "watches what"
            )
        now, entry = self._clock(), self._texts.index.get(path)
        cause = Cause(id=new_id("c", now), kind="request", path=path, files=1, at=now)
        outcome, tasks = _Outcome(declared=[]), []
        with self._state.batch():
            self._causes.open(cause)
            for watcher in watchers:
                self._ask(watcher, path, entry.digest if entry else None, now)
                tasks.append(self._add(watcher, (cause.id,), (), now, outcome))
        self._tell(outcome)
        return cause, tasks

    def _ask(self, watcher: str, path: str, digest: str | None, now: datetime) -> None:
        known = self._reviews.get(watcher, path)
        if known is None:
            self._reviews.open(
                PendingChange(watcher=watcher, path=path, base=digest, since=now, asked=True)
            )
        elif known.reviewing is not None:
            self._reviews.open(replace(known, asked_again=True))

    def _declare(self, changes: Sequence[Change], outcome: _Outcome, *, at_once: bool) -> None:
        with self._state.batch():
            for change in changes:
                declares = bool(change.watch or change.problems or self._watches.of(change.path))
                was_watching = change.source is not None and self._watches.of(change.source)
                if not declares and not was_watching:
                    continue
                if change.data is not None and conflict_line(change.data) is not None:
                    continue  # what it declared before holds until a person has resolved them
                moves = bool(was_watching and change.watch)
                declarations = {
                    change.source: ((), ()),
                    change.path: (change.watch, change.problems),
                }
                declaration_changes = [
                    self._watches.declare(path, *declared)
                    for path, declared in declarations.items()
                    if path is not None
                ]
                changed = [one for one in declaration_changes if one is not None]
                if moves:
                    self._rename(change, outcome)
                for declared in changed:
                    self._prune(declared.watcher, outcome)
                    if (
                        declared.now is not None
                        and declared.now.patterns
                        and at_once
                        and not is_control(declared.watcher)
                    ):
                        self._reviewing_all.add(declared.watcher)
                        self._review_all(declared.watcher, change, outcome)
                if changed:
                    self._has_more.set()
                self._texts.declared.update(declared.watcher for declared in changed)
                outcome.declared += changed

    def _review_all(self, watcher: str, change: Change, outcome: _Outcome) -> None:
        waking, now = self._causes.that_may_wake(watcher, change.author.causes), self._clock()
        if waking:
            self._open_causes(change, Counter(waking))
            self._ask(watcher, watcher, change.new.digest if change.new is not None else None, now)
            self._add(watcher, waking, (), now, outcome, wait=True)

    def _rename(self, change: Change, outcome: _Outcome) -> None:
        """An agent at work cannot find the moved watcher, so its work is requested again."""
        before, now = str(change.source), change.path
        at_work = any(task.watcher == before for task in self._queue.running())
        for kept in (self._reviews, self._causes, self._queue):
            kept.rename(before, now)
        if at_work and self._reviews.has(now):
            self._open_causes(change, Counter(change.author.causes))
            self._add(now, change.author.causes, (), self._clock(), outcome, wait=True)

    def _prune(self, watcher: str, outcome: _Outcome) -> None:
        """Close differences in files that the note does not watch any more."""
        own = {watcher} if self._watches.of(watcher) is not None else set()
        watched = [
            change.path
            for change in self._reviews.of(watcher)
            if change.path in own or watcher in self._watches.downstream(change.path)
        ]
        self._reviews.close_all(watcher, watched)
        self._withdraw_if_idle(watcher, outcome)

    def _touched(
        self, change: Change, new: Collection[tuple[WatchQuery, str]]
    ) -> Iterator[WatchedChange]:
        here = self._watches.watchers_of(change.path)
        there = (
            {match.watcher: match for match in self._watches.watchers_of(change.source)}
            if change.source is not None
            else {}
        )
        for match in here:
            follows = (
                match.watcher in there and self._reviews.get(match.watcher, change.path) is None
            )
            if follows:
                del there[match.watcher]
            is_new = not follows and all(
                pattern.query is not None and (pattern.query, change.path) in new
                for pattern in match.patterns
            )
            yield WatchedChange(
                change=change,
                path=change.path,
                match=match,
                source=change.source if follows else None,
                is_new=is_new,
            )
        for match in there.values():
            yield WatchedChange(change=change, path=change.source or change.path, match=match)

    async def _take_in(
        self,
        piece: list[WatchedChange],
        evaluator: ChangeEvaluator,
        files: Counter[str],
        outcome: _Outcome,
    ) -> list[WatchedChange]:
        """Returns those whose open difference became another while they were weighed."""
        now = self._clock()
        weighed = await asyncio.to_thread(
            evaluator.evaluate, piece, PendingChange(watcher="", path="", base=None, since=now)
        )
        stale: list[WatchedChange] = []
        waking: dict[str, list[Change]] = {}
        with self._state.batch():
            for item in weighed:
                watcher = item.touched.match.watcher
                if self._reviews.get(watcher, item.touched.path) is not item.known:
                    stale.append(item.touched)
                elif self._settle(item, outcome):
                    waking.setdefault(watcher, []).append(item.touched.change)
            for watcher, woken_by in waking.items():
                self._wake(watcher, woken_by, files, now, outcome)
        return stale

    def _settle(self, item: Evaluation, outcome: _Outcome) -> bool:
        """Store or close the difference; returns whether the watcher must be woken."""
        touched, watcher = item.touched, item.touched.match.watcher
        earlier = self._reviews.get(watcher, touched.source) if touched.source is not None else None
        if earlier is not None:
            self._reviews.close(watcher, earlier.path)
        causes = touched.change.author.causes
        if item.review is None or (
            item.is_of_ids and not self._causes.that_may_wake(watcher, causes)
        ):  # what gave the ids has woken it already
            if item.known is not None and item.known.reviewing is None:
                self._reviews.close(watcher, touched.path)
            elif item.known is not None:  # the agent at work has seen what the new text says
                self._reviews.open(replace(item.known, reviewing=touched.after or ""))
            self._withdraw_if_idle(watcher, outcome)
            return False
        if item.known is not None:
            if (item.known.is_in_conflict, item.known.target) != (
                item.review.is_in_conflict,
                item.review.target,
            ):
                self._reviews.open(item.review)
        else:
            if earlier is None and self._saw_both(watcher, touched.change):
                return False
            self._reviews.open(item.review)
        return item.wakes

    def _saw_both(self, watcher: str, change: Change) -> bool:
        """Whether it restores a text that the watcher has seen, in place of another such."""
        if change.author.by not in BRINGS_BACK:
            return False
        stood, since = (
            self.stood_at.get(change.new.digest or "") if change.new is not None else None,
            self._watches.since(watcher),
        )
        return stood is None or since is None or datetime.fromisoformat(since) <= stood

    def _wake(
        self,
        watcher: str,
        changes: Sequence[Change],
        files: Counter[str],
        now: datetime,
        outcome: _Outcome,
    ) -> None:
        """For causes that have not woken it yet; what others would show stays open."""
        for change in changes:
            self._open_causes(change, files)
        carried = dict.fromkeys(
            cause
            for change in changes
            if not self._saw_both(watcher, change)
            for cause in change.author.causes
        )
        waking = self._causes.that_may_wake(watcher, carried)
        if waking:
            authors = [
                change.author
                for change in changes
                if not set(waking).isdisjoint(change.author.causes)
            ]
            parents = [author.run for author in authors if author.run is not None]
            self._add(watcher, waking, parents, now, outcome, wait=len(parents) < len(authors))

    def _open_causes(self, change: Change, files: Counter[str]) -> None:
        now = self._clock()
        for cause in change.author.causes:
            path = self._beginnings.get(cause, change.path)
            self._causes.open(Cause(id=cause, kind="change", path=path, files=files[cause], at=now))

    def _remember_beginnings(self, changes: Iterable[Change]) -> None:
        """Watched or not: what follows may come to a watched file later, by a hook or a module."""
        for change in changes:
            for cause in change.author.causes:
                self._beginnings.setdefault(cause, change.path)
        for cause in list(self._beginnings)[:-_MOST_BEGINNINGS]:
            del self._beginnings[cause]

    def _add(
        self,
        watcher: str,
        causes: Iterable[str],
        parents: Iterable[str],
        at: datetime,
        outcome: _Outcome,
        *,
        wait: bool = False,
    ) -> Task:
        task, is_new = self._queue.add(watcher, causes=causes, parents=parents, at=at, wait=wait)
        if is_new or watcher in outcome.queued:
            outcome.queued[watcher] = task
        return task

    def _withdraw_if_idle(self, watcher: str, outcome: _Outcome) -> None:
        task = None if self._reviews.has(watcher) else self._queue.withdraw(watcher)
        if task is not None and outcome.queued.pop(watcher, None) is None:
            outcome.withdrawn.append(task)

    def _tell(self, outcome: _Outcome) -> None:
        for item in outcome.declared:
            if item.now is None:
                self._bus.publish("watch.removed", watcher=item.watcher)
            else:
                patterns = [pattern.text for pattern in item.now.patterns]
                self._bus.publish(
                    "watch.declared",
                    watcher=item.watcher,
                    patterns=patterns,
                    problems=list(item.now.problems),
                    unmatched=self._watches.unmatched(item.watcher),
                )
        for task in outcome.queued.values():
            paths = [review.path for review in self._reviews.of(task.watcher)[:_MOST_PATHS_TOLD]]
            self._bus.publish(
                "task.queued",
                task=task.id,
                watcher=task.watcher,
                paths=paths,
                causes=list(task.causes),
                due=time_of(task.due_at),
            )
        for task in outcome.withdrawn:
            self._bus.publish(
                "task.finished", task=task.id, watcher=task.watcher, run=None, outcome="withdrawn"
            )
