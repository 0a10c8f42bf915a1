"""Keeping: the daemon prunes its history, and what it may yet need is not among what goes."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from tests.api.calls import get, post
from tests.history.test_retention import _AGED  # the clock is put forward in the records as there
from tests.stories.daemon_rig import DaemonRig, Live, note, save


def age(daemon_rig: DaemonRig, days: float) -> None:
    """All that is kept is so much older from now on."""
    for file in (daemon_rig.daemon.watched.objects._folder).glob("??/*"):
        os.utime(file, (time.time(), file.stat().st_mtime - days * 86400))
    for read, write in _AGED:
        with daemon_rig.daemon.watched.history._database.write() as database:
            for row, at in database.execute(read).fetchall():
                database.execute(
                    write, ((datetime.fromisoformat(at) - timedelta(days=days)).isoformat(), row)
                )


def texts(vault: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in vault.glob("*.md")}


async def test_what_is_old_goes_and_what_a_watcher_has_not_seen_does_not(live: Live, vault: Path):
    save(vault / "AGENTS.md", note("Everything", watch=["a.md"]))
    save(vault / "a.md", note("A", focus="- one"))
    async with live(history__keep_days=30) as daemon_rig:
        save(vault / "a.md", note("A", focus="- two"))
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 1)
        await daemon_rig.settled()
        await post(daemon_rig, "/api/pause")
        save(vault / "a.md", note("A", focus="- three"))
        await daemon_rig.until(lambda: daemon_rig.daemon.loop.reviews.watchers() == ["AGENTS.md"])
        before = texts(vault)
        age(daemon_rig, 40)
        pruned = await daemon_rig.daemon.loop.pruning.prune()

        assert pruned is not None
        assert pruned.writes > 0
        assert texts(vault) == before
        assert all(
            digest in daemon_rig.daemon.watched.objects
            for digest in daemon_rig.daemon.loop.reviews.digests()
        )
        lines = (await get(daemon_rig, "/api/why?path=AGENTS.md"))["lines"]
        assert {line["by"] for line in lines} <= {"earlier", "curator"}
        await post(daemon_rig, "/api/resume")
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) == 2)
        run = (await get(daemon_rig, "/api/runs"))["runs"][0]["id"]
        assert "-- two" in (await get(daemon_rig, f"/api/runs/{run}"))["reviewed"][0]["diff"]
        undone = await post(daemon_rig, f"/api/runs/{run}/undo")
        assert undone["kept"] == {}
        assert (vault / "AGENTS.md").read_bytes() == before["AGENTS.md"]
