"""Protocol: what a client of the `mcp` package hears of the server, its tools and its notes."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from parachuted import __version__
from parachuted.mcp.protocol import address_of, path_at
from tests.mcp.peers import call, client
from tests.stories.daemon_rig import DaemonRig, save

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_learns_who_serves_and_what_tools_may_do(daemon_rig: DaemonRig, mode: str):
    async with client(daemon_rig, mode=mode) as peer:
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


async def test_notes_are_listed_a_page_at_a_time_read_and_replaced(daemon_rig: DaemonRig):
    for path in ("a.md", "Work/b c.md", "Ä/ö?#%.md", "a/b/c.md"):
        assert path_at(address_of(path)) == path
    assert path_at("file:///etc/passwd") == ""
    for number in range(250):
        save(daemon_rig.vault / f"Work/n{number:03}.md", f"# Note {number}\n")
    save(daemon_rig.vault / "Inbox/mail.md", "# Mail\n")
    umlaut = daemon_rig.vault / "Ä ö.md"
    save(umlaut, "# Umlaut\n")
    await daemon_rig.settled()
    await daemon_rig.indexed()
    for mode in ("legacy", "auto"):
        async with client(daemon_rig, mode=mode) as peer:
            await all_is_read(peer)
    async with client(daemon_rig) as peer:
        await peer.read_resource(address_of("Ä ö.md"))
        await call(peer, "write_note", path="Ä ö.md", text="# B\n")
        assert umlaut.read_text() == "# B\n"


async def all_is_read(peer: Client) -> None:
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
