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

from aiohttp import web
from pydantic import Field

from parachuted import __version__
from parachuted.api.http.answers import json_answer
from parachuted.api.http.fields import AppRequestModel
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall, Route
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

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(
                method="GET",
                path="/api/scheduler",
                module=_MODULE,
                capability="read",
                reach="nothing",
                handle=self.schedule,
                summary="What the daemon does by the clock.",
                answers={200: told.ScheduleResponse},
            ),
            Route(
                method="POST",
                path="/api/scheduler/reload",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.reload,
                summary="Take the schedule up anew; it is that of the settings, which are read at "
                "a start.",
                answers={200: told.ReloadResponse},
            ),
            Route(
                method="GET",
                path="/api/usage",
                module=_MODULE,
                capability="read",
                reach="beyond",
                handle=self.usage,
                query=UsageQuery,
                answers={200: told.UsageResponse},
                summary="What runs took today, what the model cost, and the account's allowance "
                "as far as known.",
            ),
            Route(
                method="GET",
                path="/supervisor/status",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.supervisor,
                summary="The daemon, as the app's supervisor page shows it.",
                answers={200: told.SupervisorResponse},
            ),
            Route(
                method="GET",
                path="/api/migration/scan",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.scan_sessions,
                summary="Sessions that lie where an older server kept them.",
                answers={200: told.SessionScanResponse},
            ),
            Route(
                method="POST",
                path="/api/migration/all",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.move_sessions,
                body=MigrateSessionsRequest,
                summary="Move such sessions; there are none to move.",
                answers={200: told.SessionMigrationResponse},
            ),
            Route(
                method="POST",
                path="/api/migration/session/{id}",
                module=_MODULE,
                capability="admin",
                reach="beyond",
                handle=self.move_sessions,
                body=MigrateSessionsRequest,
                summary="Move one such session; there is none to move.",
                answers={200: told.SessionMigrationResponse},
            ),
        ]

    async def schedule(self, _call: ApiCall) -> web.Response:
        """`GET /api/scheduler`."""
        jobs = self._jobs()
        return json_answer({"jobs": jobs, "count": len(jobs)})

    async def reload(self, _call: ApiCall) -> web.Response:
        """`POST /api/scheduler/reload`."""
        return json_answer({"status": "ok", "count": len(self._jobs())})

    async def usage(self, call: ApiCall) -> web.Response:
        """`GET /api/usage[?days=N]`.

        What the account has left is known from the model's answers; no request is made for it.
        """
        now, days = time.monotonic(), call.query(UsageQuery).days
        counted, known, spent = self._usage.get(days, (-_USAGE_IS_KEPT_S, {}, None))
        if now - counted >= _USAGE_IS_KEPT_S:
            known, spent = await asyncio.to_thread(self._counted, days)
            self._usage[days] = (now, known, spent)
        windows = (
            self._parts.gateway.windows(self._parts.clock())
            if self._parts.gateway is not None
            else {}
        )
        told = {"five_hour": windows.get("5h"), "seven_day": windows.get("7d"), "windows": windows}
        return json_answer({**dict.fromkeys(_UNKNOWN), **told, **known, "spent": spent})

    async def supervisor(self, _call: ApiCall) -> web.Response:
        """`GET /supervisor/status`: systemd or launchd supervises; this is the daemon's own
        word.
        """
        uptime = max(0, int((self._parts.clock() - self._parts.started).total_seconds()))
        return json_answer(
            {
                "supervisor_uptime_seconds": uptime,
                "supervisor_version": __version__,
                "main_server_healthy": not self._parts.problems.all(),
                "main_server_status": "running",
                "config_loaded": True,
                "main_server_uptime_seconds": uptime,
                "main_server_version": __version__,
                "main_server_port": self._parts.port(),
            }
        )

    async def scan_sessions(self, _call: ApiCall) -> web.Response:
        """`GET /api/migration/scan`: sessions are files of the vault, so each is where it
        belongs.
        """
        index = self._parts.index
        count = sum(
            name.endswith(".md")
            for folder in index.below(_SESSIONS)
            for name in index.files(folder)
        )
        vault = printable(str(self._parts.vault))
        return json_answer(
            {
                "currentVaultRoot": vault,
                "needsMigration": [],
                "alreadyCurrent": count,
                "noVaultRoot": 0,
                "total": count,
            }
        )

    async def move_sessions(self, call: ApiCall) -> web.Response:
        """`POST /api/migration/all` and `/api/migration/session/{id}`: nothing is to be moved, and
        nothing is.
        """
        await call.body(MigrateSessionsRequest)
        return json_answer({"migrated": 0, "failed": 0, "total": 0, "success": True, "error": None})

    def _jobs(self) -> list[dict[str, object]]:
        says = "Look through the whole vault for what no event told."
        scan: dict[str, object] = {
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


def _job(schedule: ModuleSchedule) -> dict[str, object]:
    module, spec = schedule.name.partition("/")[0], schedule.spec
    return {
        "name": schedule.name,
        "module": module,
        "every_s": spec.every_s,
        "at": spec.at,
        "next_at": time_of(schedule.next),
        "description": f"{spec.handler} of the module {module}",
    }
