"""Other people's MCP servers in a conversation, with Claude Code's CLI and a scripted model."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say, use
from tests.api.calls import call, code, expect, get, key_of
from tests.chat.app_decoder import decode
from tests.chat.live_turns import results_in, turn
from tests.mcp.sums import SCRIPT, declare
from tests.module_files import install_official
from tests.stories.daemon_rig import Live

NOTE = "Garden/sum.md"


class Model:
    """In a turn it adds where it can, writes what came of it, and says so."""

    def __init__(self) -> None:
        self.offered: list[list[str]] = []

    def __call__(self, request: RecordedRequest) -> Sequence[Block]:
        tools = [str(tool["name"]).rpartition("__")[2] for tool in request.body.get("tools", ())]
        if "AskUserQuestion" not in tools:
            return [say("Noted.")]
        said = json.dumps(request.body["messages"][-1])
        if "tool_result" not in said:
            self.offered.append(tools)
            return [use("sums__add", one=2, other=3)] if "add" in tools else [say("I cannot.")]
        if "The sum is 5." in said:
            return [use("write_note", path=NOTE, text="Five.")]
        return [say("Done.")]


def rows_hold(answer: dict) -> dict:
    """The servers by name, as strictly as the app reads them."""
    for one in answer["servers"]:
        decode(one, "name:s displayType:s displayCommand:s builtin:b")
        assert all(isinstance(problem, str) for problem in one["validationErrors"])
    return {one["name"]: one for one in answer["servers"]}


async def test_an_approved_servers_tools_are_bounded_and_their_answers_strangers(
    talking, vault: Path, engine: Mapping[str, str]
):
    (vault / "sums_server.py").write_bytes(SCRIPT.read_bytes())
    (vault / "sums_server.py").chmod(0o644)
    declare(vault)
    model = Model()
    async with ScriptedMessages([model] * 200) as api, talking(api, engine=engine) as daemon_rig:
        await install_official(daemon_rig, "chat")
        session = (await turn(daemon_rig, "Add two and three."))[-1]["sessionId"]
        (offered,) = model.offered
        assert "add" not in offered
        listed = rows_hold(await get(daemon_rig, "/api/mcps"))["sums"]
        assert listed["approved"] is False
        _, shown = await call(daemon_rig, "GET", "/api/mcps/sums/tools")
        assert "has not been approved" in decode(shown, "error?:s")["error"]
        tested = await expect(daemon_rig, 200, "POST", "/api/mcps/sums/test")
        assert tested["success"] is False

        approve = "/api/mcps/sums/approve"
        for body, status in (({}, 400), ({"digest": "sha256:0"}, 409)):
            assert await code(daemon_rig, "POST", approve, json=body) == status
        body = {"digest": listed["digest"]}
        approved = await expect(daemon_rig, 200, "POST", approve, json=body)
        assert [one["name"] for one in approved["tools"]] == ["sums__add", "sums__reach"]
        for path in ("sums", "parachute"):
            _, shown = await call(daemon_rig, "GET", f"/api/mcps/{path}/tools")
            assert decode(shown, "error?:s")["error"] is None
            assert [decode(one, "name:s description?:s") for one in shown["tools"]]
        permissions = {
            "allowed_folders": ["Garden"],
            "allowed_mcps": None,
            "capabilities": ["Read", "Write"],
        }
        change = f"/api/chat/{session}"
        for mcps, is_offered in ((None, False), ([], False), (["sums"], True), (["other"], False)):
            body = {"permissions": permissions | {"allowed_mcps": mcps}}
            assert await code(daemon_rig, "PATCH", change, json=body) == 200
            answered = await turn(daemon_rig, f"Add them with {mcps}.", session)
            assert ("add" in model.offered[-1]) is is_offered, mcps
            [reported] = [one for one in answered if one["type"] == "prompt_metadata"]
            assert reported["availableMcps"] == (["sums"] if is_offered else [])
            results = results_in(answered)
            assert ("The sum is 5." in results) is is_offered
            if is_offered:
                assert "instead it is suggested" in results[-1]
        assert not (vault / NOTE).exists()
        whole = {"permissions": permissions | {"allowed_folders": None, "allowed_mcps": None}}
        whole |= {"contextFolders": ["Garden"]}
        assert await code(daemon_rig, "PATCH", change, json=whole) == 200
        await turn(daemon_rig, "Add all.", session)
        assert "add" in model.offered[-1]

        more = {"name": "more", "command": sys.executable}
        found = await expect(daemon_rig, 200, "POST", "/api/mcps", json=more)
        assert found["server"]["approved"] is False
        for body, status in (({"name": "more", "command": "x"}, 409), ({"name": "bad"}, 422)):
            assert await code(daemon_rig, "POST", "/api/mcps", json=body) == status
        for name, status in (("more", 200), ("more", 404), ("parachute", 403), ("sums", 403)):
            assert await code(daemon_rig, "DELETE", f"/api/mcps/{name}") == status, name


async def test_a_key_that_only_administers_agents_changes_no_server(live: Live, vault: Path):
    declare(vault)
    added = {"name": "more", "command": "cat", "args": ["/etc/hostname"]}
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "curator:read,write,admin")
        everything = key_of(daemon_rig, "system:read,write,admin")
        for method, path in (
            ("POST", "/api/mcps"),
            ("DELETE", "/api/mcps/more"),
            ("POST", "/api/mcps/sums/approve"),
            ("POST", "/api/mcps/sums/test"),
        ):
            assert await code(daemon_rig, method, path, json=added, headers=key) == 403, path
        assert await code(daemon_rig, "GET", "/api/mcps", headers=key) == 200
        assert await code(daemon_rig, "POST", "/api/mcps", json=added, headers=everything) == 200
