"""The real Claude CLI, with a scripted model, uses the vault over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import claude_agent_sdk
import pytest

from parachuted.testing import Block, RecordedRequest, ScriptedMessages, ToolUse, say
from tests.api.calls import get, key_of
from tests.stories.daemon_rig import DaemonRig, Live, save

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
PREFIX = "mcp__parachute__"
WAIT_S = 60


def use(tool: str, **arguments: object) -> ToolUse:
    return ToolUse(name=PREFIX + tool, input=arguments)


def servers(daemon_rig: DaemonRig) -> dict[str, dict[str, object]]:
    key = key_of(daemon_rig, "vault:read,write", "curator:read", local=True)
    daemon_rig.daemon.authenticator.look()
    return {
        "http": {"type": "http", "url": f"{daemon_rig.url}/mcp", "headers": key},
        "stdio": {
            "type": "stdio",
            "command": sys.executable,
            "args": ["-m", "parachuted", "mcp"],
            "env": {"PARACHUTE_HOME": str(daemon_rig.daemon.watched.home)},
        },
    }


async def claude(folder: Path, api: ScriptedMessages, server: dict[str, object]) -> None:
    settings = folder / "mcp.json"
    settings.write_text(json.dumps({"mcpServers": {"parachute": server}}))
    process = await asyncio.create_subprocess_exec(
        CLI,
        *("-p", "Look after my notes.", "--model", "claude-sonnet-4-5"),
        *("--mcp-config", str(settings), "--strict-mcp-config"),
        *("--setting-sources", "", "--allowedTools", "mcp__parachute"),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=-1,
        stderr=-1,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "no secret",
        },
    )
    try:
        await asyncio.wait_for(process.communicate(), WAIT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def results(request: RecordedRequest) -> str:
    return json.dumps(request.body["messages"][-1]["content"], ensure_ascii=False)


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_it_reads_changes_and_explains_a_note(
    live: Live, vault: Path, tmp_path: Path, transport: str
):
    save(vault / "plan.md", "# Plan\n\n## Facts\n\nBeans.\n")
    turns: list[list[Block]] = [
        [use("read_note", path="plan.md")],
        [use("edit_section", path="plan.md", section="Facts", text="Peas.")],
        [use("why", path="plan.md")],
        [say("Done.")],
    ]
    async with live() as daemon_rig, ScriptedMessages(turns) as api:
        await daemon_rig.settled()
        folder = tmp_path / "claude"
        folder.mkdir()
        await claude(folder, api, servers(daemon_rig)[transport])

        offered = {tool["name"] for tool in api.asked[0].body["tools"]}
        assert {PREFIX + name for name in ("read_note", "edit_section", "why")} <= offered
        read, edited, explained = (results(request) for request in api.asked[1:4])
        assert "Beans." in read
        assert "digest" in edited
        assert "mcp:claude-code" in explained
        assert (vault / "plan.md").read_text() == "# Plan\n\n## Facts\n\nPeas.\n"
        why = await get(daemon_rig, "/api/why?path=plan.md&line=5")
        assert why["lines"][0]["by"].startswith("mcp:claude-code")
