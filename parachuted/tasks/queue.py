"""Queue: at most one task that waits for each watcher, and which causes may wake it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Literal, Protocol

from parachuted.errors import NotFoundError
from parachuted.state import StateStore
from parachuted.vault import new_id, printable

_REMEMBERED = 5000
_FORGOTTEN_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """`kind` is `change` or `request`, `path` the first file concerned, `files` their number."""

    id: str
    kind: str
    path: str
    files: int
    at: datetime


class Causes:
    """Which watchers each cause has woken. Changes join the state's open batch."""

    def __init__(self, state: StateStore) -> None:
        self._table = state.table("causes")
        self._wakings = state.table("wakings")
        self._woken: dict[str, set[str]] = {}
        self._load()
        state.on_undone(self._load)

    def open(self, cause: Cause) -> None:
        if self._table.get_record(cause.id) is None:
            row = {"kind": cause.kind, "path": cause.path, "files": cause.files}
            self._table.put(cause.id, {**row, "at": cause.at.isoformat()})
            self._woken.setdefault(cause.id, set())

    def get(self, cause: str) -> Cause | None:
        row = self._table.get_record(cause)
        if row is None:
            return None
        return Cause(id=cause, **{**row, "at": datetime.fromisoformat(row["at"])})

    def root_of(self, cause: str) -> str | None:
        """The file that a cause began with, as it is printed."""
        found = self.get(cause)
        return None if found is None else printable(found.path)

    def that_may_wake(self, watcher: str, causes: Iterable[str]) -> tuple[str, ...]:
        return tuple(cause for cause in causes if watcher not in self._woken.get(cause, ()))

    def wake(self, watcher: str, causes: Iterable[str]) -> None:
        """They have woken the watcher; also unknown ones, or they would go round for ever."""
        for cause in causes:
            woken = self._woken.setdefault(cause, set())
            if watcher not in woken:
                self._wakings.put(f"{cause}\t{watcher}", {"cause": cause, "watcher": watcher})
                woken.add(watcher)

    def rename(self, watcher: str, now: str) -> None:
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


LONGEST_BACK_OFF_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWindow:
    """How long a task waits, in seconds: after the last change, and at most after the first."""

    quiet_s: float
    longest_s: float


