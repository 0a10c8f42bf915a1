"""What the offline agent tells in a vault, end to end: what changed, where notes went, and what a
person wrote into its section.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from tests.api.calls import call
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


async def test_history_tells_values_boxes_and_decisions_in_the_vaults_links(
    live: Live, vault: Path
):
    (vault / ".obsidian").mkdir()
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "Status.md", note("Status", watch=["People/*.md@status"]))
    save(vault / "People/Acme.md", ACME)
    changed = ACME.replace("lead", "customer").replace("[ ] Send", "[x] Send")
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/Acme.md", changed + "- They pay in gold.\n")

        reported = history(vault)
        assert "[[People/Acme|Acme]]\n" in reported
        assert "  - status: customer (was lead)\n" in reported
        assert "  - Tasks: closed [x] Send offer\n" in reported
        assert "  - Decisions: They pay in gold.\n" in reported
        assert "[[People/Acme|Acme]] — Makes anvils for Road Runner." in section(vault)
        assert "status: customer (was lead)" in history(vault, "Status.md")
        assert "Send offer" not in history(vault, "Status.md")

        # what a person writes into the generated section is moved below it
        text = (vault / "Sales.md").read_text("utf-8")
        text = text.replace("- [[People/Acme|", "- ask them for a loan\n- [[People/Acme|")
        save(vault / "Sales.md", text)
        await saved(daemon_rig, "People/Acme.md", changed.replace("Makes", "Sells"))

    generated, _mark, below = section(vault).partition("<!-- end of what parachuted generated")
    assert "Sells anvils" in generated
    assert "loan" not in generated
    assert below.partition("-->")[2].strip() == "- ask them for a loan"


async def test_links_that_a_move_rewrites_are_no_words_of_a_persons(live: Live, vault: Path):
    save(vault / "Sales.md", note("Sales", watch=["People/**/*.md"]))
    save(vault / "People/Acme.md", ACME)
    moves = {"People/Acme.md": "People/Paid/Acme.md", "People/Paid/Acme.md": "People/Acme Ltd.md"}
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/Acme.md", ACME.replace("lead", "customer"))
        text = (vault / "Sales.md").read_text("utf-8")
        save(
            vault / "Sales.md",
            text.replace("- [[People/Acme|", "- ask for a loan\n- [[People/Acme|"),
        )
        for source, target in moves.items():
            runs = len(daemon_rig.reported("run.finished"))
            path, body = f"/api/notes/{quote(source)}/move", {"to": target}
            status, moved = await call(daemon_rig, "POST", path, json=body)
            assert (status, len(moved["rewritten"])) == (200, 1)
            await daemon_rig.until(lambda n=runs: len(daemon_rig.reported("run.finished")) > n)
            await daemon_rig.settled()

    generated, _mark, below = section(vault).partition("<!-- end of what parachuted generated")
    assert "[[People/Acme Ltd|Acme Ltd]]" in generated
    assert below.partition("-->")[2].strip() == "- ask for a loan"


async def test_a_note_that_moves_out_of_the_pattern_is_not_reported_deleted(
    live: Live, vault: Path
):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "People/Acme.md", ACME)
    (vault / "Archive").mkdir()
    async with live() as daemon_rig:
        watched, worker = daemon_rig.daemon.watched, daemon_rig.daemon.agents.worker
        worker.pause()
        (vault / "People/Acme.md").rename(vault / "Archive/Acme.md")
        await daemon_rig.until(lambda: daemon_rig.daemon.loop.reviews.of("Sales.md"))
        await daemon_rig.until(
            lambda: watched.index.get("Archive/Acme.md") and not watched.detector.busy
        )
        save(vault / "People/Acme.md", ACME.replace("lead", "customer"))
        await daemon_rig.until(lambda: watched.index.get("People/Acme.md"))
        worker.resume()
        await daemon_rig.settled()
        assert "status: customer (was lead)" in history(vault)
        assert "moved" not in history(vault)

        runs = len(daemon_rig.reported("run.finished"))
        (vault / "People/Acme.md").rename(vault / "Archive/Later.md")
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > runs)
        await daemon_rig.settled()
        reviewed = watched.history.runs(limit=1)[0]["reviewed"][0]
    assert (reviewed["kind"], "Archive/Later.md" in reviewed["diff"]) == ("moved", True)
    assert "moved to Archive/Later.md, which is not watched" in history(vault)
    assert "deleted" not in history(vault)


async def test_a_renamed_folder_is_one_line_and_a_list_that_is_cut_says_so(live: Live, vault: Path):
    save(vault / "Sales.md", note("Sales", watch=["People/*.md"]))
    save(vault / "Files.md", note("Files", watch=["Files/**/*.md"]))
    for number in range(230):
        save(vault / f"People/n{number}.md", f"# N{number}\n")
    for number in range(7):
        save(vault / f"Files/old/n{number}.md", f"# N{number}\n\nNumber {number}.\n")
    async with live() as daemon_rig:
        await saved(daemon_rig, "People/n7.md", "# N7\n\nNew.\n")
        (vault / "Files/old").rename(vault / "Files/new")
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > 1)
        await daemon_rig.settled()

    assert "\n- and 30 more\n" in section(vault)
    assert "[N7]" in section(vault)
    lines = [line for line in history(vault, "Files.md").splitlines() if line.startswith("- ")]
    assert [line.partition(": ")[2] for line in lines] == [
        "7 notes moved from Files/old to Files/new"
    ]


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
