"""Loop: who watches, what waits, and what a change would set off; schedule, usage and models, which
apps ask for often and which are answered from memory.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.usage import UsageReport
from parachuted.agents.models import AgentModel, models_of
from parachuted.api.flutter import AccountUsage, SessionScan
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, AppRequestModel, Path, RequestModel
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
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.schedules import ModuleSchedule
from parachuted.tasks import Budget, Queue, RunCounts, Task, Worker
from parachuted.vault import PathText, RunSpending, Store, VaultIndex, VaultPath, printable


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


_SYSTEM = "system"
_SESSIONS = "Chat/sessions"
_USAGE_IS_KEPT_S = 5.0
_MOST_DAYS = 90
_Counted: TypeAlias = tuple[RunSpending, RunCounts, UsageReport | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """`every_s` seconds, each day `at` a time, or as `cron` says; `timezone` or the machine's."""

    name: str
    module: str | None = None
    every_s: float | None = None
    at: str | None = None
    cron: str | None = None
    timezone: str | None = None
    next_at: datetime | None = None
    description: str


@dataclass(frozen=True, slots=True)
class ReloadedSchedule:
    status: Literal["ok"]
    count: int


@dataclass(frozen=True, slots=True)
class MigratedSessions:
    migrated: int = 0
    failed: int = 0
    total: int = 0
    success: bool = True
    error: str | None = None


class MigrateSessionsRequest(AppRequestModel):
    copy_transcripts: Annotated[bool, Field(strict=True)] = False
    copy_transcript: Annotated[bool, Field(strict=True)] = False


class PolledRoutes:
    def __init__(
        self, watched: WatchedVault, modules: ModuleManager, budget: Budget, gateway: Gateway | None
    ) -> None:
        self._watched, self._modules = watched, modules
        self._budget, self._gateway = budget, gateway
        self._usage: dict[int, tuple[float, _Counted]] = {}

    @get("/api/scheduler", _SYSTEM, "read", wrapped="jobs", counted=True)
    async def schedule(self) -> list[ScheduledJob]:
        """List the scheduled jobs."""
        return self._jobs()

    @post("/api/scheduler/reload", _SYSTEM, "admin")
    async def reload(self) -> ReloadedSchedule:
        """Return the number of scheduled jobs; settings are read only at a start."""
        return ReloadedSchedule("ok", len(self._jobs()))

    @get("/api/usage", _SYSTEM, "read", for_app=True)
    async def usage(self, days: Annotated[int, Field(ge=1, le=_MOST_DAYS)] = 7) -> AccountUsage:
        """Today's usage, the model's cost, and the account's limits as far as known.

        `days`: over how many, today among them. What the account has left is read from the model's
        answers, without a request of its own.
        """
        now = time.monotonic()
        at, counted = self._usage.get(days, (0.0, None))
        if counted is None or now - at >= _USAGE_IS_KEPT_S:
            counted = await asyncio.to_thread(self._counted, days)
            self._usage[days] = (now, counted)
        today, budget, spent = counted
        windows = self._gateway.windows(self._watched.clock()) if self._gateway is not None else {}
        return AccountUsage(
            five_hour=windows.get("5h"),
            seven_day=windows.get("7d"),
            windows=windows,
            today=today,
            budget=budget,
            spent=spent,
        )

    @get("/api/migration/scan", _SYSTEM, "admin")
    async def scan_sessions(self) -> SessionScan:
        """Sessions still in an older server's place: none.

        Sessions are files of the vault.
        """
        count = sum(
            name.endswith(".md")
            for folder in self._watched.index.below(_SESSIONS)
            for name in self._watched.index.files(folder)
        )
        return {
            "currentVaultRoot": printable(str(self._watched.settings.vault)),
            "needsMigration": [],
            "alreadyCurrent": count,
            "noVaultRoot": 0,
            "total": count,
        }

    @post("/api/migration/all", _SYSTEM, "admin")
    @post("/api/migration/session/{id}", _SYSTEM, "admin")
    async def move_sessions(
        self,
        body: MigrateSessionsRequest,  # noqa: ARG002  only checked
    ) -> MigratedSessions:
        """Does nothing: no session needs migrating."""
        return MigratedSessions()

    def _jobs(self) -> list[ScheduledJob]:
        scan = ScheduledJob(
            name="full_scan",
            every_s=self._watched.settings.scan.full_every_s,
            description="Look through the whole vault for what no event told.",
        )
        return [scan, *map(_job, self._modules.scheduler.schedules())]

    def _counted(self, days: int) -> _Counted:
        """Blocks."""
        now = self._watched.clock()
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        spent = self._gateway.usage_store.report(now, days) if self._gateway is not None else None
        return self._watched.history.spent(midnight), self._budget.counts(), spent


def _job(schedule: ModuleSchedule) -> ScheduledJob:
    return ScheduledJob(
        **asdict(schedule.timing),
        name=schedule.key,
        module=schedule.module,
        next_at=schedule.due,
        description=f"{schedule.method} of the module {schedule.module}",
    )


@dataclass(frozen=True, slots=True)
class ModelList:
    """Known without a request; `current` is the one that is set."""

    models: list[AgentModel]
    current: str


class ModelRoutes:
    def __init__(self, current: str) -> None:
        self._current = current

    @get("/api/models", "system", "read", for_app=True)
    @get("/supervisor/models", "system", "read", for_app=True)
    async def models(self, show_all: str = "") -> ModelList:
        """List the models that runs may use.

        The latest of each family and the configured one, or all.
        """
        everything, current = show_all.lower() in {"true", "1"}, self._current
        models = [
            model
            for model in models_of(current)
            if everything or model.is_latest or model.id == current
        ]
        return ModelList(models, current)
