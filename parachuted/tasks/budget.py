"""Budget: how many runs are allowed, per cause, and per hour and day of elapsed time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from parachuted.state import StateStore
from parachuted.tasks.queue import Task
from parachuted.vault import WriteJournal

_KEPT = timedelta(days=2)
_SPANS = {"runs_per_hour": timedelta(hours=1), "runs_per_day": timedelta(days=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCountLimits:
    runs_per_hour: int
    runs_per_day: int
    runs_per_cause: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts(RunCountLimits):
    """The same, and the runs of the last hour and day."""

    runs_last_hour: int
    runs_last_day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededLimit:
    budget: str
    limit: int

    def __str__(self) -> str:
        return f"the budget of {self.limit} {self.budget.replace('_', ' ')} is used up"


class Budget:
    """Counts the runs in the history, so that a restart forgets nothing. `started` are tasks whose
    runs may not be in it yet; they count, as reserved places do. Callers check and reserve without
    waiting in between, on the event loop.
    """

    def __init__(
        self,
        limits: RunCountLimits,
        history: WriteJournal,
        state: StateStore,
        elapsed: Callable[[], datetime],
    ) -> None:
        self.limits = limits
        self._history, self._elapsed = history, elapsed
        self._starts = state.table("run_starts")
        self._reserved: dict[str, Task] = {}

    def reserve(self, task: Task) -> None:
        """Raises StorageFailedError; joins the state's open batch."""
        self._start(task)
        self._reserved[str(task.run)] = task

    def leave_out(self, task: Task) -> None:
        """The same for a run that counts in no budget over time: another one pays for it."""
        self._start(task, is_left_out=True)

    def give_back(self, task: Task) -> None:
        """The run is in the history by now, or does not start."""
        self._reserved.pop(str(task.run), None)

    def exceeded(self, started: Collection[Task] = ()) -> ExceededLimit | None:
        more = len(self._uncounted(started))
        for budget, span in _SPANS.items():
            limit = getattr(self.limits, budget)
            if self._in(span) + more >= limit:
                return ExceededLimit(budget=budget, limit=limit)
        return None

    def causes_left(self, task: Task, started: Collection[Task] = ()) -> tuple[str, ...]:
        more = [cause for one in self._uncounted(started) for cause in one.causes]
        limit = self.limits.runs_per_cause
        return tuple(
            cause
            for cause in task.causes
            if self._history.count_runs(cause=cause) + more.count(cause) < limit
        )

    def cause_exceeded(self) -> ExceededLimit:
        return ExceededLimit(budget="runs_per_cause", limit=self.limits.runs_per_cause)

    def counts(self) -> RunCounts:
        return RunCounts(
            **asdict(self.limits),
            runs_last_hour=self._in(_SPANS["runs_per_hour"]),
            runs_last_day=self._in(_SPANS["runs_per_day"]),
        )

    def _start(self, task: Task, **more: bool) -> None:
        now = self._elapsed()
        for run, row in self._starts.items():
            if row["at"] <= (now - _KEPT).timestamp():
                self._starts.drop(run)
        self._starts.put(str(task.run), {"at": now.timestamp(), **more})

    def _in(self, span: timedelta) -> int:
        """Runs of the last such span by date, or by elapsed time where dates are wrong."""
        now = self._elapsed()
        starts = dict(self._starts.items())
        left_out = {run for run, row in starts.items() if row.get("is_left_out")}
        dated = self._history.runs_started(now - span, now + span) - left_out
        began = (
            run
            for run, row in starts.items()
            if row["at"] > (now - span).timestamp() and run not in dated and run not in left_out
        )
        return len(dated) + sum(self._history.run(run) is not None for run in began)

    def _uncounted(self, started: Collection[Task]) -> list[Task]:
        known = {**self._reserved, **{str(task.run): task for task in started}}
        return [task for run, task in known.items() if self._history.run(run) is None]
