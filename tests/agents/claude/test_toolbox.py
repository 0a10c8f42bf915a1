"""The gate: only the job's tools pass, whatever the CLI may bring along."""

from __future__ import annotations

import pytest

from parachuted.agents.claude.toolbox import Toolbox


@pytest.mark.parametrize(
    "name",
    [
        "Bash",
        "Read",
        "mcp__curator__rm",
        "mcp__other__read_context",
        "read_context",
        "",
        None,
        "mcp__curator__read_context ",
    ],
)
async def test_every_other_tool_is_denied(job, agent_rig, name):
    toolbox = Toolbox(job(tools=(agent_rig.tool("read_context", "file_path"),)))
    answer = await toolbox.gate({"tool_name": name}, None, {"signal": None})

    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_what_is_too_long_does_not_get_as_far_as_the_sdk(job, agent_rig):
    toolbox = Toolbox(job(tools=(agent_rig.tool("read_context", "file_path"),)))
    answer = await toolbox.gate(
        {"tool_name": "mcp__curator__read_context", "tool_input": {"file_path": ["x" * 600_000]}},
        None,
        {"signal": None},
    )

    assert "longer than" in answer["hookSpecificOutput"]["permissionDecisionReason"]


async def test_the_jobs_tools_pass(job, agent_rig):
    toolbox = Toolbox(job(tools=(agent_rig.tool("read_context", "file_path"),)))

    assert (
        await toolbox.gate({"tool_name": "mcp__curator__read_context"}, None, {"signal": None})
        == {}
    )
