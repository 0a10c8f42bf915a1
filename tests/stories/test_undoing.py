"""Undoing: a whole cascade is taken back while people go on working, and no one is woken by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.calls import post, refused
from tests.stories.daemon_rig import DaemonRig, Live, note, save
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


async def test_a_note_that_was_deleted_since_stays_away_and_the_rest_is_undone(
    live: Live, vault: Path
):
    write(vault, GRAPH)
    before = texts(vault)
    async with live() as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        (vault / "c/AGENTS.md").unlink()
        await daemon_rig.until(lambda: daemon_rig.reported("file.deleted"))
        await daemon_rig.settled()
        await undo(daemon_rig, runs["b"])
        await daemon_rig.settled()

        assert not (vault / "c/AGENTS.md").exists()
        assert texts(vault)["b"] == before["b"]


async def test_what_was_undone_is_said_and_not_undone_again(live: Live, vault: Path):
    write(vault, GRAPH)
    async with live() as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        await undo(daemon_rig, runs["c"])
        after = texts(vault)
        status, message = await refused(daemon_rig, "POST", f"/api/runs/{runs['c']}/undo", json={})

        assert (status, "undone already" in message) == (422, True)
        assert texts(vault) == after
        assert [
            bool(run["undone"])
            for run in daemon_rig.daemon.watched.history.runs()
            if run["agent"] != "undo"
        ] == [True, True, False]


async def test_an_undo_leaves_alone_what_followed_from_another_note(live: Live, vault: Path):
    save(vault / "AGENTS.md", note("All", watch=["a", "b"]))
    write(vault, {"a": [], "b": []})
    async with live() as daemon_rig:
        for number, name in enumerate("ab", 1):
            touch_up(vault, name, "- new", {"a": [], "b": []})
            await daemon_rig.until(
                lambda count=number: len(daemon_rig.reported("run.finished")) == count
            )
            await daemon_rig.settled()
        first, second = (str(run["run"]) for run in daemon_rig.reported("run.finished"))
        await undo(daemon_rig, second)

        assert "[a](a/AGENTS.md): Current Focus: new" in texts(vault)["vault"]
        assert "[b](b/AGENTS.md): Current Focus: new" not in texts(vault)["vault"]
        assert daemon_rig.daemon.watched.history.run(first)["undone"] is None


async def test_an_undo_finds_a_note_that_moved_and_no_other_of_its_old_name(
    live: Live, vault: Path
):
    for name in ("moved", "gone", "other"):
        save(vault / f"W/{name}.md", note(name, watch=["a"]))
    write(vault, {"a": []})
    async with live() as daemon_rig:
        touch_up(vault, "a", "- sow", {"a": []})
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 3)
        await daemon_rig.settled()
        runs = {str(run["watcher"]): str(run["run"]) for run in daemon_rig.reported("run.finished")}
        others = (vault / "W/other.md").read_text()
        (vault / "W/moved.md").rename(vault / "W/now.md")
        (vault / "W/gone.md").unlink()
        await daemon_rig.until(
            lambda: daemon_rig.reported("file.moved") and daemon_rig.reported("file.deleted")
        )
        save(vault / "W/moved.md", "# New\n")
        (vault / "W/other.md").rename(vault / "W/gone.md")
        await daemon_rig.until(lambda: len(daemon_rig.reported("file.moved")) == 2)
        await daemon_rig.settled()
        moved = await undo(daemon_rig, runs["W/moved.md"])
        gone = await undo(daemon_rig, runs["W/gone.md"])

    assert (moved["paths"], moved["kept"]) == (["W/now.md"], {})
    assert ((vault / "W/now.md").read_text(), (vault / "W/moved.md").read_text()) == (
        note("moved", watch=["a"]),
        "# New\n",
    )
    assert (gone["paths"], list(gone["kept"])) == ([], ["W/gone.md"])
    assert (vault / "W/gone.md").read_text() == others
