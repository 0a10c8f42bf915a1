"""Prompts: a few, with one argument each."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.mcp_server.protocol import PROMPTS, filled
from tests.mcp_server.peers import client
from tests.stories.daemon_rig import Live


def test_an_argument_stands_in_its_place_as_it_is():
    prompt, text = filled("recall", {"question": "What of {argument}?"})

    assert prompt.name == "recall"
    assert text.endswith("What of {argument}?")
    with pytest.raises(EditRefusedError, match="question should be a text"):
        filled("recall", {})
    with pytest.raises(NotFoundError):
        filled("none", None)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_lists_and_gets_them(live: Live, mode: str):
    async with live() as daemon_rig, client(daemon_rig, mode=mode) as peer:
        listed = (await peer.list_prompts()).prompts
        assert [one.name for one in listed] == [one.name for one in PROMPTS]
        got = await peer.get_prompt("why", {"path": "plan.md"})
        assert "plan.md" in got.messages[0].content.text
        with pytest.raises(MCPError, match="should be a text"):
            await peer.get_prompt("why", {})
