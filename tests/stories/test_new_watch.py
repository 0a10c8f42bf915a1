"""A watch that is declared while the daemon runs: it has a baseline from that moment, and shows its
result at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stories.daemon_rig import DaemonRig, Live, note, save

BOOK = "Books/Dune.md"
TEXT = "---\nstatus: reading\n---\n# Dune\n\n## Notes\n- sand\n\n## Decisions\n- none yet\n"


async def declared(daemon_rig: DaemonRig, *patterns: str) -> None:
    """Declare the watch while the daemon runs, and wait for all that follows."""
    save(daemon_rig.vault / "Reading.md", note("Reading", watch=list(patterns)))
    await daemon_rig.until(lambda: daemon_rig.reported("watch.declared"))
    await daemon_rig.settled()


def history(vault: Path) -> str:
    return (
        (vault / "Reading.md")
        .read_text("utf-8")
        .partition("## History")[2]
        .partition("## Watching")[0]
    )


async def test_white_space_does_not_wake_a_watch_that_was_declared_while_the_daemon_runs(
    live: Live, vault: Path
):
    save(vault / BOOK, TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md")
        daemon_rig.events.clear()
        save(vault / BOOK, TEXT.replace("\n\n", "\n\n\n"))
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()

        assert daemon_rig.reported("task.queued") == []


@pytest.mark.parametrize("pattern", ["Books/*.md#Decisions", "Books/*.md@status"])
async def test_a_watch_of_a_section_or_key_is_as_narrow_as_it_says_from_its_first_moment(
    live: Live, vault: Path, pattern: str
):
    save(vault / BOOK, TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, pattern)
        daemon_rig.events.clear()
        save(vault / BOOK, TEXT.replace("- sand", "- sand\n- worms"))
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()

        assert daemon_rig.reported("task.queued") == []


async def test_the_first_change_after_the_declaration_is_known_as_a_difference(
    live: Live, vault: Path
):
    save(vault / BOOK, TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md")
        save(vault / BOOK, TEXT.replace("- sand", "- sand\n- worms"))
        await daemon_rig.until(lambda: "Dune" in history(vault))
        await daemon_rig.settled()

        run = daemon_rig.daemon.watched.history.runs(limit=1)[0]
    assert "+- worms" in run["reviewed"][0]["diff"]
    assert "-# Dune" not in run["reviewed"][0]["diff"]


async def test_a_pattern_that_is_added_later_has_a_baseline_too(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    save(vault / "Films/Dune.md", TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md")
        await declared(daemon_rig, "Books/*.md", "Films/*.md")
        daemon_rig.events.clear()
        save(vault / "Films/Dune.md", TEXT.replace("\n\n", "\n\n\n"))
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        await daemon_rig.settled()

        assert daemon_rig.reported("task.queued") == []


async def test_a_new_watch_shows_its_result_at_once_without_a_line_of_history(
    live: Live, vault: Path
):
    save(vault / BOOK, TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md")

        assert [
            (run["watcher"], run["outcome"]) for run in daemon_rig.reported("run.finished")
        ] == [("Reading.md", "changed")]
    assert "Dune" in (vault / "Reading.md").read_text("utf-8").partition("## Watching")[2]
    assert history(vault).strip() == ""


async def test_what_is_no_longer_watched_leaves_the_digest_at_once(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    save(vault / "Films/Alien.md", "# Alien\n")
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md", "Films/*.md")
        assert "Alien" in (vault / "Reading.md").read_text("utf-8")
        text = (vault / "Reading.md").read_text("utf-8")
        save(vault / "Reading.md", text.replace('  - "Films/*.md"\n', ""))
        await daemon_rig.until(
            lambda: (
                "Alien" not in (vault / "Reading.md").read_text("utf-8").partition("## Watching")[2]
            )
        )
        await daemon_rig.settled()


async def test_first_contact_with_a_vault_shows_nothing_until_something_changes(
    live: Live, vault: Path
):
    save(vault / BOOK, TEXT)
    save(vault / "Reading.md", note("Reading", watch=["Books/*.md"]))
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert (daemon_rig.reported("task.queued"), daemon_rig.reported("run.finished")) == ([], [])


async def test_a_watcher_that_is_asked_for_looks_at_all_it_watches(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    save(vault / "Reading.md", note("Reading", watch=["Books/*.md"]))
    async with live() as daemon_rig:
        await daemon_rig.settled()
        _cause, tasks = daemon_rig.daemon.loop.reconciler.ask("Reading.md")
        await daemon_rig.settled()

        assert [task.watcher for task in tasks] == ["Reading.md"]
        assert [run["outcome"] for run in daemon_rig.reported("run.finished")] == ["changed"]
        assert daemon_rig.daemon.loop.reviews.of("Reading.md") == []
    assert "Dune" in (vault / "Reading.md").read_text("utf-8").partition("## Watching")[2]
    assert history(vault).strip() == ""
