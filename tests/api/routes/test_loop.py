from __future__ import annotations

import pytest

from tests.api.calls import expect, get, post, refused
from tests.stories.daemon_rig import DaemonRig, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


@pytest.fixture
def daemon_rig(own_daemon: DaemonRig) -> DaemonRig:
    """Tasks of other tests would be among those that are listed."""
    return own_daemon


@pytest.fixture
def tree(vault):
    """The root watches the projects, the garden watches the house, the house watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*", "{x"]))
    save(vault / GARDEN, note("Garden", watch=["Projects/house"]))
    save(vault / "Projects/house/AGENTS.md", note("House", watch=["Projects/garden"]))
    return vault


async def test_watchers_and_tasks_are_listed_with_what_they_are_to_review(
    pair, daemon_rig: DaemonRig
):
    assert await get(daemon_rig, "/api/tasks") == {"tasks": [], "count": 0, "paused": False}
    assert await post(daemon_rig, "/api/pause") == {"paused": True}
    save(pair / GARDEN, note("Garden", focus="- sow"))
    await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
    watches = await get(daemon_rig, "/api/watches")
    (watch,) = watches["watches"]
    assert watches["count"] == 1
    assert watch == {
        "watcher": "AGENTS.md",
        "patterns": ["Projects/*"],
        "problems": [],
        "unmatched": [],
        "watched": [GARDEN],
        "unseen": [GARDEN],
        "since": watch["since"],
    }
    answer = await get(daemon_rig, "/api/tasks")
    (task,) = answer["tasks"]
    assert (answer["count"], answer["paused"]) == (1, True)
    fields = {"watcher": "AGENTS.md", "state": "queued", "paths": [GARDEN], "run": None}
    assert task == task | fields
    assert await post(daemon_rig, "/api/resume") == {"paused": False}
    await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
    await daemon_rig.settled()

    asked = await post(daemon_rig, "/api/bubble/run", {"path": GARDEN})
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 2)
    assert len(asked["tasks"]) == 1
    assert "[Garden]" in (pair / "AGENTS.md").read_text("utf-8")
    await expect(daemon_rig, 404, "POST", "/api/bubble/run", json={"path": "lone.md"})


async def test_a_plan_says_who_would_wake_in_which_order_and_does_nothing(
    tree, daemon_rig: DaemonRig
):
    plan = await post(daemon_rig, "/api/bubble/plan", {"path": GARDEN})

    assert plan == plan | {"path": GARDEN, "most_runs": len(plan["runs"]), "most_cost_usd": 0.0}
    assert {"AGENTS.md", "Projects/house/AGENTS.md"} <= {run["watcher"] for run in plan["runs"]}
    assert [set(ring) for ring in plan["loops"]] == [{GARDEN, "Projects/house/AGENTS.md"}]
    assert (await get(daemon_rig, "/api/tasks"))["tasks"] == []


async def test_a_plan_is_made_for_a_file_to_come_and_for_no_misspelled_name(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "lone.md", note("Lone"))
    async with live() as daemon_rig:
        for path, most in {"Projects/new/AGENTS.md": 1, "lone.md": 0}.items():
            plan = await post(daemon_rig, "/api/bubble/plan", {"path": path})
            assert plan["most_runs"] == most
        for path in ("lome.md", "Nope/x.md"):
            answer = await refused(daemon_rig, "POST", "/api/bubble/plan", json={"path": path})
            assert answer == (404, f"{path} is not in the vault")


async def test_a_scan_finds_what_no_event_reported(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", note("A"))
    for wrong in (1, "yes", None, []):
        await expect(daemon_rig, 400, "POST", "/api/scan", json={"accept_missing": wrong})
    assert set(await post(daemon_rig, "/api/scan")) == {"files"}
    await daemon_rig.until(lambda: daemon_rig.daemon.watched.index.get("a.md"))
    assert await post(daemon_rig, "/api/scan", {"accept_missing": True}) == {"files": 1}
