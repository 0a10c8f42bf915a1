"""What the SDK starts, with shell scripts in the CLI's place: it ends when we say, however it
behaves.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import psutil
import pytest

from parachuted.errors import AgentUnavailableError
from tests.agents.conftest import until

STUBBORN = "trap '' TERM INT HUP PIPE; while :; do sleep 60; done"
NEVER_BEGIN = [
    STUBBORN,
    "setsid sleep 60 & sleep 60",
    "setsid sleep 60 & exit 3",
    "exec <&- >&- 2>&-; sleep 60",
    "echo Usage: claude; exit 0",
    "echo '{broken'; sleep 60",
]


@pytest.fixture
def run_script(claude, job, run, tmp_path, monkeypatch):
    async def run_script(script: str, **parts: object):
        cli = tmp_path / "cli"
        cli.write_text(f"#!/bin/sh\n{script}\n")
        cli.chmod(0o700)
        monkeypatch.setattr("parachuted.agents.claude.launch.find_cli", lambda _env: cli)
        return await run(claude.backend, job(**parts))

    return run_script


@pytest.mark.parametrize("script", NEVER_BEGIN)
async def test_what_never_begins_was_not_available_and_is_gone(claude, run_script, script):
    outcome = await run_script(script, timeout_s=0.5)

    assert isinstance(outcome.error, AgentUnavailableError)
    assert "the agent could not begin" in outcome.error.message
    assert outcome.seconds < 12
    assert await claude.is_gone(60)
    assert not list(claude.folder.glob("prompt-*"))


async def test_its_folder_session_and_complaints(run_script, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    facts = f"pwd > {tmp_path}/facts; cut -d' ' -f1,6 /proc/$$/stat >> {tmp_path}/facts"
    await run_script(f"{facts}; printf 'one\\ntwo' >&2; printf '%5000s' x >&2; exit 3")

    folder, numbers = (tmp_path / "facts").read_text().splitlines()
    process, session = numbers.split()
    assert folder == f"{tmp_path}/agents/work"
    assert session == process
    said = [record.args[0] for record in caplog.records if "process says" in record.msg]
    assert said[0] == "one"
    assert max(map(len, said)) <= 500


@pytest.mark.parametrize("steps", [1, 4, 16, 64, 1000])
async def test_a_start_that_is_cancelled_leaves_nothing_of_it(claude, run_script, steps):
    starting = asyncio.get_running_loop().create_task(run_script("sleep 60"))
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting], timeout=60)

    assert starting.cancelled()
    assert await claude.is_gone(60)


async def test_without_a_folder_to_work_in_it_is_not_available(claude, run_script):
    claude.folder.write_text("a file where the folder should be")
    outcome = await run_script("sleep 60")

    assert isinstance(outcome.error, AgentUnavailableError)
    assert "no folder to work in" in outcome.error.message


DAEMON = """
import asyncio, os, sys, time
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from parachuted.agents.backends import ClaudeSettings, make_backend
from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.usage import MoneyLimits, UsageStore
from parachuted.agents.job import Job, RunLimits

async def main():
    folder = Path(sys.argv[1])
    money = MoneyLimits(usd_per_cause=9, usd_per_hour=9, usd_per_day=9)
    gateway = Gateway(env=os.environ, vault=folder, user_home=folder,
        base_url="http://127.0.0.1:9", usage_store=UsageStore(folder / "u.db", time.time, money))
    settings = ClaudeSettings(model="haiku", folder=folder / "agents", env=os.environ,
        gateway=gateway)
    limits = RunLimits(timeout_s=60, max_turns=1, max_cost_usd=1)
    job = Job(id="1", watcher="", system_prompt="", prompt="x", tools=(), limits=limits, changes=(),
        at=datetime.now(UTC))
    async with aclosing(make_backend("claude", settings).run(job)) as steps:
        async for step in steps:
            pass

asyncio.run(main())
"""


def lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_it_ends_with_us_when_we_are_killed(claude, tmp_path):
    daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", DAEMON, str(tmp_path))
    await until(claude.left_over, 60)
    family = psutil.Process(daemon.pid).children(recursive=True)
    daemon.kill()
    await daemon.wait()
    await until(lambda: not (claude.left_over() or any(map(lives, family))), 60)
