"""Polled: what apps ask for again and again is told as it is, also where there is nothing to
tell.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from parachuted import __version__
from parachuted.testing import ScriptedBackend, say
from tests.api.calls import get, noticed, post
from tests.stories.daemon_rig import DaemonRig, Live, note, save


async def test_the_schedule_is_that_of_the_settings(live: Live):
    async with live(scan__full_every_s=300) as daemon_rig:
        schedule = await get(daemon_rig, "/api/scheduler")
        assert [(job["name"], job["every_s"]) for job in schedule["jobs"]] == [("full_scan", 300.0)]
        reloaded = await post(daemon_rig, "/api/scheduler/reload")
        assert reloaded == {"status": "ok", "count": schedule["count"]}


async def test_usage_counts_what_runs_took_since_midnight(live: Live, vault: Path):
    now = [datetime(2026, 11, 22, 23, 59, tzinfo=UTC)]
    garden = vault / "Projects/garden/AGENTS.md"
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(garden, note("Garden"))
    backend = ScriptedBackend([say("hm")], cost_usd=0.125)
    async with live(backend, clock=lambda: now[0]) as daemon_rig:
        history = daemon_rig.daemon.watched.history
        assert (await get(daemon_rig, "/api/usage"))["today"]["runs"] == 0
        save(garden, note("Garden", focus="- sow"))
        await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
        now[0] += timedelta(seconds=30)
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.until(lambda: history.spent(now[0] - timedelta(hours=1)).cost_usd)
        assert history.spent(now[0] + timedelta(minutes=1)).runs == 0
    now[0] += timedelta(seconds=10)
    async with live(clock=lambda: now[0]) as daemon_rig:
        usage = await get(daemon_rig, "/api/usage")
        tokens = {"input_tokens": 0, "output_tokens": 0}
        assert usage["today"] == {"date": "2026-11-22", "runs": 1, "cost_usd": 0.125, **tokens}
        assert usage["budget"]["runs_last_day"] == 1
        unknown = (
            *("five_hour", "seven_day", "seven_day_sonnet", "seven_day_opus", "extra_usage"),
            *("subscription_type", "rate_limit_tier", "error"),
        )
        assert {usage[name] for name in unknown} == {None}
    now[0] += timedelta(minutes=2)
    async with live(clock=lambda: now[0]) as daemon_rig:
        assert (await get(daemon_rig, "/api/usage"))["today"]["runs"] == 0


async def test_the_supervisor_s_page_tells_of_the_same_daemon(daemon_rig: DaemonRig):
    status = await get(daemon_rig, "/supervisor/status")
    daemon_rig.daemon.watched.problems.set("disk", "it is full")
    ill = await get(daemon_rig, "/supervisor/status")

    assert status == status | {
        "main_server_port": daemon_rig.daemon.port,
        "main_server_version": __version__,
        "main_server_status": "running",
        "config_loaded": True,
    }
    assert (status["main_server_healthy"], ill["main_server_healthy"]) == (True, False)
    assert 0 <= status["supervisor_uptime_seconds"] < 60


async def test_sessions_are_files_of_the_vault_so_none_has_to_be_moved(
    vault: Path, daemon_rig: DaemonRig
):
    save(vault / "Chat/sessions/a.md", "# A\n")
    save(vault / "Chat/sessions/old/b.md", "# B\n")
    await noticed(daemon_rig)
    scan = await get(daemon_rig, "/api/migration/scan")
    moved = await post(daemon_rig, "/api/migration/session/x", {"copyTranscript": True})

    assert (scan["needsMigration"], scan["alreadyCurrent"], scan["total"]) == ([], 2, 2)
    assert moved == {"migrated": 0, "failed": 0, "total": 0, "success": True, "error": None}
