from __future__ import annotations

import pytest

from tests.api.calls import expect, get, post, refused
from tests.stories.daemon_rig import DaemonRig, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


@pytest.fixture
def tree(vault):
    """The root watches the projects, the garden watches the house, the house watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*", "{x"]))
    save(vault / GARDEN, note("Garden", watch=["Projects/house"]))
    save(vault / "Projects/house/AGENTS.md", note("House", watch=["Projects/garden"]))
    return vault


async def test_the_watchers_are_listed_with_what_they_watch_and_have_not_seen(
    pair, daemon_rig: DaemonRig
):
    await post(daemon_rig, "/api/pause")
    save(pair / GARDEN, note("Garden", focus="- sow"))
    await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
    answer = await get(daemon_rig, "/api/watches")

    (watch,) = answer["watches"]
    assert answer["count"] == 1
    assert watch == {
        "watcher": "AGENTS.md",
        "patterns": ["Projects/*"],
        "problems": [],
        "unmatched": [],
        "watched": [GARDEN],
        "unseen": [GARDEN],
        "since": watch["since"],
    }


async def test_a_task_is_listed_with_what_it_is_to_review(pair, daemon_rig: DaemonRig):
    assert await get(daemon_rig, "/api/tasks") == {"tasks": [], "count": 0, "paused": False}
    assert await post(daemon_rig, "/api/pause") == {"paused": True}
    save(pair / GARDEN, note("Garden", focus="- sow"))
    await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
    answer = await get(daemon_rig, "/api/tasks")
    (task,) = answer["tasks"]
    assert (answer["count"], answer["paused"]) == (1, True)
    assert (task["watcher"], task["state"], task["paths"], task["run"]) == (
        "AGENTS.md",
        "queued",
        [GARDEN],
        None,
    )

    assert await post(daemon_rig, "/api/resume") == {"paused": False}
    await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))


async def test_a_plan_says_who_would_wake_in_which_order_and_does_nothing(
    tree, daemon_rig: DaemonRig
):
    plan = await post(daemon_rig, "/api/bubble/plan", {"path": GARDEN})

    assert plan == plan | {"path": GARDEN, "most_runs": len(plan["runs"]), "most_cost_usd": 0.0}
    assert {"AGENTS.md", "Projects/house/AGENTS.md"} <= {run["watcher"] for run in plan["runs"]}
    assert [set(ring) for ring in plan["loops"]] == [{GARDEN, "Projects/house/AGENTS.md"}]
    assert (await get(daemon_rig, "/api/tasks"))["tasks"] == []


async def test_a_plan_may_be_asked_for_a_file_that_is_to_come_but_not_for_a_misspelled_one(
    live: Live, vault
):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "lone.md", note("Lone"))
    async with live() as daemon_rig:
        assert (await post(daemon_rig, "/api/bubble/plan", {"path": "Projects/new/AGENTS.md"}))[
            "most_runs"
        ] == 1
        assert (await post(daemon_rig, "/api/bubble/plan", {"path": "lone.md"}))["most_runs"] == 0
        for path in ("lome.md", "Nope/x.md"):
            assert await refused(daemon_rig, "POST", "/api/bubble/plan", json={"path": path}) == (
                404,
                f"{path} is not in the vault",
            )


async def test_those_who_watch_a_file_are_asked_to_look_now(pair, daemon_rig: DaemonRig):
    answer = await post(daemon_rig, "/api/bubble/run", {"path": GARDEN})
    await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
    await daemon_rig.settled()

    assert len(answer["tasks"]) == 1
    assert "[Garden]" in (pair / "AGENTS.md").read_text("utf-8")


async def test_asking_about_what_no_one_watches_is_not_found(pair, daemon_rig: DaemonRig):
    await expect(daemon_rig, 404, "POST", "/api/bubble/run", json={"path": "lone.md"})


async def test_a_scan_finds_what_no_event_reported(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", note("A"))
    for wrong in (1, "yes", None, []):
        await expect(daemon_rig, 400, "POST", "/api/scan", json={"accept_missing": wrong})
    assert set(await post(daemon_rig, "/api/scan")) == {"files"}
    await daemon_rig.until(lambda: daemon_rig.daemon.watched.index.get("a.md"))
    assert await post(daemon_rig, "/api/scan", {"accept_missing": True}) == {"files": 1}
