"""Conflicts: what a sync program or git could not merge wakes no watcher and is shown to no agent
until a person has resolved it.
"""

from __future__ import annotations

import pytest

from tests.stories.daemon_rig import Clock, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


def conflict(ours: str, theirs: str) -> str:
    return f"<<<<<<< HEAD\n- {ours}\n=======\n- {theirs}\n>>>>>>> phone"


@pytest.fixture
def pair(vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*", "Projects/**/*.md"]))
    save(vault / GARDEN, note("Garden", focus="- dig"))
    return vault


async def test_a_note_with_conflict_markers_waits_until_they_are_resolved(live: Live, pair):
    async with live() as daemon_rig:
        await daemon_rig.settled()
        save(pair / GARDEN, note("Garden", focus=conflict("sow", "reap")))
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()
        assert daemon_rig.reported("run.finished") == []
        save(pair / "Projects/shed.md", "# Shed\n")  # wakes the same watcher
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        assert "<<<<<<<" not in (pair / "AGENTS.md").read_text()

    async with live() as daemon_rig:
        save(pair / GARDEN, note("Garden", focus="- reap"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        (run,) = daemon_rig.daemon.watched.history.runs(limit=1)
        assert "reap" in (pair / "AGENTS.md").read_text()
        assert [one["path"] for one in run["reviewed"]] == [GARDEN]
        assert daemon_rig.daemon.loop.reviews.watchers() == []


async def test_a_copy_wakes_no_one_and_a_watcher_with_markers_is_not_written(live: Live, pair):
    clock = Clock()
    async with live(clock=clock) as daemon_rig:
        await daemon_rig.settled()
        loop = daemon_rig.daemon.loop
        copy = "AGENTS.sync-conflict-20261122-101500-ABCDEF7.md"
        save(pair / copy, note("Everything", watch=["Projects/*"]))
        save(pair / "Projects/garden/Beans (conflicted copy 2026-11-22).md", "# Beans\n")
        await daemon_rig.until(lambda: len(daemon_rig.reported("file.created")) == 2)
        await daemon_rig.settled()
        assert [one.watcher for one in loop.watches.all()] == ["AGENTS.md"]
        assert daemon_rig.reported("task.") == daemon_rig.reported("run.") == []
        assert not any("conflicted" in path for path in loop.watches.watched_by("AGENTS.md"))

        whole = (pair / "AGENTS.md").read_text()
        broken = whole.replace("watch:", "<<<<<<< HEAD\nwatch:\n=======\nwatches:\n>>>>>>> phone")
        save(pair / "AGENTS.md", broken)
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        save(pair / GARDEN, note("Garden", focus="- sow"))
        reason = "conflict markers (line 2)"
        await daemon_rig.until(
            lambda: any(reason in (task.reason or "") for task in loop.queue.all())
        )
        assert (pair / "AGENTS.md").read_text() == broken
        assert daemon_rig.reported("run.finished") == []

        save(pair / "AGENTS.md", whole)
        await daemon_rig.daemon.watched.detector.rescan()
        clock.forward(daemon_rig, seconds=61)
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"), 30)
        assert "sow" in (pair / "AGENTS.md").read_text()
