"""Protocol: what a client of the `mcp` package hears of the server, its tools and its notes."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from parachuted import __version__
from parachuted.mcp.protocol import address_of, path_at
from tests.mcp.peers import call, client
from tests.stories.daemon_rig import Live, save


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_learns_who_serves_and_what_tools_may_do(live: Live, mode: str):
    async with live() as daemon_rig, client(daemon_rig, mode=mode) as peer:
        assert (peer.server_info.name, peer.server_info.version) == ("parachute", __version__)
        assert "undo" in (peer.instructions or "")
        tools = (await peer.list_tools()).tools
        hints = {
            tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
            for tool in tools
        }
        assert hints["read_note"] == (True, None)
        assert hints["write_note"] == (False, True)
        assert all(tool.description and tool.output_schema for tool in tools)


def test_an_address_names_any_path():
    for path in ("a.md", "Work/b c.md", "Ä/ö?#%.md", "a/b/c.md"):
        assert path_at(address_of(path)) == path
    assert path_at("file:///etc/passwd") == ""


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_notes_are_listed_a_page_at_a_time_and_read(live: Live, vault: Path, mode: str):
    for number in range(250):
        save(vault / f"Work/n{number:03}.md", f"# Note {number}\n")
    save(vault / "Inbox/mail.md", "# Mail\n")
    save(vault / "Ä ö.md", "# Umlaut\n")
    async with live() as daemon_rig, client(daemon_rig, mode=mode) as peer:
        await daemon_rig.settled()
        await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)
        first = await peer.list_resources()
        rest = await peer.list_resources(cursor=first.next_cursor)
        found = [*first.resources, *rest.resources]
        assert len(found) == 251
        assert rest.next_cursor is None
        assert "note:///Inbox/mail.md" not in {one.uri for one in found}
        (umlaut,) = [one for one in found if one.title == "Umlaut"]
        read = await peer.read_resource(umlaut.uri)
        assert [content.text for content in read.contents] == ["# Umlaut\n"]
        templates = (await peer.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["note:///{+path}"]
        for wrong in ("note:///none.md", "note:///../x.md", "file:///etc/passwd", "note:///"):
            with pytest.raises(MCPError):
                await peer.read_resource(wrong)
        with pytest.raises(MCPError):
            await peer.list_resources(cursor="nonsense")


async def test_what_was_read_as_a_resource_may_be_replaced(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await peer.read_resource("note:///a.md")
        await call(peer, "write_note", path="a.md", text="# B\n")
        assert (vault / "a.md").read_text() == "# B\n"
