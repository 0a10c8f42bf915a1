"""Watches by tag, by key and on a query of notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stories.life import Life, Live, note, save

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


async def known(life: Life) -> None:
    """Wait until the index has answered every query, and all that follows is done."""
    watches = life.daemon.watches
    await life.until(
        lambda: watches.queries() and all(map(watches.matches.is_known, watches.queries()))
    )
    await life.settled()


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
    async with live() as life:
        save(store / "W.md", note("W", watch=[pattern]))
        await known(life)
        await life.until(lambda: "[Dune](Books/Dune.md)" in section(store))
        assert "Alien" not in section(store)

        save(store / "Books/Dune.md", DUNE + "\n## Notes\n- worms\n")
        await life.until(lambda: "Notes: worms" in history(store))
        await life.settled()


async def test_a_note_that_comes_to_hold_what_is_sought_is_new_and_one_that_does_no_longer_is_reported_with_its_value(  # noqa: E501
    live: Live, store: Path
):
    save(store / "W.md", note("W", watch=["status:reading"]))
    async with live() as life:
        await known(life)
        save(store / "Films/Alien.md", ALIEN.replace("seen", "reading"))
        await life.until(lambda: "[Alien](Films/Alien.md): new: Space." in history(store))
        await life.settled()
        assert "Alien" in section(store)

        save(store / "Books/Dune.md", DUNE.replace("reading", "done"))
        await life.until(lambda: "status: done (was reading)" in history(store))
        await life.settled()
        assert "  - no longer watched" in history(store)
        assert "Dune" not in section(store)

        life.events.clear()
        save(store / "Books/Dune.md", DUNE.replace("reading", "done") + "\nMore.\n")
        await life.until(lambda: life.told("file.modified"))
        await life.settled()
        assert life.told("task.queued") == []


async def test_what_a_query_lists_is_known_after_a_restart_and_followed_while_the_daemon_was_off(
    live: Live, store: Path
):
    save(store / "W.md", note("W", watch=["tag:book", "!status:done"]))
    async with live() as life:
        await known(life)
    save(store / "Films/Alien.md", ALIEN + "#book\n")
    async with live() as life:
        await life.settled()

        assert life.daemon.watches.watched_by("W.md") == ["Books/Dune.md", "Films/Alien.md"]
        save(store / "Films/Alien.md", ALIEN.replace("seen", "done") + "#book\n")
        await life.until(lambda: life.daemon.watches.watched_by("W.md") == ["Books/Dune.md"])


async def test_a_query_can_be_narrowed_to_a_section_or_key(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:book @status"]))
    async with live() as life:
        await known(life)
        save(store / "Books/Dune.md", DUNE + "\nMore.\n")
        await life.until(lambda: life.told("file.modified"))
        await life.settled()
        assert life.told("task.queued") == []

        save(store / "Books/Dune.md", DUNE.replace("reading", "done"))
        await life.until(lambda: "status: done (was reading)" in history(store))


async def test_a_note_that_moves_stays_listed(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:book"]))
    async with live() as life:
        await known(life)
        (store / "Books/Dune.md").rename(store / "Films/Dune.md")
        await life.until(lambda: "moved from Books/Dune.md" in history(store))

        assert life.daemon.watches.watched_by("W.md") == ["Films/Dune.md"]


async def test_a_query_that_lists_nothing_or_is_none_is_reported(live: Live, store: Path):
    save(store / "W.md", note("W", watch=["tag:nothing", "status:open nonsense"]))
    async with live() as life:
        await known(life)

        assert life.daemon.watches.unmatched("W.md") == ['"tag:nothing" matches no note now']
        assert "is not a condition like" in life.daemon.watches.of("W.md").problems[0]
