"""The table of heavy parts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parachuted.errors import AgentUnavailableError
from parachuted.processes.heavy import HEAVY, load_heavy


@pytest.mark.parametrize("part", sorted(HEAVY))
async def test_every_heavy_part_can_be_loaded_and_is_loaded_once(part):
    module = await load_heavy(part)

    assert module is sys.modules[HEAVY[part]]
    assert await load_heavy(part) is module


def test_runs_that_begin_at_once_all_get_a_whole_module():
    program = (
        "import asyncio\n"
        "from parachuted.processes.heavy import load_heavy\n"
        "async def ask(wait_s):\n"
        "    await asyncio.sleep(wait_s)\n"
        "    return (await load_heavy('jsonschema')).Draft202012Validator\n"
        "async def ask_all(): await asyncio.gather(*(ask(number / 1000) for number in "
        "range(200)))\n"
        "asyncio.run(ask_all())\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_expected_is_there_in_a_moment_and_no_one_waits():
    program = (
        "import asyncio, sys, time\n"
        "from parachuted.processes.heavy import HEAVY, expect_heavy, load_heavy\n"
        "begun = time.monotonic()\n"
        "expect_heavy('claude')\n"
        "expect_heavy('claude')\n"
        "assert time.monotonic() - begun < 0.2\n"
        "assert asyncio.run(load_heavy('claude')).ClaudeBackend\n"
        "before = __import__('threading').active_count()\n"
        "expect_heavy('claude')\n"
        "assert __import__('threading').active_count() == before\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


async def test_without_the_agent_sdk_the_claude_backend_says_what_to_install(
    monkeypatch,
):
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)

    with pytest.raises(AgentUnavailableError, match="pip install 'parachuted"):
        await load_heavy("claude")
