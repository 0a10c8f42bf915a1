from __future__ import annotations

import pytest

from tests.api.calls import get, post, refused
from tests.stories.daemon_rig import Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


@pytest.fixture
def tree(vault):
    """The root watches the projects, the garden watches the house, the house watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*", "{x"]))
    save(vault / GARDEN, note("Garden", watch=["Projects/house"]))
    save(vault / "Projects/house/AGENTS.md", note("House", watch=["Projects/garden"]))
    return vault


@pytest.fixture
def pair(vault):
    """The root watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / GARDEN, note("Garden", focus="- dig"))
    return vault


async def test_the_watchers_are_listed_with_what_they_watch_and_have_not_seen(live: Live, pair):
    async with live() as daemon_rig:
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


async def test_a_task_is_listed_with_what_it_is_to_review(live: Live, pair):
    async with live() as daemon_rig:
        assert await get(daemon_rig, "/api/tasks") == {"tasks": [], "count": 0, "paused": False}
        assert await post(daemon_rig, "/api/pause") == {"paused": True}
        save(pair / GARDEN, note("Garden", focus="- sow"))
        await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
        answer = await get(daemon_rig, "/api/tasks")
        (task,) = answer["tasks"]
        assert (answer["count"], answer["paused"]) == (1, True)
        assert set(task) == {
            "id",
            "watcher",
            "state",
            "causes",
            "paths",
            "due",
            "run",
            "attempts",
            "reason",
        }
        assert (task["watcher"], task["state"], task["paths"], task["run"]) == (
            "AGENTS.md",
            "queued",
            [GARDEN],
            None,
        )

        assert await post(daemon_rig, "/api/resume") == {"paused": False}
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))


async def test_a_plan_says_who_would_wake_in_which_order_and_does_nothing(live: Live, tree):
    async with live() as daemon_rig:
        plan = await post(daemon_rig, "/api/bubble/plan", {"path": GARDEN})

        assert set(plan) == {"path", "most_runs", "most_cost_usd", "runs", "loops"}
        assert (plan["path"], plan["most_runs"], plan["most_cost_usd"]) == (
            GARDEN,
            len(plan["runs"]),
            0.0,
        )
        assert all(set(run) == {"watcher", "depth", "because", "patterns"} for run in plan["runs"])
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
        status, message = await refused(
            daemon_rig, "POST", "/api/bubble/plan", json={"path": "lome.md"}
        )
        assert (status, message) == (404, "lome.md is not in the vault")


async def test_those_who_watch_a_file_are_asked_to_look_now(live: Live, pair):
    async with live() as daemon_rig:
        answer = await post(daemon_rig, "/api/bubble/run", {"path": GARDEN})
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()

    assert set(answer) == {"path", "most_runs", "most_cost_usd", "runs", "loops", "cause", "tasks"}
    assert len(answer["tasks"]) == 1
    assert "[Garden]" in (pair / "AGENTS.md").read_text("utf-8")


async def test_asking_about_what_no_one_watches_is_not_found(live: Live, pair):
    async with live() as daemon_rig:
        assert (await refused(daemon_rig, "POST", "/api/bubble/run", json={"path": "lone.md"}))[
            0
        ] == 404


async def test_a_scan_finds_what_no_event_reported(live: Live, vault):
    async with live() as daemon_rig:
        save(vault / "a.md", note("A"))
        for wrong in (1, "yes", None, []):
            assert (await refused(daemon_rig, "POST", "/api/scan", json={"accept_missing": wrong}))[
                0
            ] == 400
        assert set(await post(daemon_rig, "/api/scan")) == {"files"}
        await daemon_rig.until(lambda: daemon_rig.daemon.watched.index.get("a.md"))
        assert await post(daemon_rig, "/api/scan", {"accept_missing": True}) == {"files": 1}


async def test_a_plan_for_a_path_that_is_neither_there_nor_watched_is_refused(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*.md"]))
    async with live() as daemon_rig:
        for path in ("Nope.md", "Nope/x.md"):
            assert await refused(daemon_rig, "POST", "/api/bubble/plan", json={"path": path}) == (
                404,
                f"{path} is not in the vault",
            )
        assert (await post(daemon_rig, "/api/bubble/plan", {"path": "Projects/soon.md"}))[
            "most_runs"
        ] == 1
