from __future__ import annotations

import os
import time

from parachuted import __version__
from tests.api.calls import ELSEWHERE, call, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, note, save


async def test_it_says_that_all_is_well_and_no_more(live: Live):
    async with live() as daemon_rig:
        health = await get(daemon_rig, "/api/health")

    assert {**health, "timestamp": 0} == {"status": "ok", "version": __version__, "timestamp": 0}
    assert type(health["timestamp"]) is int
    assert abs(health["timestamp"] / 1000 - time.time()) < 60


async def test_asked_for_details_it_tells_what_is_watched_what_waits_and_what_was_spent(
    live: Live, vault
):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    async with live() as daemon_rig:
        health = await get(daemon_rig, "/api/health?detailed=true")

    assert health["pid"] == os.getpid()
    assert isinstance(health["uptime"], float)
    assert health["vault"] == {
        "path": str(vault),
        "files": 2,
        "watchers": 1,
        "watched_by": health["vault"]["watched_by"],
    }
    assert health["vault"]["watched_by"] in {"events", "polling"}
    assert health["agent"] == {"backend": "offline", "reason": "for a test", "paused": False}
    assert health["tasks"] == {"queued": 0, "running": 0}
    assert health["docker"] == {"available": False, "image_exists": False}
    assert (health["waiting"], health["problems"], health["freshness"]) == ([], {}, {"behind": []})
    assert health["budget"]["runs_last_hour"] == 0
    assert health["budget"]["runs_per_hour"] == 60


async def test_a_problem_makes_it_degraded_until_it_is_gone(daemon_rig: DaemonRig):
    daemon_rig.daemon.watched.problems.set("weather", "it rains")
    assert (await get(daemon_rig, "/api/health"))["status"] == "degraded"
    assert (await get(daemon_rig, "/api/health?detailed=true"))["problems"] == {
        "weather": "it rains"
    }
    daemon_rig.daemon.watched.problems.set("weather", None)
    assert (await get(daemon_rig, "/api/health"))["status"] == "ok"


async def test_a_task_that_waits_and_a_watcher_that_is_behind_are_shown(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    async with live() as daemon_rig:
        await post(daemon_rig, "/api/pause")
        save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow"))
        await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
        health = await get(daemon_rig, "/api/health?detailed=true")

    assert health["agent"]["paused"] is True
    assert health["tasks"] == {"queued": 1, "running": 0}
    assert health["freshness"] == {"behind": ["AGENTS.md"]}


async def test_names_that_no_terminal_or_json_takes_are_reported_as_escapes(live: Live, vault):
    save(vault / "b\udcff.md", note("Odd", watch=["Projects/*"]))
    async with live() as daemon_rig:
        await post(daemon_rig, "/api/pause")
        save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow"))
        await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))

        assert (await get(daemon_rig, "/api/health?detailed=true"))["freshness"] == {
            "behind": ["b\\xff.md"]
        }
        assert [one["watcher"] for one in (await get(daemon_rig, "/api/watches"))["watches"]] == [
            "b\\xff.md"
        ]
        assert [one["watcher"] for one in (await get(daemon_rig, "/api/tasks"))["tasks"]] == [
            "b\\xff.md"
        ]


async def test_details_are_for_this_machine_and_for_keys_that_may_read_all_notes(
    vault, daemon_rig: DaemonRig
):
    keys = {
        "all": key_of(daemon_rig, "vault:read"),
        "some": key_of(daemon_rig, "*:read", paths=("**",)),
        "none": key_of(daemon_rig, "chat:write"),
        "nobody": ELSEWHERE,
    }
    reported = {
        name: (await call(daemon_rig, "GET", "/api/health?detailed", headers=key))[1]
        for name, key in keys.items()
    }

    plain = {"status", "version", "timestamp"}
    assert {name: set(health) == plain for name, health in reported.items()} == {
        "all": False,
        "some": True,
        "none": True,
        "nobody": True,
    }
    assert reported["all"]["vault"]["path"] == str(vault)
