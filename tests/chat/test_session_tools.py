"""The tools over conversations: from a turn's agent, and from a program over MCP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parachuted.agents.job import Job
from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import call, get
from tests.api.routes.test_modules import install
from tests.chat.live_turns import events
from tests.mcp.peers import call as tool
from tests.mcp.peers import client, refused
from tests.stories.daemon_rig import DaemonRig, Live, save

OTHER = "Chat/sessions/2026-11-23 Other.md"
TRUSTED = "Chat/sessions/2026-11-23 Trusted.md"


async def result_of(daemon_rig: DaemonRig, message: str) -> tuple[str, list[Any]]:
    """The session of a turn, and what its tools answered: JSON, or the words of an error."""
    body = {"message": message, "module": "chat"}
    found = [one for _, one in await events(daemon_rig, "POST", "/api/chat", body)]
    assert found[-1]["type"] == "done", found[-1]
    answers = [
        one["content"] if one["isError"] else json.loads(one["content"])
        for one in found
        if one["type"] == "tool_result"
    ]
    return found[-1]["sessionId"], answers


async def test_an_agent_names_its_conversation_and_writes_to_another(live: Live, vault: Path):
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

    for path, text in ((OTHER, "id: s-2\n"), (TRUSTED, "id: s-3\nmode: trusted\n")):
        save(vault / path, f"---\n{text}---\n")
    async with live(ScriptedBackend(script)) as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        talk, answers = await result_of(daemon_rig, "Tell the others about the beans.")

        assert answers[0] == {"status": "ok", "title": "Beans"}
        assert answers[1] == {"status": "ok"}
        assert answers[2] == {"tags": ["garden"]}
        assert answers[3]["session_id"] == "s-2"
        assert "may do other things" in answers[4]
        assert answers[5]["parent_id"] == talk
        for session_id in ("s-2", answers[5]["id"]):
            await daemon_rig.until(lambda one=session_id: said_in(vault, one) >= 2, 60)
        assert said_in(vault, "s-3") == 0
        await call(daemon_rig, "PATCH", f"/api/chat/{talk}", json={"title": "Mine"})
        body = {"message": "Once more, about the beans.", "sessionId": talk}
        found = [one for _, one in await events(daemon_rig, "POST", "/api/chat", body)]
        first = next(one for one in found if one["type"] == "tool_result")
        assert json.loads(first["content"])["status"] == "protected"
        assert (await get(daemon_rig, f"/api/chat/{talk}"))["title"] == "Mine"


def said_in(vault: Path, session_id: str) -> int:
    """How many messages a session's file has."""
    texts = (path.read_text("utf-8") for path in (vault / "Chat/sessions").glob("*.md"))
    return next(text.count("<!-- message") for text in texts if session_id in text[:400])


async def test_a_program_over_mcp_finds_conversations_and_has_none_of_its_own(
    live: Live, vault: Path
):
    save(vault / OTHER, "---\nid: s-2\ntitle: Other\n---\n")
    async with live(ScriptedBackend((say("done"),))) as daemon_rig, client(daemon_rig) as peer:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")

        found = await tool(peer, "chat-sessions", query="other")
        assert [one["id"] for one in found["sessions"]] == ["s-2"]
        assert "no conversation here" in await refused(peer, "update_session_title", title="x")
        assert "no conversation here" in await refused(peer, "update_session_summary", summary="x")
        assert (await tool(peer, "chat-send", session_id="s-2", message="Hi"))["status"] == "sent"
        await daemon_rig.until(lambda: said_in(vault, "s-2") == 2, 60)
