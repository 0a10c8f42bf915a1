"""Which tools a conversation's agent and its curator are offered, as the CLI sends them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say
from tests.api.calls import expect, post
from tests.chat.live_turns import turn
from tests.module_files import install_official
from tests.stories.daemon_rig import save


def on(server: str, names: str) -> set[str]:
    """The tools of these names on that server, as the model sees them."""
    return {f"mcp__{server}__{name}" for name in names.split()}


OF_NOTES = on("vault", "read_note list_notes search_notes")
OWN = on("chat", "update_session_title update_session_summary")
OF_SESSIONS = OWN | on("chat", "chat-sessions chat-session chat-tag chat-untag chat-context")
OF_CURATOR = on("curator", "update_title update_summary log_activity update_context")
QUESTION, SUGGESTION = on("parachute", "AskUserQuestion"), on("parachute", "suggest_change")
SEARCH, TYPES = on("brain", "brain-search"), on("brain", "brain-types")
WRITING = on("brain", "brain-link") | on("daily", "daily-create")


class Model:
    """Says a word to each agent; `offered` are the tools that a turn and the curator had last."""

    def __init__(self) -> None:
        self.offered: dict[str, set[str]] = {}

    def __call__(self, request: RecordedRequest) -> Sequence[Block]:
        tools = {str(tool["name"]) for tool in request.body.get("tools") or ()}
        if tools:
            self.offered["turn" if tools >= QUESTION else "curator"] = tools
        return [say("Noted.")]


async def test_each_agent_has_its_tools_and_its_sessions_stay_within_reach(talking, vault: Path):
    agent = "---\nname: cook\ndescription: Cooks.\ntools: [Read, brain-search]\n---\nCook.\n"
    save(vault / ".agents/cook.md", agent)
    asked, model = "Where are the beans?", Model()
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install_official(daemon_rig, "chat")
        await turn(daemon_rig, asked)
        await daemon_rig.until(lambda: "curator" in model.offered, 60)
        assert model.offered["turn"] == OF_NOTES | OF_SESSIONS | QUESTION | SUGGESTION
        assert model.offered["curator"] == OF_CURATOR

        await install_official(daemon_rig, "brain", "daily")
        workspace = {"name": "Kitchen", "capabilities": {"mcps": []}}
        await post(daemon_rig, "/api/workspaces", workspace)
        session = (await turn(daemon_rig, asked, workspaceId="kitchen"))[-1]["sessionId"]
        assert model.offered["turn"] >= OF_SESSIONS | SEARCH | TYPES
        assert model.offered["turn"].isdisjoint(WRITING), "it may only read"
        await turn(daemon_rig, asked, agentPath=".agents/cook.md")
        assert model.offered["turn"] == OF_NOTES | OF_SESSIONS | QUESTION | SUGGESTION | SEARCH

        async def offered(**permissions: object) -> set[str]:
            body = {"permissions": {"capabilities": [], **permissions}}
            await expect(daemon_rig, 200, "PATCH", f"/api/chat/{session}", json=body)
            await turn(daemon_rig, asked, session)
            return model.offered["turn"] - QUESTION

        named = await offered(allowed_folders=None, allowed_mcps=["brain-search"])
        assert named == OF_SESSIONS | SEARCH
        assert await offered(allowed_folders=None, allowed_mcps=[]) == OF_SESSIONS
        assert await offered(allowed_folders=["Garden"], allowed_mcps=[]) == OWN
        writer = await offered(allowed_mcps=None, capabilities=["Read", "Write"])
        assert writer >= OF_SESSIONS | TYPES | WRITING
