"""Protocol: what a client of the `mcp` package hears of the server, its tools and its prompts."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from parachuted import __version__
from tests.mcp.peers import client
from tests.stories.daemon_rig import Live


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_learns_who_serves_what_tools_may_do_and_what_to_ask(live: Live, mode: str):
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

        prompts = (await peer.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["journal", "recall", "why"]
        got = await peer.get_prompt("recall", {"question": "What of {argument}?"})
        assert got.messages[0].content.text.endswith("What of {argument}?")
        with pytest.raises(MCPError, match="question should be a text"):
            await peer.get_prompt("recall", {})
        with pytest.raises(MCPError, match="there is no prompt"):
            await peer.get_prompt("none", {})
