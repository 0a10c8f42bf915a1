"""The main job, end to end: a saved note wakes those who watch it, and the answer is written
back.
"""

from __future__ import annotations

from pathlib import Path

from tests.stories.daemon_rig import Live, note, save


async def test_a_saved_note_is_followed_by_the_note_that_watches_it(live: Live, vault: Path):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- dig"))
    async with live() as daemon_rig:
        save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow the beans"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()

    text = (vault / "AGENTS.md").read_text("utf-8")
    assert "[Garden](Projects/garden/AGENTS.md)" in text
    assert "sow the beans" in text
    assert [
        change["by"]
        for change in daemon_rig.reported("file.modified")
        if change["path"] == "AGENTS.md"
    ][-1] == "curator"


async def test_a_change_of_white_space_alone_wakes_no_one(live: Live, vault: Path):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    async with live() as daemon_rig:
        save(vault / "Projects/garden/AGENTS.md", note("Garden").replace("\n\n", "\n\n\n") + "\n\n")
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()

        assert daemon_rig.reported("task.queued") == []


async def test_what_was_done_while_the_daemon_was_off_is_followed_too(live: Live, vault: Path):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    async with live() as daemon_rig:
        await daemon_rig.settled()
    save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- harvest"))
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert (
            next(change["path"] for change in daemon_rig.reported("file.modified"))
            == "Projects/garden/AGENTS.md"
        )
    assert "harvest" in (vault / "AGENTS.md").read_text("utf-8")


async def test_two_notes_that_watch_each_other_halt(live: Live, vault: Path):
    save(vault / "A/AGENTS.md", note("A", watch=["B"]))
    save(vault / "B/AGENTS.md", note("B", watch=["A"]))
    async with live() as daemon_rig:
        save(vault / "A/AGENTS.md", note("A", watch=["B"], focus="- new"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()

        assert 1 <= len(daemon_rig.reported("run.finished")) <= 2
