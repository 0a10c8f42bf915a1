"""The loop as a key sees it whose paths are limited: nothing elsewhere is named, though a note that
is seen watches it.
"""

from __future__ import annotations

from tests.api.calls import call, key_of
from tests.stories.daemon_rig import Live, note, save


async def test_what_a_note_watches_beyond_its_reader_s_paths_is_not_named(live: Live, vault):
    save(vault / "Private/diary.md", "one")
    save(vault / "Projects/b.md", "one")
    save(vault / "Projects/a/AGENTS.md", note("A", watch=["Private/*.md", "Projects/*.md"]))
    async with live(bubble__quiet_s=60, bubble__max_wait_s=60) as daemon_rig:
        save(vault / "Private/diary.md", "two")
        save(vault / "Projects/b.md", "two")
        await daemon_rig.daemon.watched.detector.rescan()
        await daemon_rig.until(
            lambda: len(daemon_rig.daemon.loop.reviews.of("Projects/a/AGENTS.md")) == 2
        )
        key = key_of(daemon_rig, "curator:read", paths=["Projects/**"])
        (watch,) = (await call(daemon_rig, "GET", "/api/watches", headers=key))[1]["watches"]
        (task,) = (await call(daemon_rig, "GET", "/api/tasks", headers=key))[1]["tasks"]

    assert (watch["watched"], watch["unseen"], task["paths"]) == (
        ["Projects/b.md"],
        ["Projects/b.md"],
        ["Projects/b.md"],
    )
