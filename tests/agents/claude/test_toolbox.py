"""The gate: only the job's tools pass, whatever the CLI may bring along."""

from __future__ import annotations

import pytest

from parachuted.agents.claude.toolbox import Toolbox

OURS = "mcp__curator__read_context"


@pytest.fixture
def gate(job, agent_rig):
    async def gate(name, **arguments):
        toolbox = Toolbox(job(tools=(agent_rig.tool("read_context", "file_path"),)))
        given = {"tool_name": name, "tool_input": arguments}
        return await toolbox.gate(given, None, {"signal": None})

    return gate


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
        f"{OURS} ",
    ],
)
async def test_every_other_tool_is_denied(gate, name):
    answer = await gate(name)

    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_the_jobs_tools_pass_and_what_is_too_long_is_kept_from_the_sdk(gate):
    assert await gate(OURS) == {}
    answer = await gate(OURS, file_path=["x" * 600_000])
    assert "longer than" in answer["hookSpecificOutput"]["permissionDecisionReason"]
