"""Tools: their definitions are short, their calls recorded, and done once with a key."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp

from parachuted.bundled import bundled_folder
from tests.api.calls import get
from tests.api.routes.test_modules import install
from tests.mcp.peers import RawMcpClient, call, client, refused
from tests.runs.test_agent_hooks import Scripted, no, yes
from tests.stories.daemon_rig import Live, save

OFFICIAL = ("daily", "brain", "chat")
MOST_TOKENS = 2_000
CHARS_PER_TOKEN = 3.5


async def test_every_call_is_in_the_audit_with_its_client(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        async with client(daemon_rig) as peer:
            await call(peer, "read_note", path="a.md")
            await refused(peer, "read_note", path="none.md")
        daemon_rig.daemon.vault.audit.flush()
        reported = (await get(daemon_rig, "/api/audit?type=mcp_call"))["events"]
        assert [
            (one["source_id"], one["target_endpoint"], one["paths"], one["success"])
            for one in reported
        ] == [
            ("mcp:test", "mcp.read_note", ["none.md"], False),
            ("mcp:test", "mcp.read_note", ["a.md"], True),
        ]


async def test_a_client_reads_no_private_part_and_the_audit_says_that_it_was_left_out(
    live: Live, vault: Path
):
    save(vault / "a.md", "# A\n\nOpen.\n\n## Health #private\n\nKnee aches.\n")
    save(vault / "b.md", "---\nprivate: true\n---\n# B\n\nElbow aches.\n")
    save(vault / "c.md", "# C\n")
    async with live() as daemon_rig:
        async with client(daemon_rig) as peer:
            read = [await call(peer, "read_note", path=path) for path in ("a.md", "b.md", "c.md")]
            read.append(await call(peer, "search_notes", query="aches"))
        assert "aches" not in str(read)
        daemon_rig.daemon.vault.audit.flush()
        found = (await get(daemon_rig, "/api/audit?type=mcp_call"))["events"]

        assert [(*one["paths"], one["target_endpoint"]) for one in reversed(found)] == [
            ("a.md", "mcp.read_note: private parts left out"),
            ("b.md", "mcp.read_note: private parts left out"),
            ("c.md", "mcp.read_note"),
            ("mcp.search_notes",),
        ]


async def test_all_definitions_together_are_at_most_2000_tokens(live: Live):
    """A token is taken for 3.5 characters of JSON without spaces. A model is given the name, the
    description and the arguments of each tool; what clients keep for themselves (answers and hints)
    is counted for the core's own tools.
    """
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        own = (await RawMcpClient(daemon_rig, session).ask("tools/list"))["tools"]
        assert len(own) >= 14
        assert tokens(own) <= MOST_TOKENS
        for name in OFFICIAL:
            await install(daemon_rig, bundled_folder("modules") / name)
        everything = (await RawMcpClient(daemon_rig, session).ask("tools/list"))["tools"]
        given = [
            {name: tool[name] for name in ("name", "description", "inputSchema")}
            for tool in everything
        ]
        assert len(given) > len(own)
        assert "update_title" not in {tool["name"] for tool in given}, "for runs only"
        assert tokens(given) <= MOST_TOKENS


def tokens(document: object) -> float:
    return len(json.dumps(document, separators=(",", ":"))) / CHARS_PER_TOKEN


async def test_an_idempotency_key_does_a_call_once(live: Live, vault: Path):
    save(vault / "a.md", "# A\n\n## Log\n")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        bare = RawMcpClient(daemon_rig, session)
        added = {"path": "a.md", "section": "Log", "text": "once", "append": True}
        once = {"_meta": {"parachute/idempotencyKey": "k1"}, "name": "edit_section"}
        first, second = [
            await bare.ask("tools/call", {**once, "arguments": added}) for _ in range(2)
        ]
        assert first == second
        assert (vault / "a.md").read_text().count("once") == 1
        other = await bare.ask("tools/call", {**once, "arguments": {**added, "text": "twice"}})
        assert "belongs to another call" in other["content"][0]["text"]


async def test_hooks_are_asked_about_a_call_and_hear_of_it(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        asker = Scripted({"tool.before": no("hands off")})
        daemon_rig.daemon.agents.run_hooks.asker = asker
        async with client(daemon_rig) as peer:
            assert "hands off" in await refused(peer, "write_note", path="b.md", text="# B\n")
            assert not (vault / "b.md").exists()
        (asked,) = asker.asked
        assert (asked.event, asked.data["tool_name"]) == ("tool.before", "write_note")
        assert asked.data["agent_type"] == "mcp:test"

        daemon_rig.daemon.agents.run_hooks.asker = Scripted({"tool.after": yes()})
        async with client(daemon_rig) as peer:
            await call(peer, "read_note", path="a.md")
        assert [one["tool_name"] for one in daemon_rig.reported("tool.after")] == ["read_note"]


async def test_an_answer_that_a_hook_replaced_reaches_no_client_whole(live: Live, vault: Path):
    save(vault / "a.md", "# A\n\nThe word is heliotrope.\n")
    async with live() as daemon_rig:
        hidden = yes(updated_output="(hidden)")
        daemon_rig.daemon.agents.run_hooks.asker = Scripted({"tool.after": hidden})
        async with client(daemon_rig) as peer:
            result = await peer.call_tool("read_note", {"path": "a.md"})
            assert "heliotrope" not in str(result)
            assert "(hidden)" in str(result)

        shown = yes(updated_output='{"path": "a.md", "digest": "d", "text": "# A"}')
        daemon_rig.daemon.agents.run_hooks.asker = Scripted({"tool.after": shown})
        async with client(daemon_rig) as peer:
            assert (await call(peer, "read_note", path="a.md"))["text"] == "# A"