class UpstreamOrder(Protocol):
    async def prepare(self) -> None: ...

    def blockers(self, watchers: Collection[str]) -> Mapping[str, str]:
        """For each of these watchers that is downstream of another of them, one such."""

    def downstream(self, path: str) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A watcher has something to review. `parents`: the runs whose writes woke it; `run`: the run
    that works on it, also while that waits to be tried again; `reason`: what it waits for.
    """

    id: str
    watcher: str
    state: Literal["queued", "running"]
    causes: tuple[str, ...]
    parents: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    due_at: datetime
    attempts: int = 0
    run: str | None = None
    reason: str | None = None


class Queue:
    """For each watcher at most one task that waits and one that runs."""

    def __init__(
        self, state: StateStore, causes: Causes, window: QuietWindow, order: UpstreamOrder
    ) -> None:
        self._table = state.table("curator_tasks")
        self._causes = causes
        self._window = window
        self._longest = timedelta(seconds=max(window.quiet_s, window.longest_s, LONGEST_BACK_OFF_S))
        self._order = order
        self._changed: Callable[[], None] = lambda: None
        self._tasks: dict[str, Task] = {}
        self._queued: dict[str, str] = {}
        self._parked: set[str] = set()
        self._waiting: dict[str, str] | None = None
        self._load()
        state.on_undone(self._load)

    def on_change(self, call: Callable[[], None]) -> None:
        self._changed = call

    def all(self) -> list[Task]:
        return sorted(self._tasks.values(), key=lambda task: (task.due_at, task.watcher, task.id))

    def get(self, task: str) -> Task | None:
        return self._tasks.get(task)

    def queued(self, watcher: str) -> Task | None:
        return self._tasks.get(self._queued.get(watcher, ""))

    def add(
        self,
        watcher: str,
        *,
        causes: Iterable[str],
        parents: Iterable[str],
        at: datetime,
        wait: bool,
    ) -> tuple[Task, bool]:
        """Queue a review, or add to the one that waits; returns whether it is new."""
        present = self.queued(watcher)
        task = present or Task(
            id=self._free_id(at),
            watcher=watcher,
            state="queued",
            causes=(),
            parents=(),
            first_at=at,
            last_at=at,
            due_at=at,
        )
        first = min(task.first_at, at)
        quiet = timedelta(seconds=self._window.quiet_s)
        longest = timedelta(seconds=self._window.longest_s)
        due = min(at + quiet, first + longest) if wait else at
        task = replace(
            task,
            causes=_joined(task.causes, causes),
            parents=_joined(task.parents, parents),
            first_at=first,
            last_at=at,
            due_at=max(due, task.due_at) if task.attempts else due,
            reason=None if task.id in self._parked else task.reason,
        )
        self._parked.discard(task.id)
        self._put(task)
        return task, present is None

    def withdraw(self, watcher: str) -> Task | None:
        """Nothing is left to review: drop the waiting task, unless its run has started."""
        task = self.queued(watcher)
        if task is None or task.run is not None:
            return None
        self._drop(task)
        return task

    def rename(self, watcher: str, now: str) -> None:
        task, other = self.queued(watcher), self.queued(now)
        if task is not None and other is not None:
            self._drop(task)
            self._put(
                replace(
                    other,
                    causes=_joined(other.causes, task.causes),
                    parents=_joined(other.parents, task.parents),
                )
            )
        elif task is not None:
            self._put(replace(task, watcher=now))

    async def prepare(self) -> None:
        """Compute which tasks wait for others; call it before `ready`."""
        await self._order.prepare()
        self._waiting = None

    def ready(self, now: datetime) -> Iterator[Task]:
        """The tasks that may start now; a generator, since a started one may make others wait."""
        for task in self.all():
            is_due = (
                task.state == "queued" and task.id not in self._parked and self._is_due(task, now)
            )
            if is_due and task.id in self._tasks and self.waits_for(task) is None:
                yield self._tasks[task.id]

    def waits_for(self, task: Task) -> str | None:
        """The watcher it waits for: one upstream of its cause, one it watches, or itself."""
        if task.state == "running":
            return None
        if self._waiting is None:
            self._waiting = self._work_out_waiting()
        return self._waiting.get(task.watcher)

    def next_due(self, now: datetime) -> datetime | None:
        return min(
            (
                task.due_at
                for task in self._tasks.values()
                if task.state == "queued" and not self._is_due(task, now)
            ),
            default=None,
        )

    def begin(self, task: Task, run: str, causes: Sequence[str]) -> Task:
        """Start it in that run, for these of its causes, which will not wake the watcher again."""
        self._causes.wake(task.watcher, causes)
        running = replace(task, state="running", run=run, causes=tuple(causes), reason=None)
        self._put(running)
        return running

    def put_back(self, task: Task, *, due_at: datetime, reason: str | None) -> Task:
        """It could not be finished and is tried again; one that came meanwhile joins it."""
        later = self.queued(task.watcher)
        back = replace(
            task, state="queued", due_at=due_at, attempts=task.attempts + 1, reason=reason
        )
        if later is not None and later.id != task.id:
            self._drop(later)
            back = replace(
                back,
                causes=_joined(task.causes, later.causes),
                parents=_joined(task.parents, later.parents),
                last_at=later.last_at,
            )
        self._put(back)
        return back

    def set_reason(self, task: Task, reason: str | None, *, until_change: bool = False) -> None:
        """Say what it waits for. `until_change`: for something new; lost at a restart."""
        if task.reason != reason:
            self._tasks[task.id] = replace(task, reason=reason)
        if until_change:
            self._parked.add(task.id)
            self._waiting = None

    def finish(self, task: Task) -> None:
        self._drop(task)

    def running(self) -> list[Task]:
        """The running tasks; at the start, those that were running when the last daemon ended."""
        return [task for task in self._tasks.values() if task.state == "running"]

    def causes(self) -> set[str]:
        return {cause for task in self._tasks.values() for cause in task.causes}

    def _free_id(self, at: datetime) -> str:
        while (found := new_id("t", at)) in self._tasks:
            pass
        return found

    def _is_due(self, task: Task, now: datetime) -> bool:
        """A moment too far ahead was set by a clock that has been put right since."""
        return task.due_at <= now or task.due_at - now > self._longest

    def _work_out_waiting(self) -> dict[str, str]:
        """For each watcher whose task waits, the one it waits for, in one pass over thousands."""
        found: dict[str, str] = {}
        for group in dict.fromkeys(self._watchers_by_cause()):
            found.update(self._order.blockers(group))
        for running in self.running():
            found.update(
                dict.fromkeys(
                    [running.watcher, *self._order.downstream(running.watcher)], running.watcher
                )
            )
        return found

    def _watchers_by_cause(self) -> Iterable[tuple[str, ...]]:
        groups: dict[str, list[str]] = {}
        for task in self._tasks.values():
            if task.id not in self._parked:
                for cause in task.causes:
                    groups.setdefault(cause, []).append(task.watcher)
        return (tuple(group) for group in groups.values() if len(group) > 1)

    def _put(self, task: Task) -> None:
        self._table.put(task.id, _document(task))
        before = self._tasks.get(task.id)
        if before is not None:
            self._forget(before)
        self._keep(task)
        self._changed()

    def _drop(self, task: Task) -> None:
        if task.id not in self._tasks:
            raise NotFoundError(f"there is no task {task.id}")
        self._table.drop(task.id)
        self._forget(self._tasks[task.id])
        self._changed()

    def _keep(self, task: Task) -> None:
        self._tasks[task.id] = task
        if task.state == "queued":
            self._queued[task.watcher] = task.id
        self._waiting = None

    def _forget(self, task: Task) -> None:
        del self._tasks[task.id]
        if self._queued.get(task.watcher) == task.id:
            del self._queued[task.watcher]
        self._parked.discard(task.id)
        self._waiting = None

    def _load(self) -> None:
        self._tasks, self._queued, self._parked, self._waiting = {}, {}, set(), None
        for key, row in self._table.items():
            self._keep(_task(key, row))


def _joined(*many: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for some in many for one in some))


def _document(task: Task) -> dict[str, object]:
    values = {field.name: getattr(task, field.name) for field in fields(task) if field.name != "id"}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def _task(key: str, row: Mapping[str, object]) -> Task:
    moments = {
        name: datetime.fromisoformat(str(row[name])) for name in ("first_at", "last_at", "due_at")
    }
    values = {
        **row,
        **moments,
        "id": key,
        "causes": tuple(row["causes"]),  # type: ignore[arg-type]
        "parents": tuple(row["parents"]),  # type: ignore[arg-type]
    }
    return Task(**values)  # type: ignore[arg-type]
