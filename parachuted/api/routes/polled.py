"""Polled: what apps ask for again and again: the schedule and usage. Answered from memory.

Where nothing is known yet, the answer says so in the shape that the app reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.agents.gateway import Gateway
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import AppRequestModel
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.schedules import ModuleSchedule
from parachuted.tasks import Budget
from parachuted.times import Time, time_of
from parachuted.vault import History, VaultIndex, printable


class ScheduledJobResponse(TypedDict):
    """What the daemon or a module does by the clock: `every_s` in seconds, each day `at` a time, or
    as `cron` says, in `timezone` or else in the machine's.
    """

    name: str
    module: str | None
    every_s: float | None
    at: str | None
    cron: str | None
    timezone: str | None
    next_at: str | None
    description: str


class ScheduleResponse(TypedDict):
    """All of it."""

    jobs: list[ScheduledJobResponse]
    count: int


class ReloadResponse(TypedDict):
    """That the schedule stands as it is."""

    status: str
    count: int


class UsageWindowResponse(TypedDict):
    """How much of an account's allowance is used, in percent."""

    utilization: float
    resets_at: Time | None


class ExtraUsageResponse(TypedDict):
    """What was used beyond it."""

    is_enabled: bool
    monthly_limit: int
    used_credits: float
    utilization: float


class TodayUsageResponse(TypedDict):
    """What runs took since midnight UTC."""

    date: str
    runs: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


class BudgetsResponse(TypedDict):
    """How many runs there were, and may be."""

    runs_last_hour: int
    runs_last_day: int
    runs_per_hour: int
    runs_per_day: int
    runs_per_cause: int


class MoneyLimitsResponse(TypedDict):
    """US dollars that may be spent, in a run, for all that one change leads to, in an hour and in a
    day; and beside that in one session of conversation, and in all conversations of a day.
    """

    usd_per_run: float
    usd_per_cause: float
    usd_per_hour: float
    usd_per_day: float
    usd_per_session: float
    conversations_usd_per_day: float


class UsageSumResponse(TypedDict):
    """A sum of requests to the model; `input_tokens` are those that the cache had no part in."""

    requests: int
    usd: float
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_written_tokens: int


class DayUsageResponse(UsageSumResponse):
    """Of a day, in UTC."""

    date: str


class AgentUsageResponse(UsageSumResponse):
    """Of an agent."""

    agent: str


class ModelUsageResponse(UsageSumResponse):
    """Of a model."""

    model: str


class CauseUsageResponse(UsageSumResponse):
    """Of all that one change led to; a run with several causes counts for each."""

    cause: str


class SessionUsageResponse(UsageSumResponse):
    """Of a session of an agent."""

    session: str


class RunUsageResponse(UsageSumResponse):
    """Of a run."""

    run: str


class UsageSummaryResponse(TypedDict):
    """What the model cost, counted from its own answers; the dearest 20 of a kind.

    For a key that sees a part of the vault, only sums.
    """

    days_told: int
    since: Time
    usd_last_hour: float
    usd_last_day: float
    usd_last_day_conversations: float
    limits: MoneyLimitsResponse
    notes: list[str]
    total: UsageSumResponse
    days: list[DayUsageResponse]
    agents: list[AgentUsageResponse]
    models: list[ModelUsageResponse]
    causes: list[CauseUsageResponse]
    sessions: list[SessionUsageResponse]
    runs: list[RunUsageResponse]


class UsageResponse(TypedDict):
    """The account's windows as far as they are known, and what this daemon's runs took; `spent`
    None: with no model, nothing is.

    `windows` has each by the name that the model's server gives it; `five_hour` and `seven_day` are
    `5h` and `7d` among them, and the app's others are not told by any answer.
    """

    five_hour: UsageWindowResponse | None
    seven_day: UsageWindowResponse | None
    seven_day_sonnet: UsageWindowResponse | None
    seven_day_opus: UsageWindowResponse | None
    windows: dict[str, UsageWindowResponse]
    extra_usage: ExtraUsageResponse | None
    subscription_type: str | None
    rate_limit_tier: str | None
    error: str | None
    today: TodayUsageResponse
    budget: BudgetsResponse
    spent: UsageSummaryResponse | None


class OldSessionResponse(TypedDict):
    """A session that an older server left in another place; there are none."""

    sessionId: str
    title: str
    oldVaultRoot: str
    workingDirectory: str | None
    transcriptExists: bool
    transcriptPath: str | None
    createdAt: Time | None


class SessionScanResponse(TypedDict):
    """Sessions still in an older server's place: none."""

    currentVaultRoot: str
    needsMigration: list[OldSessionResponse]
    alreadyCurrent: int
    noVaultRoot: int
    total: int


class SessionMigrationResponse(TypedDict):
    """What was moved."""

    migrated: int
    failed: int
    total: int
    success: bool
    error: str | None


_MODULE = "system"
_SESSIONS = "Chat/sessions"
_USAGE_IS_KEPT_S = 5.0
_MOST_DAYS = 90
_UNKNOWN = (
    "seven_day_sonnet",
    "seven_day_opus",
    "extra_usage",
    "subscription_type",
    "rate_limit_tier",
    "error",
)


class MigrateSessionsRequest(AppRequestModel):
    """Whether transcripts are to be copied; nothing is moved, so nothing is copied."""

    copy_transcripts: Annotated[bool, Field(strict=True)] = False
    copy_transcript: Annotated[bool, Field(strict=True)] = False


