"""A conversation with something that is not an agent ends all the same."""

from __future__ import annotations

import asyncio
import os

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from parachuted.agents.claude.cli_process import CliProcess, Conversation
from parachuted.agents.claude.transport import AgentProcess
from parachuted.errors import AgentUnavailableError


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("sleep 60", "ran out of time"),
        ("exit 3", "the agent's process failed"),
        ("exit 0", "the agent's process failed"),
        ("echo Usage: claude; exit 0", "the agent's process failed"),
        ("echo '{broken'; sleep 60", "the agent's process failed"),
        (
            'echo \'{"type": "control_response", "response": {"request_id": "x"}}\'; sleep 60',
            "ran out of time",
        ),
    ],
)
async def test_what_never_begins_was_not_available_and_is_gone(tmp_path, script, says):
    process = AgentProcess(["sh", "-c", script], env={"PATH": os.environ["PATH"]}, cwd=tmp_path)
    limit_s = 0.5 if says == "ran out of time" else 20
    deadline = asyncio.get_running_loop().time() + limit_s

    with pytest.raises(AgentUnavailableError, match=says):
        async with (
            asyncio.timeout(30),
            Conversation(CliProcess(process, ClaudeAgentOptions()), deadline) as conversation,
        ):
            await conversation.begin("hello")
    assert not process.is_ready()


async def test_a_program_that_is_not_there_was_not_available(tmp_path):
    process = AgentProcess([str(tmp_path / "nothing")], env={}, cwd=tmp_path)
    deadline = asyncio.get_running_loop().time() + 30

    with pytest.raises(AgentUnavailableError, match="there is no program"):
        async with Conversation(
            CliProcess(process, ClaudeAgentOptions()), deadline
        ) as conversation:
            await conversation.begin("hello")
