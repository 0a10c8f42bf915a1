"""Note tools: reading, adding and refusing, through the client's rights."""

from __future__ import annotations

from pathlib import Path

from tests.mcp.peers import call, client, listed, refused
from tests.stories.daemon_rig import Live, save


async def test_what_is_wrong_with_arguments_is_answered_and_changes_nothing(
    live: Live, vault: Path
):
    save(vault / "a.md", "# A\n\n## Facts\n\nx\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await daemon_rig.settled()
        for words, tool, arguments in (
            ("'path' is a required property", "read_note", {}),
            ("Additional properties", "read_note", {"path": "a.md", "base": "x"}),
            ("there is no tool", "no_such_tool", {}),
            ("have not read it", "write_note", {"path": "a.md", "text": ""}),
            ("belongs to a program", "write_note", {"path": ".claude/x.json", "text": "{}"}),
        ):
            assert words in await refused(peer, tool, **arguments)
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
