"""Polled: schedule, usage and models, which apps ask for often. Answered from memory."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.usage import UsageReport
from parachuted.agents.models import AgentModel, models_of
from parachuted.api.flutter import AccountUsage, SessionScan
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import AppRequestModel
from parachuted.events.watched_vault import WatchedVault
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.schedules import ModuleSchedule
from parachuted.tasks import Budget, RunCounts
from parachuted.vault import RunSpending, printable

_MODULE = "system"
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

    @get("/api/scheduler", _MODULE, "read", wrapped="jobs", counted=True)
    async def schedule(self) -> list[ScheduledJob]:
        """List the scheduled jobs."""
        return self._jobs()

    @post("/api/scheduler/reload", _MODULE, "admin")
    async def reload(self) -> ReloadedSchedule:
        """Return the number of scheduled jobs; settings are read only at a start."""
        return ReloadedSchedule("ok", len(self._jobs()))

    @get("/api/usage", _MODULE, "read", for_app=True)
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

    @get("/api/migration/scan", _MODULE, "admin")
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

    @post("/api/migration/all", _MODULE, "admin")
    @post("/api/migration/session/{id}", _MODULE, "admin")
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
