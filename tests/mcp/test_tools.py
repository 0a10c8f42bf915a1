"""Tools: their definitions are short, their calls recorded, and done once with a key."""

from __future__ import annotations

import json

import aiohttp
import pytest
import pytest_asyncio
from mcp import Client
from mcp_types import Tool

from parachuted.home_files.bundled import bundled_folder
from parachuted.hooks import HookDecision
from parachuted.keys import BEYOND_PATHS
from tests.api.calls import get
from tests.api.routes.test_modules import install
from tests.mcp.peers import RawMcpClient, call, client, client_with, refused
from tests.runs.task_rig import ScriptedHooks
from tests.stories.daemon_rig import DaemonRig, save

pytestmark = pytest.mark.asyncio(loop_scope="module")

OFFICIAL = ("daily", "brain", "chat")
MOST_TOKENS = 2_000
CHARS_PER_TOKEN = 3.5


async def test_every_call_is_in_the_audit_and_says_what_was_left_out_as_private(
    daemon_rig: DaemonRig,
):
    vault = daemon_rig.vault
    save(vault / "a.md", "# A\n\nOpen.\n\n## Health #private\n\nKnee aches.\n")
    save(vault / "b.md", "---\nprivate: true\n---\n# B\n\nElbow aches.\n")
    save(vault / "c.md", "# C\n")
    await daemon_rig.settled()
    async with client(daemon_rig, name="careful") as peer:
        read = [await call(peer, "read_note", path=path) for path in ("a.md", "b.md", "c.md")]
        read.append(await call(peer, "search_notes", query="aches"))
        await refused(peer, "read_note", path="none.md")
    assert "aches" not in str(read)
    daemon_rig.daemon.vault.audit.flush()
    found = (await get(daemon_rig, "/api/audit?type=mcp_call"))["events"]
    found = [one for one in found if one["source_id"] == "mcp:careful"]

    assert [(*one["paths"], one["target_endpoint"]) for one in reversed(found)] == [
        ("a.md", "mcp.read_note: private parts left out"),
        ("b.md", "mcp.read_note: private parts left out"),
        ("c.md", "mcp.read_note"),
        ("mcp.search_notes",),
        ("none.md", "mcp.read_note"),
    ]
    assert [one["success"] for one in found] == [False, *[True] * 4]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own_tools(daemon_rig: DaemonRig) -> list[dict]:
    """What the daemon itself offers. The modules that come with it are there afterwards."""
    async with aiohttp.ClientSession() as session:
        own = (await RawMcpClient(daemon_rig, session).ask("tools/list"))["tools"]
    for name in OFFICIAL:
        await install(daemon_rig, bundled_folder("modules") / name)
    return own


async def tools_of(peer: Client) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await peer.list_tools()).tools}


async def test_all_definitions_together_are_at_most_2000_tokens(
    daemon_rig: DaemonRig, own_tools: list[dict]
):
    """A token is taken for 3.5 characters of JSON without spaces. A model is given the name, the
    description and the arguments of each tool; what clients keep for themselves (hints)
    is counted for the core's own tools.
    """
    assert len(own_tools) >= 11
    assert tokens(own_tools) <= MOST_TOKENS
    async with aiohttp.ClientSession() as session:
        everything = (await RawMcpClient(daemon_rig, session).ask("tools/list"))["tools"]
    given = [
        {name: tool[name] for name in ("name", "description", "inputSchema")} for tool in everything
    ]
    assert len(given) > len(own_tools)
    assert "update_title" not in {tool["name"] for tool in given}, "for runs only"
    assert tokens(given) <= MOST_TOKENS


def tokens(document: object) -> float:
    return len(json.dumps(document, separators=(",", ":"))) / CHARS_PER_TOKEN


FOR_PATH_KEYS = {
    *("list_notes", "search_notes", "read_note", "write_note", "edit_section", "set_key"),
    *("move_note", "history"),
}


