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


async def test_an_agent_or_a_program_finds_names_and_writes_to_conversations(
    live: Live, vault: Path
):
    async def script(job: Job) -> object:
        if job.agent != "chat/chat" or "Please answer" in job.prompt:
            return (say("done"),)
        return (
            use("update_session_title", title="Beans"),
            use("update_session_summary", summary="About beans."),
            use("chat-tag", tag="garden"),
            use("chat-send", session_id="s-2", message="Please answer this."),
            use("chat-send", session_id="s-3", message="Please answer this."),
            use("chat-create", title="Child", message="Please answer that."),
            say("Sent."),
        )

    for name, more in (("s-2", ""), ("s-3", "mode: trusted\n"), ("s-4", "title: Peas\n")):
        save(vault / f"Chat/sessions/2026-11-23 {name}.md", f"---\nid: {name}\n{more}---\n")
    async with live(ScriptedBackend(script)) as daemon_rig, client(daemon_rig) as peer:
        await install_official(daemon_rig, "chat")
        answered = await turn(daemon_rig, "Tell the others about the beans.")
        talk, found = answered[-1]["sessionId"], results_in(answered)
        named, summed, tagged, sent, made = map(json.loads, [*found[:4], found[5]])
        assert named == {"status": "ok", "title": "Beans"}
        assert summed == {"status": "ok"}
        assert tagged == {"tags": ["garden"]}
        assert sent["session_id"] == "s-2"
        assert "may do other things" in found[4]
        assert made["parent_id"] == talk
        for session_id in ("s-2", made["id"]):
            await daemon_rig.until(lambda one=session_id: said_in(vault, one) >= 2, 60)
        assert said_in(vault, "s-3") == 0
        await expect(daemon_rig, 200, "PATCH", f"/api/chat/{talk}", json={"title": "Mine"})
        again = results_in(await turn(daemon_rig, "Once more, about the beans.", talk))
        assert json.loads(again[0])["status"] == "protected"
        assert (await get(daemon_rig, f"/api/chat/{talk}"))["title"] == "Mine"

        page = await tool(peer, "chat-sessions", query="peas")
        assert [one["id"] for one in page["sessions"]] == ["s-4"]
        assert "no conversation here" in await refused(peer, "update_session_title", title="x")
        assert "no conversation here" in await refused(peer, "update_session_summary", summary="x")
        sent = await tool(peer, "chat-send", session_id="s-4", message="Please answer: hi")
        assert sent["status"] == "sent"
        await daemon_rig.until(lambda: said_in(vault, "s-4") == 2, 60)


def said_in(vault: Path, session_id: str) -> int:
    """How many messages a session's file has."""
    texts = (path.read_text("utf-8") for path in (vault / "Chat/sessions").glob("*.md"))
    return next(text.count("<!-- message") for text in texts if session_id in text[:400])
