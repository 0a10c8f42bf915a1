"""Watches by tag, by key and on a query of notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stories.daemon_rig import DaemonRig, Live, note, save

DUNE = "---\nstatus: reading\n---\n# Dune\n\nSand. #book/novel\n"
ALIEN = "---\nstatus: seen\n---\n# Alien\n\nSpace.\n"


def section(vault: Path, name: str = "W") -> str:
    return (vault / f"{name}.md").read_text("utf-8").partition("## Watching\n")[2]


def history(vault: Path, name: str = "W") -> str:
    text = (vault / f"{name}.md").read_text("utf-8")
    return text.partition("## History")[2].partition("## Watching")[0]


@pytest.fixture
def store(vault: Path) -> Path:
    save(vault / "Books/Dune.md", DUNE)
    save(vault / "Films/Alien.md", ALIEN)
    return vault


async def known(daemon_rig: DaemonRig) -> None:
    """Wait until the index has answered every query, and all that follows is done."""
    watches = daemon_rig.daemon.loop.watches
    await daemon_rig.until(
        lambda: watches.queries() and all(map(watches.matches.is_known, watches.queries()))
    )
    await daemon_rig.settled()


async def test_a_query_is_shown_at_once_and_its_notes_are_followed(live: Live, store: Path):
    patterns = {
        "W1": "tag:book",
        "W2": "tag:#book/novel",
        "W3": "status:reading",
        "W4": "tag:book folder:Books",
        "W5": "status:in:reading,open",
    }
    async with live() as daemon_rig:
        for name, pattern in patterns.items():
            save(store / f"{name}.md", note(name, watch=[pattern]))
        for name, pattern in patterns.items():
            await daemon_rig.until(lambda at=name: "[Dune](Books/Dune.md)" in section(store, at))
            assert "Alien" not in section(store, name), pattern
        await daemon_rig.settled()

        save(store / "Books/Dune.md", DUNE + "\n## Notes\n- worms\n")
        for name in patterns:
            await daemon_rig.until(lambda at=name: "Notes: worms" in history(store, at))
        await daemon_rig.settled()


async def test_a_note_is_new_once_a_query_finds_it_and_reported_when_it_does_not(
    live: Live, store: Path
):
    save(store / "W.md", note("W", watch=["status:reading"]))
    async with live() as daemon_rig:
        await known(daemon_rig)
        save(store / "Films/Alien.md", ALIEN.replace("seen", "reading"))
        await daemon_rig.until(lambda: "[Alien](Films/Alien.md): new: Space." in history(store))
        await daemon_rig.settled()
        assert "Alien" in section(store)

        save(store / "Books/Dune.md", DUNE.replace("reading", "done"))
        await daemon_rig.until(lambda: "status: done (was reading)" in history(store))
        await daemon_rig.settled()
        assert "  - no longer watched" in history(store)
        assert "Dune" not in section(store)

        daemon_rig.events.clear()
        save(store / "Books/Dune.md", DUNE.replace("reading", "done") + "\nMore.\n")
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()
        assert daemon_rig.reported("task.queued") == []


async def test_what_a_query_lists_is_followed_over_a_restart_and_a_move(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:book", "!status:done"]))
    async with live() as daemon_rig:
        await known(daemon_rig)
    save(store / "Films/Alien.md", ALIEN + "#book\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()

        watches = daemon_rig.daemon.loop.watches
        assert watches.watched_by("W.md") == ["Books/Dune.md", "Films/Alien.md"]
        save(store / "Films/Alien.md", ALIEN.replace("seen", "done") + "#book\n")
        await daemon_rig.until(lambda: watches.watched_by("W.md") == ["Books/Dune.md"])
        await daemon_rig.settled()

        (store / "Books/Dune.md").rename(store / "Films/Dune.md")
        await daemon_rig.until(lambda: "moved from Books/Dune.md" in history(store))
        assert watches.watched_by("W.md") == ["Films/Dune.md"]
