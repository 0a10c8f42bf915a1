"""Other people's MCP servers in a conversation, with Claude Code's CLI and a scripted model."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say, use
from tests.api.calls import call as keyed
from tests.api.calls import key_of
from tests.api.routes.test_modules import install
from tests.chat.app_decoder import decode
from tests.chat.live_turns import call, events
from tests.mcp.sums import SCRIPT, declare

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
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        first = await events(daemon_rig, "POST", "/api/chat", {"message": "Add two and three."})
        session = first[-1][1]["sessionId"]
        assert model.offered == [model.offered[0]]
        assert "add" not in model.offered[0]
        status, listed = await call(daemon_rig, "GET", "/api/mcps")
        assert (status, rows_hold(listed)["sums"]["approved"]) == (200, False)
        status, shown = await call(daemon_rig, "GET", "/api/mcps/sums/tools")
        assert "has not been approved" in decode(shown, "error?:s")["error"]
        status, tested = await call(daemon_rig, "POST", "/api/mcps/sums/test")
        assert (status, tested["success"]) == (200, False)

        assert (await call(daemon_rig, "POST", "/api/mcps/sums/approve", {}))[0] == 400
        stale = {"digest": "sha256:0"}
        assert (await call(daemon_rig, "POST", "/api/mcps/sums/approve", stale))[0] == 409
        shown = {"digest": rows_hold(listed)["sums"]["digest"]}
        status, approved = await call(daemon_rig, "POST", "/api/mcps/sums/approve", shown)
        assert (status, [one["name"] for one in approved["tools"]]) == (
            200,
            ["sums__add", "sums__reach"],
        )
        for path in ("sums", "parachute"):
            status, shown = await call(daemon_rig, "GET", f"/api/mcps/{path}/tools")
            assert decode(shown, "error?:s")["error"] is None
            assert [decode(one, "name:s description?:s") for one in shown["tools"]]
        permissions = {
            "allowed_folders": ["Garden"],
            "allowed_mcps": None,
            "capabilities": ["Read", "Write"],
        }
        for mcps, is_offered in ((None, False), ([], False), (["sums"], True), (["other"], False)):
            body = {"permissions": permissions | {"allowed_mcps": mcps}}
            assert (await call(daemon_rig, "PATCH", f"/api/chat/{session}", body))[0] == 200
            body = {"message": f"Add them with {mcps}.", "sessionId": session}
            turn = [one for _, one in await events(daemon_rig, "POST", "/api/chat", body)]
            assert turn[-1]["type"] == "done", turn[-1]
            assert ("add" in model.offered[-1]) is is_offered, mcps
            [reported] = [one for one in turn if one["type"] == "prompt_metadata"]
            assert reported["availableMcps"] == (["sums"] if is_offered else [])
            results = [one["content"] for one in turn if one["type"] == "tool_result"]
            assert ("The sum is 5." in results) is is_offered
            if is_offered:
                assert "instead it is suggested" in results[-1]
        assert not (vault / NOTE).exists()
        whole = {"permissions": permissions | {"allowed_folders": None, "allowed_mcps": None}}
        whole |= {"contextFolders": ["Garden"]}
        assert (await call(daemon_rig, "PATCH", f"/api/chat/{session}", whole))[0] == 200
        await events(daemon_rig, "POST", "/api/chat", {"message": "Add all.", "sessionId": session})
        assert "add" in model.offered[-1]

        status, found = await call(
            daemon_rig, "POST", "/api/mcps", {"name": "more", "command": sys.executable}
        )
        assert (status, found["server"]["approved"]) == (200, False)
        assert (await call(daemon_rig, "POST", "/api/mcps", {"name": "more", "command": "x"}))[
            0
        ] == 409
        assert (await call(daemon_rig, "POST", "/api/mcps", {"name": "bad"}))[0] == 422
        for name, status in (("more", 200), ("more", 404), ("parachute", 403), ("sums", 403)):
            assert (await call(daemon_rig, "DELETE", f"/api/mcps/{name}"))[0] == status, name


async def test_a_key_that_only_administers_agents_changes_no_server(talking, vault: Path):
    declare(vault)
    added = {"name": "more", "command": "cat", "args": ["/etc/hostname"]}
    async with ScriptedMessages([]) as api, talking(api) as daemon_rig:
        key = key_of(daemon_rig, "curator:read,write,admin")
        everything = key_of(daemon_rig, "system:read,write,admin")
        for method, path in (
            ("POST", "/api/mcps"),
            ("DELETE", "/api/mcps/more"),
            ("POST", "/api/mcps/sums/approve"),
            ("POST", "/api/mcps/sums/test"),
        ):
            assert (await keyed(daemon_rig, method, path, json=added, headers=key))[0] == 403, path
        assert (await keyed(daemon_rig, "GET", "/api/mcps", headers=key))[0] == 200
        status, _ = await keyed(daemon_rig, "POST", "/api/mcps", json=added, headers=everything)
        assert status == 200
