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

from parachuted.agents.gateway import Gateway
from parachuted.api.http.decorators import get, post
from parachuted.api.http.fields import AppRequestModel
from parachuted.api.routes import polled_documents as told
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.scheduler import ModuleSchedule
from parachuted.tasks import Budget
from parachuted.times import time_of
from parachuted.vault import History, VaultIndex, printable

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
    """Its routes."""

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
    async def schedule(self) -> told.ScheduleResponse:
        """List the scheduled jobs."""
        jobs = self._jobs()
        return {"jobs": jobs, "count": len(jobs)}

    @post("/api/scheduler/reload", _MODULE, "admin", reach="beyond")
    async def reload(self) -> told.ReloadResponse:
        """Return the number of scheduled jobs; settings are read only at a start."""
        return {"status": "ok", "count": len(self._jobs())}

    @get("/api/usage", _MODULE, "read", reach="beyond", answers={200: told.UsageResponse})
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

    def _jobs(self) -> list[told.ScheduledJobResponse]:
        says = "Look through the whole vault for what no event told."
        scan: told.ScheduledJobResponse = {
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
    async def scan_sessions(self) -> told.SessionScanResponse:
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
    ) -> told.SessionMigrationResponse:
        """Does nothing: no session needs migrating."""
        return {"migrated": 0, "failed": 0, "total": 0, "success": True, "error": None}


def _job(schedule: ModuleSchedule) -> told.ScheduledJobResponse:
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
