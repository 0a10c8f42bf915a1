"""Note tools: reading, adding and refusing, through the client's rights."""

from __future__ import annotations

from pathlib import Path

from tests.mcp.peers import call, client, listed, refused
from tests.stories.daemon_rig import Live, save


async def test_what_is_wrong_with_arguments_is_said_and_changes_nothing(live: Live, vault: Path):
    save(vault / "a.md", "# A\n\n## Facts\n\nx\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await daemon_rig.settled()
        assert "'path' is a required property" in await refused(peer, "read_note")
        assert "Additional properties" in await refused(peer, "read_note", path="a.md", base="x")
        assert "is not of type 'string'" in await refused(peer, "read_note", path=["a.md"])
        assert "there is no tool" in await refused(peer, "no_such_tool")
        assert "no section" in await refused(peer, "read_note", path="a.md", section="Nothing")
        assert "have not read it" in await refused(peer, "write_note", path="a.md", text="")
        await call(peer, "read_note", path="a.md", section="Facts")
        assert "have not read it" in await refused(peer, "write_note", path="a.md", text="")
        await refused(peer, "read_note", path="/etc/passwd")
        await refused(peer, "write_note", path=".claude/settings.json", text="{}")
        assert await listed(peer) == ["a.md"]


async def test_a_section_is_read_and_added_to(live: Live, vault: Path):
    save(vault / "a.md", "# A\n\n## Facts\n\nx\n\n## More\n\ny\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        read = await call(peer, "read_note", path="a.md", section="Facts")
        assert read["text"] == "## Facts\n\nx\n\n"
        await call(peer, "edit_section", path="a.md", section="Facts", text="z", append=True)
        assert (vault / "a.md").read_text() == "# A\n\n## Facts\n\nx\nz\n\n## More\n\ny\n"
        await call(peer, "set_key", path="a.md", key="status", value="open")
        await call(peer, "set_key", path="a.md", key="status", value=None)
        assert "status" not in (vault / "a.md").read_text()


async def test_notes_are_listed_by_folder_tag_and_key_a_page_at_a_time(live: Live, vault: Path):
    for number in range(5):
        save(vault / f"Work/n{number}.md", f"---\nrank: {number}\n---\n# N\n")
    save(vault / "a.md", "---\ntags: [tea]\n---\n# A\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await daemon_rig.settled()
        await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)
        assert await listed(peer, tag="tea") == ["a.md"]
        assert await listed(peer, where={"rank": 3}) == ["Work/n3.md"]
        first = await call(peer, "list_notes", folder="Work", order="-rank", limit=3)
        rest = await call(
            peer, "list_notes", folder="Work", order="-rank", limit=3, cursor=first["next"]
        )
        assert [one["path"] for one in [*first["notes"], *rest["notes"]]] == [
            f"Work/n{number}.md" for number in (4, 3, 2, 1, 0)
        ]
        assert "next" not in rest
        await refused(peer, "list_notes", cursor="nonsense")


async def test_a_move_takes_its_links_along_and_is_one_run(live: Live, vault: Path):
    save(vault / "plan.md", "# Plan\n")
    save(vault / "index.md", "See [[plan]] and [it](plan.md).\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await daemon_rig.settled()
        await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)
        moved = await call(peer, "move_note", path="plan.md", to="Work/scheme.md")
        assert (vault / "Work/scheme.md").read_text() == "# Plan\n"
        assert "scheme" in (vault / "index.md").read_text()
        assert "plan" not in (vault / "index.md").read_text()

        await call(peer, "undo", run=moved["run"])
        assert (vault / "plan.md").read_text() == "# Plan\n"
        assert (vault / "index.md").read_text() == "See [[plan]] and [it](plan.md).\n"
        save(vault / "taken.md", "# Taken\n")
        await refused(peer, "move_note", path="plan.md", to="taken.md")
