"""Watches by tag, by key and on a query of notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stories.daemon_rig import DaemonRig, Live, note, save

DUNE = "---\nstatus: reading\n---\n# Dune\n\nSand. #book/novel\n"
ALIEN = "---\nstatus: seen\n---\n# Alien\n\nSpace.\n"


def section(vault: Path) -> str:
    return (vault / "W.md").read_text("utf-8").partition("## Watching\n")[2]


def history(vault: Path) -> str:
    return (
        (vault / "W.md").read_text("utf-8").partition("## History")[2].partition("## Watching")[0]
    )


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


@pytest.mark.parametrize(
    "pattern",
    [
        "tag:book",
        "tag:#book/novel",
        "status:reading",
        "tag:book folder:Books",
        "status:in:reading,open",
    ],
)
async def test_a_query_is_shown_at_once_and_its_notes_are_followed(
    live: Live, store: Path, pattern: str
):
    async with live() as daemon_rig:
        save(store / "W.md", note("W", watch=[pattern]))
        await known(daemon_rig)
        await daemon_rig.until(lambda: "[Dune](Books/Dune.md)" in section(store))
        assert "Alien" not in section(store)

        save(store / "Books/Dune.md", DUNE + "\n## Notes\n- worms\n")
        await daemon_rig.until(lambda: "Notes: worms" in history(store))
        await daemon_rig.settled()


async def test_a_note_that_comes_to_hold_what_is_sought_is_new_and_one_that_does_no_longer_is_reported_with_its_value(  # noqa: E501
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


async def test_what_a_query_lists_is_known_after_a_restart_and_followed_while_the_daemon_was_off(
    live: Live, store: Path
):
    save(store / "W.md", note("W", watch=["tag:book", "!status:done"]))
    async with live() as daemon_rig:
        await known(daemon_rig)
    save(store / "Films/Alien.md", ALIEN + "#book\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert daemon_rig.daemon.loop.watches.watched_by("W.md") == [
            "Books/Dune.md",
            "Films/Alien.md",
        ]
        save(store / "Films/Alien.md", ALIEN.replace("seen", "done") + "#book\n")
        await daemon_rig.until(
            lambda: daemon_rig.daemon.loop.watches.watched_by("W.md") == ["Books/Dune.md"]
        )


async def test_a_query_can_be_narrowed_to_a_section_or_key(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:book @status"]))
    async with live() as daemon_rig:
        await known(daemon_rig)
        save(store / "Books/Dune.md", DUNE + "\nMore.\n")
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()
        assert daemon_rig.reported("task.queued") == []

        save(store / "Books/Dune.md", DUNE.replace("reading", "done"))
        await daemon_rig.until(lambda: "status: done (was reading)" in history(store))


async def test_a_note_that_moves_stays_listed(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:book"]))
    async with live() as daemon_rig:
        await known(daemon_rig)
        (store / "Books/Dune.md").rename(store / "Films/Dune.md")
        await daemon_rig.until(lambda: "moved from Books/Dune.md" in history(store))

        assert daemon_rig.daemon.loop.watches.watched_by("W.md") == ["Films/Dune.md"]


async def test_a_query_that_lists_nothing_or_is_none_is_reported(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:nothing", "status:open nonsense"]))
    async with live() as daemon_rig:
        await known(daemon_rig)

        assert daemon_rig.daemon.loop.watches.unmatched("W.md") == [
            '"tag:nothing" matches no note now'
        ]
        assert "is not a condition like" in daemon_rig.daemon.loop.watches.of("W.md").problems[0]
