"""The real CLI through the gateway: it reaches the model with a token of its run, and a limit ends
it at once, in our words.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import claude_agent_sdk
import pytest

from parachuted.testing import ApiRefusal, Reply, say
from tests.agents.gateway.conftest import KEY, MODEL

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


COMMAND = (CLI, "-p", "hi", "--output-format", "json", "--tools", "", "--model", MODEL)


async def claude(home: Path, **env: str) -> dict[str, object]:
    home.mkdir(exist_ok=True)  # noqa: ASYNC240
    usual = {"PATH": os.environ["PATH"], "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=-1,
        stderr=-1,
        env={**usual, "HOME": str(home), **env},
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return json.loads(said)


async def test_it_works_by_the_port_and_by_the_socket_until_a_limit_it_shows(
    gateway_rig, api, tmp_path
):
    dear = {"input_tokens": 1_000_000}
    api.add([say("by the port")], Reply(blocks=(say("by the socket"),), usage=dear))
    (tmp_path / "s").mkdir()
    async with gateway_rig.run(folder=tmp_path / "s", max_cost_usd=1) as way:
        by_port = {"ANTHROPIC_BASE_URL": way.url, "ANTHROPIC_API_KEY": way.token}
        port = await claude(tmp_path / "home", **by_port)
        unix = {"ANTHROPIC_UNIX_SOCKET": str(way.socket), "ANTHROPIC_BASE_URL": "http://localhost"}
        socket = await claude(tmp_path / "home", ANTHROPIC_API_KEY="placeholder", **unix)
        spent = gateway_rig.usage_store.spent("run-1")
        began = time.monotonic()
        refused = await claude(tmp_path / "home", **by_port)

    assert (port["result"], socket["result"]) == ("by the port", "by the socket")
    assert {request.headers["x-api-key"] for request in api.asked} == {KEY}
    assert spent.usd == pytest.approx(port["total_cost_usd"] + socket["total_cost_usd"])
    report = gateway_rig.usage_store.report(gateway_rig.now[0], 7)
    sessions = {session.name for session in report.sessions}
    assert sessions == {port["session_id"], socket["session_id"]}
    # it is not tried again
    assert time.monotonic() - began < 30
    assert refused["is_error"]
    assert "the $1 of agent.max_cost_usd is used up" in refused["result"]
    assert len(api.asked) == 2


async def test_a_storm_ends_it_once_it_has_tried_as_often_as_it_may(gateway_rig, api, tmp_path):
    api.add(
        *[ApiRefusal(status=529, kind="overloaded_error", headers={"retry-after-ms": "1"})] * 20
    )
    async with gateway_rig.run() as way:
        said = await claude(
            tmp_path / "home",
            ANTHROPIC_BASE_URL=way.url,
            ANTHROPIC_API_KEY=way.token,
            CLAUDE_CODE_MAX_RETRIES="3",  # as the launcher says
        )
    assert said["is_error"]
    assert len(api.asked) == 4
