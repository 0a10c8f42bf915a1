"""Which tools a conversation's agent and its curator are offered, as the CLI sends them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say
from tests.api.routes.test_modules import install
from tests.chat.live_turns import call, events
from tests.stories.daemon_rig import DaemonRig, save


def on(server: str, names: str) -> set[str]:
    """The tools of these names on that server, as the model sees them."""
    return {f"mcp__{server}__{name}" for name in names.split()}


OF_NOTES = on("vault", "read_note list_notes search_notes")
OWN = on("chat", "update_session_title update_session_summary")
OF_SESSIONS = OWN | on(
    "chat", "chat-sessions chat-session chat-tag chat-untag chat-create chat-send chat-context"
)
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


async def turn(daemon_rig: DaemonRig, **fields: object) -> str:
    """One turn; its session."""
    body = {"message": "Where are the beans?", **fields}
    found = [one for _, one in await events(daemon_rig, "POST", "/api/chat", body)]
    assert found[-1]["type"] == "done", found[-1]
    return str(found[-1]["sessionId"])


async def test_a_conversation_and_its_curator_each_have_their_own_tools(talking, vault: Path):
    model = Model()
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        await turn(daemon_rig)
        await daemon_rig.until(lambda: "curator" in model.offered, 60)

        assert model.offered["turn"] == OF_NOTES | OF_SESSIONS | QUESTION | SUGGESTION
        assert model.offered["curator"] == OF_CURATOR


async def test_the_tools_of_its_own_sessions_stay_whatever_else_is_left_out(talking, vault: Path):
    agent = "---\nname: cook\ndescription: Cooks.\ntools: [Read, brain-search]\n---\nCook.\n"
    save(vault / ".agents/cook.md", agent)
    workspace = {"name": "Kitchen", "capabilities": {"mcps": []}}
    model = Model()
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        for name in ("brain", "daily", "chat"):
            await install(daemon_rig, bundled_folder("modules") / name, "trusted")
        assert (await call(daemon_rig, "POST", "/api/workspaces", workspace))[0] == 200
        session = await turn(daemon_rig, workspaceId="kitchen")
        assert model.offered["turn"] >= OF_SESSIONS | SEARCH | TYPES
        assert model.offered["turn"].isdisjoint(WRITING), "it may only read"
        await turn(daemon_rig, agentPath=".agents/cook.md")
        assert model.offered["turn"] == OF_NOTES | OF_SESSIONS | QUESTION | SUGGESTION | SEARCH

        async def offered(**permissions: object) -> set[str]:
            body = {"permissions": {"capabilities": [], **permissions}}
            answer = await call(daemon_rig, "PATCH", f"/api/chat/{session}", body)
            assert answer[0] == 200, json.dumps(answer)
            await turn(daemon_rig, sessionId=session)
            return model.offered["turn"] - QUESTION

        named = await offered(allowed_folders=None, allowed_mcps=["brain-search"])
        assert named == OF_SESSIONS | SEARCH
        assert await offered(allowed_folders=None, allowed_mcps=[]) == OF_SESSIONS
        assert await offered(allowed_folders=["Garden"], allowed_mcps=[]) == OWN
        writer = await offered(allowed_mcps=None, capabilities=["Read", "Write"])
        assert writer >= OF_SESSIONS | TYPES | WRITING
