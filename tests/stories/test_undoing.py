"""Undoing: a whole cascade is taken back while people go on working, and no one is woken by it."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.stories.daemon_rig import DaemonRig, Live, note, save
from tests.stories.graphs import always_edits, touch_up, write

GRAPH = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}


async def cascade(daemon_rig: DaemonRig, vault: Path) -> dict[str, str]:
    """a is edited; b, c and d follow. Returns each one's run."""
    touch_up(vault, "a", "- sow", GRAPH)
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 3)
    await daemon_rig.settled()
    return {str(run["watcher"])[0]: str(run["run"]) for run in daemon_rig.reported("run.finished")}


async def undo(daemon_rig: DaemonRig, run: str) -> tuple[int, dict[str, object]]:
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{daemon_rig.url}/api/runs/{run}/undo", json={}) as answer,
    ):
        return answer.status, dict(await answer.json())


def texts(vault: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text("utf-8") for path in vault.rglob("AGENTS.md")}


@pytest.mark.parametrize("agent", ["offline", "scripted"])
async def test_a_cascade_is_taken_back_to_the_byte_and_wakes_no_one(
    live: Live, vault: Path, agent: str
):
    write(vault, GRAPH)
    before = texts(vault)
    async with live(always_edits() if agent == "scripted" else None) as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        status, answer = await undo(daemon_rig, runs["b"])
        await daemon_rig.settled()

        assert (status, answer["kept"], len(answer["runs"])) == (200, {}, 3)
        assert {name: text for name, text in texts(vault).items() if name != "a"} == {
            name: before[name] for name in "bcd"
        }
        assert "- sow" in texts(vault)["a"]
        assert len(daemon_rig.reported("run.finished")) == 3
        assert daemon_rig.daemon.loop.reviews.watchers() == []
        assert [change["by"] for change in daemon_rig.reported("file.modified")][-3:] == [
            "undo"
        ] * 3


async def test_after_an_undo_the_next_edit_is_followed_as_ever(live: Live, vault: Path):
    write(vault, GRAPH)
    async with live() as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        await undo(daemon_rig, runs["b"])
        touch_up(vault, "a", "- harvest", GRAPH)
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 6)
        await daemon_rig.settled()

        assert "harvest" in texts(vault)["b"]
        assert "- sow" not in texts(vault)["b"].partition("## Watching")[2]


async def test_what_people_wrote_since_stays_and_what_stood_in_the_way_is_reported(
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
        _status, answer = await undo(daemon_rig, runs["b"])

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
        status, _answer = await undo(daemon_rig, runs["b"])
        await daemon_rig.settled()

        assert status == 200
        assert not (vault / "c/AGENTS.md").exists()
        assert texts(vault)["b"] == before["b"]


async def test_what_was_undone_is_said_and_not_undone_again(live: Live, vault: Path):
    write(vault, GRAPH)
    async with live() as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        await undo(daemon_rig, runs["c"])
        after = texts(vault)
        status, answer = await undo(daemon_rig, runs["c"])

        assert (status, "undone already" in str(answer["message"])) == (422, True)
        assert texts(vault) == after
        assert [
            bool(run["undone"])
            for run in daemon_rig.daemon.watched.history.runs()
            if run["agent"] != "undo"
        ] == [True, True, False]


async def test_an_undo_outlasts_a_restart(live: Live, vault: Path):
    """Nothing of it is taken for a person's edit by the next daemon."""
    write(vault, GRAPH)
    async with live() as daemon_rig:
        runs = await cascade(daemon_rig, vault)
        await undo(daemon_rig, runs["b"])
    after = texts(vault)
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert texts(vault) == after
        assert daemon_rig.reported("task.queued") == []


async def test_an_undo_of_what_a_note_of_another_folder_followed_leaves_that_alone(
    live: Live, vault: Path
):
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


async def test_a_note_is_found_though_its_old_name_is_anothers_and_another_is_left_alone_that_got_the_name_of_one_deleted(  # noqa: E501
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
        moved = (await undo(daemon_rig, runs["W/moved.md"]))[1]
        gone = (await undo(daemon_rig, runs["W/gone.md"]))[1]

    assert (moved["paths"], moved["kept"]) == (["W/now.md"], {})
    assert ((vault / "W/now.md").read_text(), (vault / "W/moved.md").read_text()) == (
        note("moved", watch=["a"]),
        "# New\n",
    )
    assert (gone["paths"], list(gone["kept"])) == ([], ["W/gone.md"])
    assert (vault / "W/gone.md").read_text() == others
