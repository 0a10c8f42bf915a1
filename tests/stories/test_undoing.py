"""Undoing: a whole cascade is taken back while people go on working, and no one is woken by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.calls import post
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.graphs import always_edits, touch_up, write

GRAPH = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}


async def cascade(daemon_rig: DaemonRig, vault: Path, focus: str = "- sow") -> dict[str, str]:
    """a is edited; b, c and d follow. Returns the run of each."""
    touch_up(vault, "a", focus, GRAPH)
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 3)
    await daemon_rig.settled()
    return {str(run["watcher"])[0]: str(run["run"]) for run in daemon_rig.reported("run.finished")}


async def undo(daemon_rig: DaemonRig, run: str) -> dict:
    return await post(daemon_rig, f"/api/runs/{run}/undo", {})


def texts(vault: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text("utf-8") for path in vault.rglob("AGENTS.md")}


@pytest.mark.parametrize("agent", ["offline", "scripted"])
async def test_a_cascade_is_taken_back_to_the_byte_and_wakes_no_one(
    live: Live, vault: Path, agent: str
):
    """The next edit is followed as ever, and the next daemon takes no undo for an edit."""
    write(vault, GRAPH)
    before = texts(vault)
    backend = always_edits() if agent == "scripted" else None
    async with live(backend) as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        answer = await undo(daemon_rig, runs["b"])
        await daemon_rig.settled()

        assert (answer["kept"], len(answer["runs"])) == ({}, 3)
        after = texts(vault)
        assert "- sow" in after["a"]
        assert after == {**before, "a": after["a"]}
        assert len(daemon_rig.reported("run.finished")) == 3
        assert daemon_rig.daemon.loop.reviews.watchers() == []
        changes = daemon_rig.reported("file.modified")
        assert [change["by"] for change in changes][-3:] == ["undo"] * 3

        daemon_rig.events.clear()
        runs = await cascade(daemon_rig, vault, "- harvest")
        if agent == "offline":
            assert "harvest" in texts(vault)["b"]
            assert "- sow" not in texts(vault)["b"].partition("## Watching")[2]
        await undo(daemon_rig, runs["b"])
        after = texts(vault)
    async with live(backend) as daemon_rig:  # which was noticed by no daemon yet
        await daemon_rig.settled()
        assert (texts(vault), daemon_rig.reported("task.queued")) == (after, [])


async def test_what_people_wrote_since_stays_and_what_was_in_the_way_is_reported(
    live: Live, vault: Path
):
    write(vault, GRAPH)
    async with live(always_edits()) as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        save(vault / "b/AGENTS.md", texts(vault)["b"].replace("> About b.", "> About b, by hand."))
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 5)
        await daemon_rig.settled()
        save(vault / "d/AGENTS.md", texts(vault)["d"].replace("- edit 4", "- edit 4, by hand"))
        await daemon_rig.settled()
        answer = await undo(daemon_rig, runs["b"])

        assert texts(vault)["b"].endswith(
            "> About b, by hand.\n\n## Current Focus\n- nothing yet\n\n## History\n"
        )
        assert "- edit 4, by hand" in texts(vault)["d"]
        assert answer["kept"]["d/AGENTS.md"] == ["- edit 4, by hand\n"]
