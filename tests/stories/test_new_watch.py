"""A watch that is declared while the daemon runs: it has a baseline from that moment, and shows its
result at once.
"""

from __future__ import annotations

from pathlib import Path

from tests.stories.daemon_rig import DaemonRig, Live, note, save

BOOK, FILM = "Books/Dune.md", "Films/Alien.md"
TEXT = "---\nstatus: reading\n---\n# Dune\n\n## Notes\n- sand\n\n## Decisions\n- none yet\n"
WITH_WORMS = TEXT.replace("- sand", "- sand\n- worms")
SPACED = TEXT.replace("\n\n", "\n\n\n")


async def declared(daemon_rig: DaemonRig, *patterns: str, by: str = "Reading") -> None:
    """Declare the watch while the daemon runs, and wait for all that follows."""
    daemon_rig.events.clear()
    save(daemon_rig.vault / f"{by}.md", note(by, watch=list(patterns)))
    await daemon_rig.until(lambda: daemon_rig.reported("watch.declared"))
    await daemon_rig.settled()


async def wakes_no_one(daemon_rig: DaemonRig, path: str, text: str) -> None:
    daemon_rig.events.clear()
    save(daemon_rig.vault / path, text)
    await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
    await daemon_rig.settled()
    assert daemon_rig.reported("task.queued") == []


def parts(vault: Path) -> tuple[str, str]:
    """What its history and its list say."""
    before, _, listed = (vault / "Reading.md").read_text("utf-8").partition("## Watching")
    return before.partition("## History")[2].strip(), listed


async def test_a_new_watch_shows_its_result_at_once_and_then_differences(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md")
        finished = daemon_rig.reported("run.finished")
        assert [(run["watcher"], run["outcome"]) for run in finished] == [("Reading.md", "changed")]
        history, listed = parts(vault)
        assert ("Dune" in listed, history) == (True, "")

        await wakes_no_one(daemon_rig, BOOK, SPACED)
        save(vault / BOOK, WITH_WORMS)
        await daemon_rig.until(lambda: "Dune" in parts(vault)[0])
        await daemon_rig.settled()
        run = daemon_rig.daemon.watched.history.runs(limit=1)[0]
    assert "+- worms" in run["reviewed"][0]["diff"]
    assert "-# Dune" not in run["reviewed"][0]["diff"]


async def test_a_watch_of_a_section_or_key_is_narrow_from_its_first_moment(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md#Decisions", by="Decisions")
        await declared(daemon_rig, "Books/*.md@status", by="Status")
        await wakes_no_one(daemon_rig, BOOK, WITH_WORMS)


async def test_a_pattern_that_is_added_has_a_baseline_and_a_former_no_list(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    save(vault / FILM, TEXT.replace("Dune", "Alien"))
    async with live() as daemon_rig:
        await declared(daemon_rig, "Books/*.md")
        await declared(daemon_rig, "Books/*.md", "Films/*.md")
        assert "Alien" in parts(vault)[1]
        await wakes_no_one(daemon_rig, FILM, SPACED.replace("Dune", "Alien"))

        text = (vault / "Reading.md").read_text("utf-8")
        save(vault / "Reading.md", text.replace('  - "Films/*.md"\n', ""))
        await daemon_rig.until(lambda: "Alien" not in parts(vault)[1])
        await daemon_rig.settled()


async def test_first_contact_shows_nothing_until_a_watcher_is_asked_for(live: Live, vault: Path):
    save(vault / BOOK, TEXT)
    save(vault / "Reading.md", note("Reading", watch=["Books/*.md"]))
    async with live() as daemon_rig:
        await daemon_rig.settled()
        assert daemon_rig.reported("task.") == daemon_rig.reported("run.") == []

        _cause, tasks = daemon_rig.daemon.loop.reconciler.ask("Reading.md")
        await daemon_rig.settled()
        assert [task.watcher for task in tasks] == ["Reading.md"]
        assert [run["outcome"] for run in daemon_rig.reported("run.finished")] == ["changed"]
        assert daemon_rig.daemon.loop.reviews.of("Reading.md") == []
    history, listed = parts(vault)
    assert ("Dune" in listed, history) == (True, "")