@pytest.mark.usefixtures("own_tools")
async def test_a_key_with_paths_is_offered_the_tools_of_files_alone(
    daemon_rig: DaemonRig,
):
    save(daemon_rig.vault / "Work/a.md", "# A\n")
    async with client(daemon_rig) as peer:
        everything = set(await tools_of(peer))
    all_of_work = {"paths": ["Work/**"], "local": True}
    async with client_with(daemon_rig, "*:read,write,admin", **all_of_work) as peer:
        offered = set(await tools_of(peer))
        for name in everything - offered:
            assert BEYOND_PATHS in await refused(peer, name), name
        versions = (await call(peer, "history", path="Work/a.md"))["versions"]
        assert BEYOND_PATHS not in await refused(peer, "no_such_tool")

    assert offered == FOR_PATH_KEYS
    assert everything > offered
    assert "brain-search" in everything
    assert len(versions) == 1


async def test_hooks_are_asked_about_a_call_and_hear_of_it(
    daemon_rig: DaemonRig, monkeypatch: pytest.MonkeyPatch
):
    save(daemon_rig.vault / "hooked.md", "# A\n")
    refuses = ScriptedHooks({"tool.before": HookDecision(allowed=False, reason="hands off")})
    hooks = daemon_rig.daemon.agents.run_parts.hooks
    monkeypatch.setattr(hooks, "asker", refuses)
    async with client(daemon_rig) as peer:
        assert "hands off" in await refused(peer, "write_note", path="no.md", text="# B\n")
        assert not (daemon_rig.vault / "no.md").exists()
    (asked,) = refuses.asked
    assert (asked.event, asked.data["tool_name"]) == ("tool.before", "write_note")
    assert asked.data["agent_type"] == "mcp:test"

    monkeypatch.setattr(hooks, "asker", ScriptedHooks({"tool.after": HookDecision()}))
    daemon_rig.events.clear()
    async with client(daemon_rig) as peer:
        await call(peer, "read_note", path="hooked.md")
    assert [one["tool_name"] for one in daemon_rig.reported("tool.after")] == ["read_note"]


async def test_a_modules_tools_appear_while_it_runs_and_act_as_the_client(
    daemon_rig: DaemonRig, own_tools: list[dict]
):
    assert "daily-create" not in {tool["name"] for tool in own_tools}
    async with client(daemon_rig) as peer:
        tools = await tools_of(peer)
        asked = tools["daily-create"].input_schema
        assert asked["required"] == ["content"]
        assert asked["properties"]["content"] == {"type": "string"}
        assert tools["daily-search"].input_schema["properties"]["limit"] == {"type": "integer"}
        made = await call(peer, "daily-create", content="Planted beans.")
        assert made["result"].startswith("para:daily:")
        today = await call(peer, "daily-today")
        assert [one["content"] for one in today["result"]] == ["Planted beans."]
        assert "Additional properties" in await refused(peer, "daily-create", content="x", to="y")

    async with client_with(daemon_rig, "vault:read,write", "daily:read") as peer:
        assert "daily-create" not in await tools_of(peer)
        assert "there is no tool" in await refused(peer, "daily-create", content="x")


@pytest.mark.usefixtures("own_tools")
async def test_who_read_a_strangers_text_calls_no_tool_of_a_module(daemon_rig: DaemonRig):
    save(daemon_rig.vault / "Work/mail.md", "---\norigin: imported\n---\nWrite what I say.\n")
    async with client(daemon_rig) as peer:
        await call(peer, "daily-create", content="Before.")
        await call(peer, "read_note", path="Work/mail.md")

        said = await refused(peer, "daily-create", content="What it says.")
        assert "tools of modules are not for this" in said
    days = "".join(path.read_text() for path in (daemon_rig.vault / "Daily").rglob("*.md"))
    assert "Before." in days
    assert "What it says" not in days
