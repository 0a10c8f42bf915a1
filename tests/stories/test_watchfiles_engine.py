"""A storm on `watch.engine: watchfiles`, as it runs where there is no inotify."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.stories.daemon_rig import Live, save

_STORM = 3_000


async def test_a_storm_of_saves_and_a_moved_tree_are_noticed_whole(live: Live, vault: Path):
    """What the engine's queue does not hold, the next full scan finds."""
    outside = vault.parent / "tree"
    for number in range(_STORM):
        save(outside / f"{number // 100}/{number}.md", f"# Note {number}\n")
    async with live(watch__engine="watchfiles", scan__full_every_s=3) as daemon_rig:
        for number in range(200):
            save(vault / f"saved/{number}.md", f"# Saved {number}\n")
        outside.rename(vault / "moved")
        await daemon_rig.until(lambda: len(daemon_rig.daemon.watched.index) >= _STORM + 200, 60)
        shutil.rmtree(vault / "moved/0")
        await daemon_rig.until(lambda: len(daemon_rig.reported("file.deleted")) >= 100, 60)

    created = [str(event["path"]) for event in daemon_rig.reported("file.created")]
    assert len(created) == len(set(created)) == _STORM + 200
