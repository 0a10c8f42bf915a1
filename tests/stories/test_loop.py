"""The main job, end to end: a saved note wakes those who watch it, and the answer is written
back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stories.daemon_rig import Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


@pytest.mark.parametrize("engine", ["auto", "watchfiles"])
async def test_a_saved_note_is_followed_by_the_note_that_watches_it(
    live: Live, vault: Path, engine: str
):
    """Where it means something, and whether the daemon runs or not; also where there is no
    inotify.
    """
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / GARDEN, note("Garden"))
    async with live(watch__engine=engine) as daemon_rig:
        save(vault / GARDEN, note("Garden").replace("\n\n", "\n\n\n") + "\n\n")
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()
        assert daemon_rig.reported("task.queued") == [], "white space alone wakes no one"

        save(vault / GARDEN, note("Garden", focus="- sow the beans"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        text = (vault / "AGENTS.md").read_text("utf-8")
        assert "[Garden](Projects/garden/AGENTS.md)" in text
        assert "sow the beans" in text
        changes = daemon_rig.reported("file.modified")
        by = [change["by"] for change in changes if change["path"] == "AGENTS.md"]
        assert by[-1] == "curator"

    save(vault / GARDEN, note("Garden", focus="- harvest"))
    async with live(watch__engine=engine) as daemon_rig:
        await daemon_rig.settled()
        assert daemon_rig.reported("file.modified")[0]["path"] == GARDEN
    assert "harvest" in (vault / "AGENTS.md").read_text("utf-8")