class UsageQuery(AppRequestModel):
    """Over how many days, today among them."""

    days: Annotated[int, Field(ge=1, le=_MOST_DAYS)] = 7


class PolledRoutes:
    def __init__(
        self,
        *,
        modules: ModuleManager,
        history: History,
        budget: Budget,
        gateway: Gateway | None,
        clock: Callable[[], datetime],
        most_cost_usd: float,
        full_every_s: float,
    ) -> None:
        """`most_cost_usd` is the limit of one run, `full_every_s` how often the whole vault is
        looked through.
        """
        self._modules, self._history, self._budget, self._gateway = (
            modules,
            history,
            budget,
            gateway,
        )
        self._clock, self._most_cost_usd, self._full_every_s = clock, most_cost_usd, full_every_s
        self._usage: dict[int, tuple[float, dict[str, object], dict[str, object] | None]] = {}

    @get("/api/scheduler", _MODULE, "read", reach="nothing")
    async def schedule(self) -> ScheduleResponse:
        """List the scheduled jobs."""
        jobs = self._jobs()
        return {"jobs": jobs, "count": len(jobs)}

    @post("/api/scheduler/reload", _MODULE, "admin", reach="beyond")
    async def reload(self) -> ReloadResponse:
        """Return the number of scheduled jobs; settings are read only at a start."""
        return {"status": "ok", "count": len(self._jobs())}

    @get("/api/usage", _MODULE, "read", reach="beyond", answers={200: UsageResponse})
    async def usage(self, query: UsageQuery) -> dict[str, object]:
        """Today's usage, the model's cost, and the account's limits as far as known.

        What the account has left is read from the model's answers, without a request of its own.
        """
        now, days = time.monotonic(), query.days
        counted, known, spent = self._usage.get(days, (-_USAGE_IS_KEPT_S, {}, None))
        if now - counted >= _USAGE_IS_KEPT_S:
            known, spent = await asyncio.to_thread(self._counted, days)
            self._usage[days] = (now, known, spent)
        windows = self._gateway.windows(self._clock()) if self._gateway is not None else {}
        return {
            **dict.fromkeys(_UNKNOWN),
            "five_hour": windows.get("5h"),
            "seven_day": windows.get("7d"),
            "windows": windows,
            **known,
            "spent": spent,
        }

    def _jobs(self) -> list[ScheduledJobResponse]:
        says = "Look through the whole vault for what no event told."
        scan: ScheduledJobResponse = {
            "name": "full_scan",
            "module": None,
            "every_s": self._full_every_s,
            "at": None,
            "cron": None,
            "timezone": None,
            "next_at": None,
            "description": says,
        }
        return [scan, *map(_job, self._modules.schedules())]

    def _counted(self, days: int) -> tuple[dict[str, object], dict[str, object] | None]:
        """What runs took, and what the gateway counted, where there is one. Blocks."""
        gateway = self._gateway
        if gateway is None:
            return self._spent(), None
        limits = {**asdict(gateway.limits), "usd_per_run": self._most_cost_usd}
        now = self._clock()
        notes = gateway.price_notes(gateway.usage_store.models(now, days))
        return self._spent(), {
            "days_told": days,
            "limits": limits,
            "notes": notes,
            **gateway.usage_store.report(now, days),
        }

    def _spent(self) -> dict[str, object]:
        now = self._clock()
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        today = {"date": f"{midnight:%Y-%m-%d}", **self._history.spent(midnight)}
        budget = self._budget
        return {"today": today, "budget": {**budget.used(), **asdict(budget.limits)}}


class SessionMigrationRoutes:
    """What the app asks about sessions of the older server; here they are files of the vault."""

    def __init__(self, index: VaultIndex, vault: Path) -> None:
        self._index, self._vault = index, vault

    @get("/api/migration/scan", _MODULE, "admin", reach="beyond")
    async def scan_sessions(self) -> SessionScanResponse:
        """Sessions still in an older server's place: none.

        Sessions are files of the vault.
        """
        index = self._index
        count = sum(
            name.endswith(".md")
            for folder in index.below(_SESSIONS)
            for name in index.files(folder)
        )
        vault = printable(str(self._vault))
        return {
            "currentVaultRoot": vault,
            "needsMigration": [],
            "alreadyCurrent": count,
            "noVaultRoot": 0,
            "total": count,
        }

    @post("/api/migration/all", _MODULE, "admin", reach="beyond")
    @post("/api/migration/session/{id}", _MODULE, "admin", reach="beyond")
    async def move_sessions(
        self,
        body: MigrateSessionsRequest,  # noqa: ARG002  only checked
    ) -> SessionMigrationResponse:
        """Does nothing: no session needs migrating."""
        return {"migrated": 0, "failed": 0, "total": 0, "success": True, "error": None}


def _job(schedule: ModuleSchedule) -> ScheduledJobResponse:
    module, timing = schedule.name.partition("/")[0], schedule.timing
    return {
        "name": schedule.name,
        "module": module,
        "every_s": timing.every_s,
        "at": timing.at,
        "cron": timing.cron,
        "timezone": timing.timezone,
        "next_at": time_of(schedule.next),
        "description": f"{schedule.handler} of the module {module}",
    }
