"""Task reviews: what a task's run reviews, from its mark to its end or the daemon's next start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
    """What changes while a run reviews stays open. Many go in pieces of one batch each, and each
    method may be cut short and gone through again.
    """

    state: StateStore
    pending: PendingChanges
    queue: Queue
    index: VaultIndex
    clock: Callable[[], datetime]

    async def look(self, watcher: str) -> list[PendingChange]:
        looked: list[PendingChange] = []
        for piece in in_pieces([one for one in self.pending.of(watcher) if not one.is_in_conflict]):
            with self.state.batch():
                looked += [self.pending.look_at(one, self._digest(one.path)) for one in piece]
            await asyncio.sleep(0)
        return looked

    async def close(self, task: Task, looked: Sequence[PendingChange], *, failed: bool) -> None:
        await self.settle(looked, failed=failed)
        self.queue.finish(task)

    async def settle(self, looked: Sequence[PendingChange], *, failed: bool) -> None:
        """What a run reviewed is closed or, where it failed, open as before."""
        for piece in in_pieces(looked):
            with self.state.batch():
                for change in piece:
                    if failed:
                        self.pending.give_up(change)
                    else:
                        self.pending.saw(change, self._digest(change.path), self.clock())
            await asyncio.sleep(0)

    def _digest(self, path: str) -> str | None:
        entry = self.index.get(path)
        return entry.digest if entry is not None else None


def in_pieces(reviews: Sequence[PendingChange]) -> Iterable[Sequence[PendingChange]]:
    return (reviews[start : start + _PIECE] for start in range(0, len(reviews), _PIECE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecovery:
    """At the start: `settle_runs` before the vault is looked at, the others after."""

    reviews: TaskReviews
    history: WriteJournal
    undo: Undo
    acts: ActFinisher

    async def settle_runs(self) -> list[str]:
        """A run whose end is known ends; others are taken back. Says what to tell."""
        said: list[str] = []
        reviews, queue = self.reviews, self.reviews.queue
        for task in queue.running():
            looked = reviews.pending.looking(task.watcher)
            document = self.history.run(str(task.run))
            if document is not None and has_ended(document):
                await reviews.close(task, looked, failed=document["outcome"] == "failed")
                continue
            # before the task is put back, or a crash would leave writes of a run that starts again
            self.acts.forget(str(task.run))
            said += [
                f"a run on {printable(task.watcher)} was cut short, and this of it in "
                f"{printable(reverted.path)} stays: {kept}"
                for reverted in self.undo.take_back([str(task.run)])
                for kept in reverted.kept
            ]
            await reviews.settle(looked, failed=True)
            with reviews.state.batch():
                queue.put_back(task, due_at=reviews.clock(), reason=None)
        return said

    def end_lost_runs(self) -> None:
        """Runs that nothing will take up again have failed."""
        going_on = {task.run for task in self.reviews.queue.all()} | self.undo.unfinished()
        for document in self.history.unended():
            if document["id"] not in going_on:
                reason, ended = "the daemon ended before the run did", self.reviews.clock()
                failed = {**document, "outcome": "failed", "reason": reason}
                save(self.history, {**failed, "ended": ended.isoformat()})

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
