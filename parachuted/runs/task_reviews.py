"""Task reviews: what a task's run reviews, from its mark to its end or the daemon's next start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from parachuted.bubbling import PendingChange, PendingChanges
from parachuted.errors import StorageFailedError
from parachuted.history.acts import ActFinisher
from parachuted.history.run_account import has_ended, save
from parachuted.history.undo import Undo
from parachuted.state import StateStore
from parachuted.tasks import Queue, Task
from parachuted.vault import VaultIndex, WriteJournal, printable

_PIECE = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReviews:
    """What changes while a run reviews stays open. Many go in pieces of one batch each."""

    state: StateStore
    pending: PendingChanges
    queue: Queue
    index: VaultIndex
    clock: Callable[[], datetime]

    async def look(self, watcher: str) -> list[PendingChange]:
        looked: list[PendingChange] = []
        open_now = [change for change in self.pending.of(watcher) if not change.is_in_conflict]
        for piece in in_pieces(open_now):
            with self.state.batch():
                looked += [
                    self.pending.look_at(change, self._digest(change.path)) for change in piece
                ]
            await asyncio.sleep(0)
        return looked

    async def close(self, task: Task, looked: Sequence[PendingChange], *, failed: bool) -> None:
        """May be cut short, and gone through again."""
        await self.settle(looked, failed=failed)
        self.queue.finish(task)

    def close_at_start(self, task: Task, *, failed: bool) -> None:
        with self.state.batch():
            self._settle(self.pending.looking(task.watcher), failed=failed)
            self.queue.finish(task)

    def put_back_at_start(self, task: Task) -> None:
        with self.state.batch():
            self._settle(self.pending.looking(task.watcher), failed=True)
            self.queue.put_back(task, due_at=self.clock(), reason=None)

    async def settle(self, looked: Sequence[PendingChange], *, failed: bool) -> None:
        """What a run reviewed is closed or, where it failed, open as before."""
        for piece in in_pieces(looked):
            with self.state.batch():
                self._settle(piece, failed=failed)
            await asyncio.sleep(0)

    def _settle(self, looked: Iterable[PendingChange], *, failed: bool) -> None:
        for change in looked:
            if failed:
                self.pending.give_up(change)
            else:
                self.pending.saw(change, self._digest(change.path), self.clock())

    def _digest(self, path: str) -> str | None:
        entry = self.index.get(path)
        return entry.digest if entry is not None else None


def in_pieces(reviews: Sequence[PendingChange]) -> Iterable[Sequence[PendingChange]]:
    return (reviews[start : start + _PIECE] for start in range(0, len(reviews), _PIECE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecovery:
    """At the start: `settle_runs` before the vault is looked at, the others after."""

    queue: Queue
    reviews: TaskReviews
    history: WriteJournal
    undo: Undo
    acts: ActFinisher
    clock: Callable[[], datetime]

    def settle_runs(self) -> list[str]:
        """A run whose end is known ends; others are taken back. Says what to tell."""
        said: list[str] = []
        for task in self.queue.running():
            document = self.history.run(str(task.run))
            if has_ended(document):
                self.reviews.close_at_start(
                    task, failed=document is not None and document["outcome"] == "failed"
                )
            else:
                said += self._take_back(task)
        return said

    def end_lost_runs(self) -> None:
        """Runs that nothing will take up again have failed."""
        going_on = {task.run for task in self.queue.all()} | self.undo.unfinished()
        for document in self.history.unended():
            if document["id"] not in going_on:
                reason, ended = "the daemon ended before the run did", self.clock().isoformat()
                failed = {**document, "outcome": "failed", "reason": reason, "ended": ended}
                save(self.history, failed)

    async def finish_acts(self, notice: Callable[[Iterable[str]], Awaitable[None]]) -> list[str]:
        """Finish acts of several files that were cut short. Says what to tell a person."""
        finished = await asyncio.to_thread(self.acts.finish_all)
        await notice([path for act in finished for path in act.paths])
        said = [act.problem for act in finished if act.problem is not None]
        try:
            await self.undo.finish_all()
        except StorageFailedError as error:
            said.append(
                f"an undo that was cut short cannot be finished ({error.message}); the next start "
                "tries again"
            )
        return said

    def _take_back(self, task: Task) -> Iterator[str]:
        """Before the task is put back, or a crash would leave writes of a run that starts again."""
        self.acts.forget(str(task.run))
        for reverted in self.undo.take_back([str(task.run)]):
            for kept in reverted.kept:
                yield (
                    f"a run on {printable(task.watcher)} was cut short, and this of it in "
                    f"{printable(reverted.path)} stays: {kept}"
                )
        self.reviews.put_back_at_start(task)
