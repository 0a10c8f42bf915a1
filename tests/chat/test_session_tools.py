"""The tools over conversations: from a turn's agent, and from a program over MCP."""

from __future__ import annotations

import json
from pathlib import Path

from parachuted.agents.job import Job
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import expect, get
from tests.chat.live_turns import results_in, turn
from tests.mcp.peers import call as tool
from tests.mcp.peers import client, refused
from tests.module_files import install_official
from tests.stories.daemon_rig import Live, save


async def test_an_agent_or_a_program_finds_and_names_conversations(live: Live, vault: Path):
    async def script(job: Job) -> object:
        if job.agent != "chat/chat":
            return (say("done"),)
        return (
            use("update_session_title", title="Beans"),
            use("update_session_summary", summary="About beans."),
            use("chat-tag", tag="garden"),
            say("Named."),
        )

    for name, title in (("s-2", "Cars"), ("s-4", "Peas")):
        text = f"---\nid: {name}\ntitle: {title}\n---\n"
        save(vault / f"Chat/sessions/2026-11-23 {name}.md", text)
    async with live(ScriptedBackend(script)) as daemon_rig, client(daemon_rig) as peer:
        await install_official(daemon_rig, "chat")
        answered = await turn(daemon_rig, "Tell the others about the beans.")
        talk, found = answered[-1]["sessionId"], results_in(answered)
        named, summed, tagged = map(json.loads, found)
        assert named == {"status": "ok", "title": "Beans"}
        assert summed == {"status": "ok"}
        assert tagged == {"tags": ["garden"]}
        await expect(daemon_rig, 200, "PATCH", f"/api/chat/{talk}", json={"title": "Mine"})
        again = results_in(await turn(daemon_rig, "Once more, about the beans.", talk))
        assert json.loads(again[0])["status"] == "protected"
        assert (await get(daemon_rig, f"/api/chat/{talk}"))["title"] == "Mine"

        page = await tool(peer, "chat-sessions", query="peas")
        assert [one["id"] for one in page["sessions"]] == ["s-4"]
        assert "no conversation here" in await refused(peer, "update_session_title", title="x")
        assert "no conversation here" in await refused(peer, "update_session_summary", summary="x")
