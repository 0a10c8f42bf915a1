"""Polled: what apps ask for again and again: the schedule, usage, the daemon as a supervisor would
show it. Answered from memory.

Where there is nothing to tell yet, that is told in the shape that the app reads.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from datetime import UTC
from typing import Annotated

from pydantic import Field

from parachuted import __version__
from parachuted.api.http.decorators import get, post
from parachuted.api.http.fields import AppRequestModel
from parachuted.api.http.parts import ApiParts
from parachuted.api.routes import polled_documents as told
from parachuted.modules.hosting.scheduler import ModuleSchedule
from parachuted.times import time_of
from parachuted.vault import printable

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

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
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
        windows = (
            self._parts.gateway.windows(self._parts.clock())
            if self._parts.gateway is not None
            else {}
        )
        return {
            **dict.fromkeys(_UNKNOWN),
            "five_hour": windows.get("5h"),
            "seven_day": windows.get("7d"),
            "windows": windows,
            **known,
            "spent": spent,
        }

    @get("/supervisor/status", _MODULE, "admin", reach="beyond")
    async def supervisor(self) -> told.SupervisorResponse:
        """The daemon's state, for the app's supervisor page.

        The real supervisor is systemd or launchd.
        """
        uptime = max(0, int((self._parts.clock() - self._parts.started).total_seconds()))
        return {
            "supervisor_uptime_seconds": uptime,
            "supervisor_version": __version__,
            "main_server_healthy": not self._parts.problems.all(),
            "main_server_status": "running",
            "config_loaded": True,
            "main_server_uptime_seconds": uptime,
            "main_server_version": __version__,
            "main_server_port": self._parts.port(),
        }

    @get("/api/migration/scan", _MODULE, "admin", reach="beyond")
    async def scan_sessions(self) -> told.SessionScanResponse:
        """Sessions still in an older server's place: none.

        Sessions are files of the vault.
        """
        index = self._parts.index
        count = sum(
            name.endswith(".md")
            for folder in index.below(_SESSIONS)
            for name in index.files(folder)
        )
        vault = printable(str(self._parts.vault))
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

    def _jobs(self) -> list[told.ScheduledJobResponse]:
        says = "Look through the whole vault for what no event told."
        scan: told.ScheduledJobResponse = {
            "name": "full_scan",
            "module": None,
            "every_s": self._parts.full_every_s,
            "at": None,
            "next_at": None,
            "description": says,
        }
        return [scan, *map(_job, self._parts.modules.schedules())]

    def _counted(self, days: int) -> tuple[dict[str, object], dict[str, object] | None]:
        """What runs took, and what the gateway counted, where there is one. Blocks."""
        gateway = self._parts.gateway
        if gateway is None:
            return self._spent(), None
        limits = {**asdict(gateway.limits), "usd_per_run": self._parts.most_cost_usd}
        now = self._parts.clock()
        notes = gateway.price_notes(gateway.usage_store.models(now, days))
        return self._spent(), {
            "days_told": days,
            "limits": limits,
            "notes": notes,
            **gateway.usage_store.report(now, days),
        }

    def _spent(self) -> dict[str, object]:
        now = self._parts.clock()
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        today = {"date": f"{midnight:%Y-%m-%d}", **self._parts.history.spent(midnight)}
        budget = self._parts.budget
        return {"today": today, "budget": {**budget.used(), **asdict(budget.limits)}}


def _job(schedule: ModuleSchedule) -> told.ScheduledJobResponse:
    module, spec = schedule.name.partition("/")[0], schedule.spec
    return {
        "name": schedule.name,
        "module": module,
        "every_s": spec.every_s,
        "at": spec.at,
        "next_at": time_of(schedule.next),
        "description": f"{spec.handler} of the module {module}",
    }
