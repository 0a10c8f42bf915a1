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


async def claude(home: Path, **env: str) -> dict[str, object]:
    home.mkdir(exist_ok=True)  # noqa: ASYNC240
    process = await asyncio.create_subprocess_exec(
        CLI,
        "-p",
        "hi",
        "--output-format",
        "json",
        "--tools",
        "",
        "--model",
        MODEL,
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=-1,
        stderr=-1,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **env,
        },
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return json.loads(said)


async def test_it_works_by_the_port_and_by_the_socket_with_no_key_of_its_own(
    gateway_rig, api, tmp_path
):
    api.add([say("by the port")], [say("by the socket")])
    (tmp_path / "s").mkdir()
    async with gateway_rig.run(folder=tmp_path / "s") as way:
        port = await claude(
            tmp_path / "home", ANTHROPIC_BASE_URL=way.url, ANTHROPIC_API_KEY=way.token
        )
        unix = {"ANTHROPIC_UNIX_SOCKET": str(way.socket), "ANTHROPIC_BASE_URL": "http://localhost"}
        socket = await claude(tmp_path / "home", ANTHROPIC_API_KEY="placeholder", **unix)
        spent = gateway_rig.usage_store.spent("run-1")

    assert (port["result"], socket["result"]) == ("by the port", "by the socket")
    assert {request.headers["x-api-key"] for request in api.asked} == {KEY}
    assert spent.usd == pytest.approx(port["total_cost_usd"] + socket["total_cost_usd"])
    report = gateway_rig.gateway.report(gateway_rig.now[0], 7)
    assert {session.session for session in report.sessions} == {
        port["session_id"],
        socket["session_id"],
    }


async def test_a_limit_is_shown_by_it_and_not_tried_again(make_gateway_rig, api, tmp_path):
    gateway_rig = make_gateway_rig(api.url)
    api.add(Reply(blocks=(say("x"),), usage={"input_tokens": 1_000_000}))
    async with gateway_rig.run(max_cost_usd=1) as way:
        env = {"ANTHROPIC_BASE_URL": way.url, "ANTHROPIC_API_KEY": way.token}
        await claude(tmp_path / "home", **env)
        began = time.monotonic()
        said = await claude(tmp_path / "home", **env)
    assert time.monotonic() - began < 30
    assert said["is_error"]
    assert "this run has used up its $1 (setting agent.max_cost_usd)" in said["result"]
    assert len(api.asked) == 1


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
