from __future__ import annotations

import os
import time

from parachuted import __version__
from tests.api.calls import ELSEWHERE, expect, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, note, save


async def test_it_says_that_all_is_well_and_no_more(daemon_rig: DaemonRig):
    health = await get(daemon_rig, "/api/health")

    assert {**health, "timestamp": 0} == {"status": "ok", "version": __version__, "timestamp": 0}
    assert type(health["timestamp"]) is int
    assert abs(health["timestamp"] / 1000 - time.time()) < 60


async def test_its_details_are_what_is_watched_what_waits_and_what_was_spent(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "b\udcff.md", note("Odd", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    async with live() as daemon_rig:
        health = await get(daemon_rig, "/api/health?detailed=true")
        await post(daemon_rig, "/api/pause")
        save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow"))
        await daemon_rig.until(lambda: len(daemon_rig.reported("task.queued")) == 2)
        later = await get(daemon_rig, "/api/health?detailed=true")
        watches = (await get(daemon_rig, "/api/watches"))["watches"]
        tasks = (await get(daemon_rig, "/api/tasks"))["tasks"]

    assert health["pid"] == os.getpid()
    assert isinstance(health["uptime"], float)
    assert health["vault"].pop("watched_by") in {"events", "polling"}
    assert health["vault"] == {"path": str(vault), "files": 3, "watchers": 2}
    assert health["agent"] == {"backend": "offline", "reason": "for a test", "paused": False}
    assert health["tasks"] == {"queued": 0, "running": 0}
    assert health["docker"] == {"available": False, "image_exists": False}
    assert (health["waiting"], health["problems"], health["freshness"]) == ([], {}, {"behind": []})
    assert health["budget"] == health["budget"] | {"runs_last_hour": 0, "runs_per_hour": 60}
    assert later["agent"]["paused"] is True
    assert later["tasks"] == {"queued": 2, "running": 0}
    both = ["AGENTS.md", "b\\xff.md"]  # a name that no terminal and no JSON takes is escaped
    assert sorted(later["freshness"]["behind"]) == both
    for listed in (watches, tasks):
        assert sorted(one["watcher"] for one in listed) == both


async def test_a_problem_makes_it_degraded_until_it_is_gone(daemon_rig: DaemonRig):
    daemon_rig.daemon.watched.problems.set("weather", "it rains")
    assert (await get(daemon_rig, "/api/health"))["status"] == "degraded"
    assert (await get(daemon_rig, "/api/health?detailed=true"))["problems"] == {
        "weather": "it rains"
    }
    daemon_rig.daemon.watched.problems.set("weather", None)
    assert (await get(daemon_rig, "/api/health"))["status"] == "ok"


async def test_details_are_for_this_machine_and_for_keys_that_may_read_all_notes(
    vault, daemon_rig: DaemonRig
):
    for key, is_whole in (
        (key_of(daemon_rig, "vault:read"), True),
        (key_of(daemon_rig, "*:read", paths=("**",)), False),
        (key_of(daemon_rig, "chat:write"), False),
        (ELSEWHERE, False),
    ):
        health = await expect(daemon_rig, 200, "GET", "/api/health?detailed", headers=key)
        assert (set(health) > {"status", "version", "timestamp"}) is is_whole
        assert not is_whole or health["vault"]["path"] == str(vault)
