"""Loop: who watches, what waits, and what a change would set off."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, Path, RequestModel
from parachuted.bubbling import (
    ChangePlan,
    PendingChanges,
    Reconciler,
    StartedPlan,
    WatchDeclaration,
    WatchRegistry,
    plan_for,
)
from parachuted.events.watched_vault import WatchedVault
from parachuted.tasks import Queue, Task, Worker
from parachuted.vault import PathText, Store, VaultIndex, VaultPath, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWatch:
    """`unmatched`: which patterns match nothing."""

    watcher: PathText
    patterns: list[str]
    problems: tuple[str, ...]
    unmatched: list[str]
    watched: list[VaultPath]
    unseen: list[PathText]
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTask:
    id: str
    watcher: PathText
    state: Literal["queued", "running"]
    causes: tuple[str, ...]
    paths: list[PathText]
    due: datetime
    run: str | None
    attempts: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class TaskList:
    tasks: list[ListedTask]
    count: int
    paused: bool


_MODULE = "curator"


class NotePathRequest(RequestModel):
    path: Path


class RunScanRequest(RequestModel):
    """Whether files that are missing were meant to go."""

    accept_missing: Annotated[bool, Field(strict=True)] = False


class LoopRoutes:
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

    @get("/api/watches", _MODULE, "read", wrapped="watches", counted=True)
    async def watches(self) -> list[ListedWatch]:
        """Who watches what."""
        declared = self._watches.all()
        return await asyncio.to_thread(lambda: list(map(self._watch, declared)))

    @get("/api/tasks", _MODULE, "read")
    async def tasks(self) -> TaskList:
        """List the tasks: watchers with changes to review."""
        tasks = list(map(self._task, self._queue.all()))
        return TaskList(tasks, len(tasks), self._worker.paused)

    @post("/api/bubble/plan", _MODULE, "read")
    async def plan(self, call: ApiCall, body: NotePathRequest) -> ChangePlan:
        """What a change to a note would trigger."""
        path = body.path
        if self._index.get(path) is None and not self._watches.watchers_of(path):
            # a misspelled name must not read as no runs
            await asyncio.to_thread(self._store.root.read_head, call.files.find(path), 0)
        return plan_for(path, self._watches, most_cost_usd=self._most_cost_usd)

    @post("/api/bubble/run", _MODULE, "write")
    async def bubble(self, call: ApiCall, body: NotePathRequest) -> StartedPlan:
        """Have the watchers of a note review it now."""
        path = call.files.find(body.path)
        plan = plan_for(path, self._watches, most_cost_usd=self._most_cost_usd, looks=True)
        cause, tasks = self._reconciler.ask(path)
        planned = {field.name: getattr(plan, field.name) for field in fields(plan)}
        return StartedPlan(**planned, cause=cause.id, tasks=tuple(task.id for task in tasks))

    def _watch(self, declaration: WatchDeclaration) -> ListedWatch:
        watcher = declaration.watcher
        since = self._watches.since(watcher)
        return ListedWatch(
            watcher=watcher,
            patterns=[pattern.text for pattern in declaration.patterns],
            problems=declaration.problems,
            unmatched=self._watches.unmatched(watcher),
            watched=self._watches.watched_by(watcher),
            unseen=[change.path for change in self._reviews.of(watcher) if not change.is_of_all],
            since=datetime.fromisoformat(since) if since is not None else None,
        )

    def _task(self, task: Task) -> ListedTask:
        waits_for = self._queue.waits_for(task)
        return ListedTask(
            id=task.id,
            watcher=task.watcher,
            state=task.state,
            causes=task.causes,
            paths=[change.path for change in self._reviews.of(task.watcher)],
            due=task.due_at,
            run=task.run,
            attempts=task.attempts,
            reason=task.reason or (f"waits for {printable(waits_for)}" if waits_for else None),
        )


class WorkerRoutes:
    def __init__(self, worker: Worker, watched: WatchedVault) -> None:
        self._worker, self._watched = worker, watched

    @post("/api/pause", _MODULE, "admin", wrapped="paused")
    async def pause(self) -> bool:
        """Start no runs until resumed."""
        self._worker.pause()
        return True

    @post("/api/resume", _MODULE, "admin", wrapped="paused")
    async def resume(self) -> bool:
        """Resume starting runs."""
        self._worker.resume()
        return False

    @post("/api/scan", _MODULE, "admin", wrapped="files")
    async def scan(self, body: RunScanRequest) -> int:
        """Compare the whole vault with the index now; how many files there are."""
        await self._watched.detector.rescan(accept_missing=body.accept_missing)
        return len(self._watched.index)
