"""Keeping: the daemon prunes its history, and what it may yet need is not among what goes."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from tests.api.calls import get, post
from tests.history.test_retention import _AGED  # the clock is put forward in the records as there
from tests.stories.life import Life, Live, note, save


def age(life: Life, days: float) -> None:
    """All that is kept is so much older from now on."""
    for file in (life.daemon.objects._folder).glob("??/*"):
        os.utime(file, (time.time(), file.stat().st_mtime - days * 86400))
    for read, write in _AGED:
        with life.daemon.history._database.write() as database:
            for row, at in database.execute(read).fetchall():
                database.execute(
                    write, ((datetime.fromisoformat(at) - timedelta(days=days)).isoformat(), row)
                )


def texts(vault: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in vault.glob("*.md")}


async def test_what_is_old_goes_and_what_a_watcher_has_not_seen_does_not(live: Live, vault: Path):
    save(vault / "AGENTS.md", note("Everything", watch=["a.md"]))
    save(vault / "a.md", note("A", focus="- one"))
    async with live(history__keep_days=30) as life:
        save(vault / "a.md", note("A", focus="- two"))
        await life.until(lambda: len(life.told("run.finished")) == 1)
        await life.settled()
        await post(life, "/api/pause")
        save(vault / "a.md", note("A", focus="- three"))
        await life.until(lambda: life.daemon.reviews.watchers() == ["AGENTS.md"])
        before = texts(vault)
        age(life, 40)
        pruned = await life.daemon.pruning.prune()

        assert pruned is not None
        assert pruned.writes > 0
        assert texts(vault) == before
        assert all(digest in life.daemon.objects for digest in life.daemon.reviews.digests())
        lines = (await get(life, "/api/why?path=AGENTS.md"))["lines"]
        assert {line["by"] for line in lines} <= {"earlier", "curator"}
        await post(life, "/api/resume")
        await life.until(lambda: len(life.told("run.finished")) == 2)
        run = (await get(life, "/api/runs"))["runs"][0]["id"]
        assert "-- two" in (await get(life, f"/api/runs/{run}"))["reviewed"][0]["diff"]
        undone = await post(life, f"/api/runs/{run}/undo")
        assert undone["kept"] == {}
        assert (vault / "AGENTS.md").read_bytes() == before["AGENTS.md"]
