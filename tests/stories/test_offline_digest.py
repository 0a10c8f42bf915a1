"""What the offline agent tells in a vault, end to end: what changed, where notes went, and what a
person wrote into its section.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.stories.daemon_rig import DaemonRig, Live, note, save

ACME = (
    "---\nstatus: lead\n---\nMakes anvils for [[Road Runner]].\n\n## Tasks\n- [ ] Send "
    "offer\n\n## Decisions\n"
)


def history(vault: Path, name: str = "Sales.md") -> str:
    return (vault / name).read_text("utf-8").partition("## History")[2].partition("\n## ")[0]


def section(vault: Path, name: str = "Sales.md") -> str:
    return (vault / name).read_text("utf-8").partition("## Watching\n")[2]


async def saved(daemon_rig: DaemonRig, path: str, text: str) -> None:
    runs = len(daemon_rig.reported("run.finished"))
    save(daemon_rig.vault / path, text)
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > runs)
    await daemon_rig.settled()


async def test_history_tells_values_boxes_and_decisions_in_wikilinks_where_the_vault_has_them(
    live: Live, vault: Path
):
    (vault / ".obsidian").mkdir()
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "People/Acme.md", ACME)
    async with live() as daemon_rig:
        changed = (
            ACME.replace("lead", "customer").replace("[ ] Send", "[x] Send")
            + "- They pay in gold.\n"
        )
        await saved(daemon_rig, "People/Acme.md", changed)

    reported = history(vault)
    assert "[[People/Acme|Acme]]\n" in reported
    assert "  - status: customer (was lead)\n" in reported
    assert "  - Tasks: closed [x] Send offer\n" in reported
    assert "  - Decisions: They pay in gold.\n" in reported
    assert "[[People/Acme|Acme]] — Makes anvils for Road Runner." in section(vault)


async def test_a_watch_of_one_key_hears_of_that_key_alone(live: Live, vault: Path):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md@status"]))
    save(vault / "People/Acme.md", ACME)
    async with live() as daemon_rig:
        await saved(
            daemon_rig,
            "People/Acme.md",
            ACME.replace("lead", "customer").replace("[ ] Send", "[x] Send"),
        )

    assert "status: customer (was lead)" in history(vault)
    assert "Send offer" not in history(vault)


async def test_a_note_that_is_moved_out_of_the_pattern_is_not_reported_as_deleted(
    live: Live, vault: Path
):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "People/Acme.md", ACME)
    async with live() as daemon_rig:
        runs = len(daemon_rig.reported("run.finished"))
        (vault / "Archive").mkdir()
        (vault / "People/Acme.md").rename(vault / "Archive/Acme.md")
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > runs)
        await daemon_rig.settled()

        reviewed = daemon_rig.daemon.watched.history.runs(limit=1)[0]["reviewed"][0]
    assert (reviewed["kind"], "Archive/Acme.md" in reviewed["diff"]) == ("moved", True)
    assert "moved to Archive/Acme.md, which is not watched" in history(vault)
    assert "deleted" not in history(vault)


async def test_a_note_that_was_moved_out_and_is_there_again_is_no_longer_reported_as_moved(
    live: Live, vault: Path
):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "People/Acme.md", ACME)
    (vault / "Archive").mkdir()
    async with live() as daemon_rig:
        daemon_rig.daemon.agents.worker.pause()
        (vault / "People/Acme.md").rename(vault / "Archive/Acme.md")
        await daemon_rig.until(lambda: daemon_rig.daemon.loop.reviews.of("Sales.md"))
        await daemon_rig.until(
            lambda: (
                daemon_rig.daemon.watched.index.get("Archive/Acme.md")
                and not daemon_rig.daemon.watched.detector.busy
            )
        )
        save(vault / "People/Acme.md", ACME.replace("lead", "customer"))
        await daemon_rig.until(lambda: daemon_rig.daemon.watched.index.get("People/Acme.md"))
        daemon_rig.daemon.agents.worker.resume()
        await daemon_rig.settled()

    assert "status: customer (was lead)" in history(vault)
    assert "moved" not in history(vault)


async def test_a_folder_that_is_renamed_is_one_line(live: Live, vault: Path):
    save(vault / "Sales.md", note("Sales", watch=["People/**/*.md"]))
    for number in range(7):
        save(vault / f"People/old/n{number}.md", f"# N{number}\n\nNumber {number}.\n")
    async with live() as daemon_rig:
        runs = len(daemon_rig.reported("run.finished"))
        (vault / "People/old").rename(vault / "People/new")
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > runs)
        await daemon_rig.settled()

    lines = [line for line in history(vault).splitlines() if line.startswith("- ")]
    assert [line.partition(": ")[2] for line in lines] == [
        "7 notes moved from People/old to People/new"
    ]


async def test_what_a_person_wrote_into_the_generated_section_is_moved_below_it(
    live: Live, vault: Path
):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "People/Acme.md", ACME)
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/Acme.md", ACME.replace("lead", "customer"))
        text = (vault / "Sales.md").read_text("utf-8")
        save(
            vault / "Sales.md",
            text.replace("- [[People/Acme|", "- ask them for a loan\n- [[People/Acme|"),
        )
        await saved(daemon_rig, "People/Acme.md", ACME.replace("Makes", "Sells"))

    generated, _mark, below = section(vault).partition("<!-- end of what parachuted generated")
    assert "Sells anvils" in generated
    assert "loan" not in generated
    assert below.partition("-->")[2].strip() == "- ask them for a loan"


async def test_a_list_that_is_cut_says_so(live: Live, vault: Path):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    for number in range(230):
        save(vault / f"People/n{number}.md", f"# N{number}\n")
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/n7.md", "# N7\n\nNew.\n")

    assert "\n- and 30 more\n" in section(vault)
    assert "[N7]" in section(vault)


async def test_strangers_notes_are_listed_and_mark_the_note_that_quotes_them(
    live: Live, vault: Path
):
    save(vault / "Sales.md", note("Sales", watch=["Clippings/*.md", "People/*.md"]))
    save(vault / "Clippings/Page.md", "---\norigin: web\n---\n# A page\n")
    save(vault / "People/Acme.md", ACME)
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/Acme.md", ACME.replace("lead", "customer"))

        assert [run["outcome"] for run in daemon_rig.reported("run.finished")] == ["changed"]
    assert "origin: stranger" in (vault / "Sales.md").read_text()
    assert "A page" in section(vault)


async def test_an_app_that_writes_markdown_links_has_them(live: Live, vault: Path):
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian/app.json").write_text(json.dumps({"useMarkdownLinks": True}))
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "People/Acme.md", ACME)
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/Acme.md", ACME.replace("lead", "customer"))

    assert "[Acme](People/Acme.md)" in section(vault)
