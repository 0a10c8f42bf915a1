"""Run recovery: settles the runs that the last daemon did not bring to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from parachuted.history.run_account import has_ended, save
from parachuted.history.undo import Undo
from parachuted.runs.task_reviews import TaskReviews
from parachuted.tasks import Queue, Task
from parachuted.vault import History, printable


class RunRecovery:
    """To be gone through at the start: `settle_runs` before the vault is looked at, `end_lost_runs`
    after.
    """

    def __init__(
        self,
        *,
        queue: Queue,
        reviews: TaskReviews,
        history: History,
        undo: Undo,
        clock: Callable[[], datetime],
    ) -> None:
        self._queue, self._reviews = queue, reviews
        self._history, self._undo, self._clock = history, undo, clock

    def settle_runs(self) -> list[str]:
        """A run whose end is known ends; any other is taken back and will be done again.

        Says what a person should know. Blocks.
        """
        said: list[str] = []
        for task in self._queue.running():
            document = self._history.run(str(task.run))
            if has_ended(document):
                self._reviews.close_at_start(
                    task, failed=document is not None and document["outcome"] == "failed"
                )
            else:
                said += self._take_back(task)
        return said

    def end_lost_runs(self) -> None:
        """Runs that nothing will take up again have failed."""
        going_on = {task.run for task in self._queue.all()}
        for document in self._history.unended():
            if document["id"] not in going_on:
                reason = "the daemon ended before the run did"
                save(
                    self._history,
                    {
                        **document,
                        "outcome": "failed",
                        "reason": reason,
                        "ended": self._clock().isoformat(),
                    },
                )

    def _take_back(self, task: Task) -> Iterator[str]:
        """Before the task is put back, or a crash in between would leave writes of a run that
        starts again.
        """
        for reverted in self._undo.take_back([str(task.run)]):
            for kept in reverted.kept:
                yield (
                    f"a run on {printable(task.watcher)} was cut short, and this of it in "
                    f"{printable(reverted.path)} stays: {kept}"
                )
        self._reviews.put_back_at_start(task)
