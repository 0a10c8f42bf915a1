"""Conflicts: what a sync program or git could not merge wakes no watcher and is shown to no agent
until a person has resolved it.
"""

from __future__ import annotations

import pytest

from tests.stories.life import Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


def conflict(ours: str, theirs: str) -> str:
    return f"<<<<<<< HEAD\n- {ours}\n=======\n- {theirs}\n>>>>>>> phone"


@pytest.fixture
def pair(vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*", "Projects/**/*.md"]))
    save(vault / GARDEN, note("Garden", focus="- dig"))
    return vault


async def test_a_note_with_conflict_markers_waits_until_they_are_resolved_and_nothing_is_lost(
    live: Live, pair
):
    async with live() as life:
        await life.settled()
        save(pair / GARDEN, note("Garden", focus=conflict("sow", "reap")))
        await life.until(lambda: life.told("file.modified"))
        await life.settled()
        assert life.told("run.finished") == []
        save(pair / "Projects/shed.md", "# Shed\n")  # wakes the same watcher
        await life.until(lambda: life.told("run.finished"))
        await life.settled()
        assert "<<<<<<<" not in (pair / "AGENTS.md").read_text()

    async with live() as life:
        save(pair / GARDEN, note("Garden", focus="- reap"))
        await life.until(lambda: life.told("run.finished"))
        await life.settled()
        (run,) = life.daemon.history.runs(limit=1)
        assert "reap" in (pair / "AGENTS.md").read_text()
        assert [one["path"] for one in run["reviewed"]] == [GARDEN]
        assert life.daemon.reviews.watchers() == []


async def test_a_watcher_with_conflict_markers_is_not_written_and_watches_on(live: Live, pair):
    async with live() as life:
        await life.settled()
        whole = (pair / "AGENTS.md").read_text()
        broken = whole.replace("watch:", "<<<<<<< HEAD\nwatch:\n=======\nwatches:\n>>>>>>> phone")
        save(pair / "AGENTS.md", broken)
        await life.until(lambda: life.told("file.modified"))
        save(pair / GARDEN, note("Garden", focus="- sow"))
        await life.until(
            lambda: any(
                "conflict markers (line 2)" in (task.reason or "")
                for task in life.daemon.queue.all()
            )
        )
        assert (pair / "AGENTS.md").read_text() == broken
        assert life.told("run.finished") == []

        save(pair / "AGENTS.md", whole)
        await life.until(lambda: life.told("run.finished"), 30)
        assert "sow" in (pair / "AGENTS.md").read_text()


async def test_a_conflict_copy_neither_watches_nor_wakes(live: Live, pair):
    async with live() as life:
        await life.settled()
        save(
            pair / "AGENTS.sync-conflict-20261122-101500-ABCDEF7.md",
            note("Everything", watch=["Projects/*"]),
        )
        save(pair / "Projects/garden/Beans (conflicted copy 2026-11-22).md", "# Beans\n")
        await life.until(lambda: len(life.told("file.created")) == 2)
        await life.settled()
        assert [one.watcher for one in life.daemon.watches.all()] == ["AGENTS.md"]
        assert life.told("task.") == life.told("run.") == []
        assert not any("conflicted" in path for path in life.daemon.watches.watched_by("AGENTS.md"))
