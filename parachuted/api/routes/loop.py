"""Loop: who watches, what waits, and what a change would set off."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, Path, RequestModel
from parachuted.bubbling import (
    ChangePlan,
    PendingChanges,
    PlannedRun,
    Reconciler,
    WatchRegistry,
    plan_for,
)
from parachuted.events import ChangeDetector
from parachuted.tasks import Queue, Task, Worker
from parachuted.times import Time, time_of, with_times
from parachuted.vault import Store, VaultIndex, VaultPath, printable


class WatchResponse(TypedDict):
    """A watcher, what it says it watches, and what that is now.

    `unmatched`: which patterns match nothing, for keys of the whole vault.
    """

    watcher: str
    patterns: list[str]
    problems: list[str]
    unmatched: list[str]
    watched: list[str]
    unseen: list[str]
    since: Time | None


class WatchesResponse(TypedDict):
    """All watchers."""

    watches: list[WatchResponse]
    count: int


class TaskResponse(TypedDict):
    """A watcher that has something to review."""

    id: str
    watcher: str
    state: str
    causes: list[str]
    paths: list[str]
    due: Time
    run: str | None
    attempts: int
    reason: str | None


class TasksResponse(TypedDict):
    """All tasks, and whether work is paused."""

    tasks: list[TaskResponse]
    count: int
    paused: bool


class PlannedRunResponse(TypedDict):
    """One watcher that would wake."""

    watcher: str
    depth: int
    because: str
    patterns: list[str]


class PlanResponse(TypedDict):
    """What a change would set off at most."""

    path: str
    most_runs: int
    most_cost_usd: float
    runs: list[PlannedRunResponse]
    loops: list[list[str]]


class BubbleResponse(PlanResponse):
    """The same, set off."""

    cause: str
    tasks: list[str]


class PausedResponse(TypedDict):
    """Whether work is paused."""

    paused: bool


class ScanResponse(TypedDict):
    """How many files the vault holds."""

    files: int


_MODULE = "curator"


class NotePathRequest(RequestModel):
    """Which note."""

    path: Path


class RunScanRequest(RequestModel):
    """Whether files that are missing were meant to go."""

    accept_missing: Annotated[bool, Field(strict=True)] = False


class LoopRoutes:
    """The routes of the loop. A caller whose paths are limited sees the watchers there."""

    def __init__(
        self,
        *,
        store: Store,
        index: VaultIndex,
        watches: WatchRegistry,
        reviews: PendingChanges,
        queue: Queue,
        worker: Worker,
        reconciler: Reconciler,
        most_cost_usd: float,
    ) -> None:
        """`most_cost_usd` is the limit of one run."""
        self._store, self._index, self._watches, self._reviews = store, index, watches, reviews
        self._queue, self._worker, self._reconciler = queue, worker, reconciler
        self._most_cost_usd = most_cost_usd

    @get("/api/watches", _MODULE, "read", reach="paths")
    async def watches(self, call: ApiCall) -> WatchesResponse:
        """Who watches what."""
        watchers = [one.watcher for one in self._watches.all() if call.sight.sees(one.watcher)]
        watches = await asyncio.to_thread(
            lambda: [self._watch(watcher, call.sight) for watcher in watchers]
        )
        return {"watches": with_times(watches), "count": len(watches)}

    @get("/api/tasks", _MODULE, "read", reach="paths")
    async def tasks(self, call: ApiCall) -> TasksResponse:
        """List the tasks: watchers with changes to review."""
        tasks = [
            self._task(task, call.sight)
            for task in self._queue.all()
            if call.sight.sees(task.watcher)
        ]
        return {"tasks": tasks, "count": len(tasks), "paused": self._worker.paused}

    @post("/api/bubble/plan", _MODULE, "read", reach="paths", answers={200: PlanResponse})
    async def plan(self, call: ApiCall, body: NotePathRequest) -> dict[str, object]:
        """What a change to a note would trigger."""
        path = _visible(call, body.path)
        if self._index.get(path) is None and not self._watches.watchers_of(path):
            await asyncio.to_thread(
                self._store.root.read_head, call.sight.find(path), 0
            )  # a misspelled name must not read as no runs
        return call.runs.plan(plan_document(self._plan(path)))

    @post("/api/bubble/run", _MODULE, "write", reach="paths", answers={200: BubbleResponse})
    async def bubble(self, call: ApiCall, body: NotePathRequest) -> dict[str, object]:
        """Have the watchers of a note review it now."""
        path = _visible(call, body.path)
        plan = self._plan(path, looks=True)
        cause, tasks = self._reconciler.ask(path)
        seen = [task.id for task in tasks if call.sight.sees(task.watcher)]
        return {**call.runs.plan(plan_document(plan)), "cause": cause.id, "tasks": seen}

    def _plan(self, path: VaultPath, *, looks: bool = False) -> ChangePlan:
        """`looks`: where the note watches others, it looks at these too."""
        plan = plan_for(path, self._watches, most_cost_usd=self._most_cost_usd)
        own = self._watches.of(path) if looks else None
        if own is None or any(run.watcher == path for run in plan.runs):
            return plan
        run = PlannedRun(
            watcher=path,
            depth=0,
            because=path,
            patterns=tuple(pattern.text for pattern in own.patterns),
        )
        return replace(
            plan,
            runs=(run, *plan.runs),
            most_cost_usd=plan.most_cost_usd + self._most_cost_usd,
        )

    def _watch(self, watcher: str, sight: AccessFilter) -> WatchResponse:
        declaration = self._watches.of(watcher)
        return {
            "watcher": printable(watcher),
            "patterns": [pattern.text for pattern in declaration.patterns] if declaration else [],
            "problems": list(declaration.problems) if declaration else [],
            "unmatched": self._watches.unmatched(watcher)
            if sight.grant.alternatives is None
            else [],
            "watched": [
                printable(path) for path in self._watches.watched_by(watcher) if sight.sees(path)
            ],
            "unseen": [
                printable(one.path)
                for one in self._reviews.of(watcher)
                if sight.sees(one.path) and not one.is_of_all
            ],
            "since": self._watches.since(watcher),
        }

    def _task(self, task: Task, sight: AccessFilter) -> TaskResponse:
        waits_for = self._queue.waits_for(task)
        waited_for = printable(waits_for) if waits_for and sight.sees(waits_for) else "another"
        reason = task.reason or (f"waits for {waited_for}" if waits_for else None)
        return {
            "id": task.id,
            "watcher": printable(task.watcher),
            "state": task.state,
            "causes": list(task.causes),
            "paths": [
                printable(review.path)
                for review in self._reviews.of(task.watcher)
                if sight.sees(review.path)
            ],
            "due": time_of(task.due_at),
            "run": task.run,
            "attempts": task.attempts,
            "reason": reason,
        }


class WorkerRoutes:
    def __init__(self, worker: Worker, detector: ChangeDetector, index: VaultIndex) -> None:
        self._worker, self._detector, self._index = worker, detector, index

    @post("/api/pause", _MODULE, "admin", reach="beyond")
    async def pause(self) -> PausedResponse:
        """Start no runs until resumed."""
        self._worker.pause()
        return {"paused": True}

    @post("/api/resume", _MODULE, "admin", reach="beyond")
    async def resume(self) -> PausedResponse:
        """Resume starting runs."""
        self._worker.resume()
        return {"paused": False}

    @post("/api/scan", _MODULE, "admin", reach="beyond")
    async def scan(self, body: RunScanRequest) -> ScanResponse:
        """Compare the whole vault with the index now."""
        await self._detector.rescan(accept_missing=body.accept_missing)
        return {"files": len(self._index)}


def plan_document(plan: ChangePlan) -> dict[str, object]:
    return {
        "path": printable(plan.path),
        "most_runs": len(plan.runs),
        "most_cost_usd": round(plan.most_cost_usd, 4),
        "runs": [
            {
                "watcher": printable(run.watcher),
                "depth": run.depth,
                "because": printable(run.because),
                "patterns": list(run.patterns),
            }
            for run in plan.runs
        ],
        "loops": [[printable(path) for path in ring] for ring in plan.loops],
    }


def _visible(call: ApiCall, path: VaultPath) -> VaultPath:
    if not call.sight.sees(path):
        raise unknown(path)
    return path
