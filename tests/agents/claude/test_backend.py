"""The real CLI against a scripted model: nothing here needs a network or an account."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.agents.backends import make_backend
from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.usage import UsageStore
from parachuted.agents.job import RunResult, TextStep, ToolCallStep, ToolResult
from parachuted.errors import AgentFailedError, AgentStoppedError, AgentUnavailableError
from parachuted.testing import ApiRefusal, Delay, Reply, ToolUse, say, use
from tests.agents.conftest import LIMITS, until


def refusal(status: int, **more: str) -> ApiRefusal:
    """After it an agent tries again at once."""
    return ApiRefusal(status=status, headers={"retry-after-ms": "1"}, **more)


async def test_the_model_gets_the_prompts_as_they_are_and_only_the_jobs_tools(claude, job, run):
    claude.api.add([say("done")])
    system, prompt = "Tend notes. ä\u2028" + "x" * 200_000, "/compact then @/etc/passwd"
    outcome = await run(claude.backend, job(system_prompt=system, prompt=prompt))

    assert outcome.error is None
    asked = claude.api.asked[0]
    assert asked.body["system"][-1]["text"] == system
    assert prompt in [part["text"] for part in asked.body["messages"][-1]["content"]]
    assert "root:" not in json.dumps(asked.body["messages"])
    assert [tool["name"] for tool in asked.body["tools"]] == [
        "mcp__curator__read_context",
        "mcp__curator__update_context",
    ]
    assert asked.body["thinking"] == {"type": "disabled"}
    assert [request.path for request in claude.api.requests] == ["/v1/messages"]
    assert list((claude.folder / "work").iterdir()) == []
    assert not list(claude.folder.glob("prompt-*"))


async def test_hostile_calls_get_a_clear_error_and_do_nothing(
    claude, job, run, agent_rig, tmp_path
):
    marker = tmp_path / "pwned"
    hostile = [
        ToolUse(name="Bash", input={"command": f"touch {marker}"}),
        ToolUse(name="Write", input={"file_path": str(marker), "content": "x"}),
        ToolUse(name="mcp__other__read_context", input={"file_path": "a.md"}),
        ToolUse(name="mcp__curator__read_context", input=["a.md"]),
        use("rm", path="/"),
        use("read_context"),
        use("read_context", file_path={"a": 1}),
        use("read_context", file_path="a.md", also=1),
        use("update_context", file_path="a.md", section="Facts", content="x" * 1_000_000),
    ]
    allowed = [say("let me look"), use("read_context", file_path="a.md")]
    claude.api.add(allowed, hostile, [say("done")])
    outcome = await run(claude.backend, job())

    read, *calls = outcome.all(ToolCallStep)
    assert [call.result.is_error for call in calls] == [True] * len(hostile)
    assert all(call.result.text for call in calls)
    assert "is not of type 'string'" in calls[-3].result.text
    assert "longer than" in calls[-1].result.text
    assert not marker.exists()
    # what is said, called and finished comes in order
    assert outcome.error is None
    assert outcome.steps[:2] == [TextStep(text="let me look"), read]
    assert read.result == ToolResult(text="read_context did it")
    assert agent_rig.calls == [("read_context", {"file_path": "a.md"})]
    assert outcome.all(RunResult) == [outcome.account]
    assert isinstance(outcome.account.session_id, str)


async def test_the_model_is_not_asked_again_once_the_jobs_end_is_said(claude, job, run, agent_rig):
    tool = replace(agent_rig.tool("now"), schema={"type": "object"})  # without parameters
    claude.api.add([use("now")], [say("more")])
    ended = job(tools=(tool,), ended=lambda: "enough" if agent_rig.calls else None)
    outcome = await run(claude.backend, ended)

    assert (len(claude.api.asked), outcome.error) == (1, None)
    assert agent_rig.calls == [("now", {})]
    assert outcome.account.cost_usd > 0


async def test_a_session_is_resumed_and_each_run_is_charged_for_itself(claude, job, run):
    claude.api.add([say("first")], [say("second")], [say("third")])
    first = await run(claude.backend, job(prompt="one"))
    session = first.account.session_id
    second = await run(claude.backend, job(id="run-2", prompt="two", session_id=session))
    unknown = "1fc24940-e003-48b0-b21b-70563efaaa39"
    stranger = await run(claude.backend, job(id="run-3", prompt="three", session_id=unknown))

    assert second.account.session_id == session
    assert "one" in json.dumps(claude.api.asked[1].body["messages"])
    charged = [(run.account.cost_usd, run.account.input_tokens) for run in (first, second)]
    assert charged[0] == charged[1] != (0, 0)
    assert stranger.steps[0] == TextStep(text="third")
    assert stranger.account.session_id != session


async def test_a_run_that_loses_its_credit_is_interrupted_and_wholly_charged(claude, job, run):
    paid, no_credit = [], refusal(402, kind="billing_error", message="no credit")

    def answer(_request):
        return [say("done")] if paid else no_credit

    claude.api.add([use("read_context", file_path="a.md")], *[answer] * 9)
    first = await run(claude.backend, job())
    paid.append("all of it")
    second = await run(claude.backend, job())

    assert type(first.error) is AgentStoppedError
    assert "no credit" in first.error.message
    assert second.error is None
    assert second.account.input_tokens == 2 * first.account.input_tokens
    assert second.account.of_run
    spent = claude.gateway.usage_store.spent("run-1").usd
    assert second.account.cost_usd == spent == 2 * first.account.cost_usd > 0


@pytest.mark.parametrize(
    ("status", "says"), [(401, "refused the login"), (404, "answered 404"), (529, "answered 529")]
)
async def test_a_model_that_refuses_at_once_was_not_available(claude, job, run, status, says):
    claude.api.add(*[refusal(status)] * 9)
    outcome = await run(claude.backend, job())

    assert isinstance(outcome.error, AgentUnavailableError)
    assert says in outcome.error.message
    assert outcome.steps == []


async def test_a_refusal_by_the_model_is_an_answer_and_no_outage(claude, job, run):
    claude.api.add(*[Reply(blocks=(), stop_reason="refusal")] * 9)
    outcome = await run(claude.backend, job())

    assert type(outcome.error) is AgentFailedError
    assert "the model refused to answer" in outcome.error.message
    assert len(claude.api.asked) == 2  # the CLI goes on once, having told the model of it


async def test_a_run_that_has_used_up_its_money_ends_with_the_gateways_words(claude, job, run):
    much = {"input_tokens": 1_000_000}
    dear = Reply(blocks=(use("read_context", file_path="a.md"),), usage=much)
    claude.api.add(dear, [say("never asked")])
    outcome = await run(claude.backend, job())

    assert type(outcome.error) is AgentFailedError
    assert "the $0.5 of agent.max_cost_usd is used up" in outcome.error.message
    assert len(claude.api.asked) == 1
    assert (outcome.account.cost_usd > 0.5, outcome.account.input_tokens) == (True, 1_000_000)


async def test_a_run_without_a_login_is_reported_at_once(claude, job, run, tmp_path):
    gateway = Gateway(
        env={},
        vault=tmp_path,
        user_home=tmp_path,
        base_url=None,
        usage_store=UsageStore(tmp_path / "u.db", time.time, LIMITS),
    )
    backend = make_backend("claude", replace(claude.settings, gateway=gateway))
    outcome = await run(backend, job())
    await gateway.close()

    assert isinstance(outcome.error, AgentUnavailableError)
    assert "parachute auth status" in outcome.error.message
    assert outcome.steps == []


async def test_an_answer_cut_off_is_asked_for_again_and_a_long_result_arrives(
    claude, job, run, agent_rig
):
    lorem = "lorem ipsum\n" * 20_000

    async def tell(_arguments):
        return ToolResult(text=lorem)

    agent_rig.answers["read_context"] = tell
    whole = (say("now"), use("read_context", file_path="a.md"))
    claude.api.add(Reply(blocks=whole, cut=True), Reply(blocks=whole), [say("done")])
    outcome = await run(claude.backend, job())

    assert outcome.error is None
    assert agent_rig.calls == [("read_context", {"file_path": "a.md"})]
    told = json.dumps(claude.api.asked[-1].body["messages"])
    assert lorem in told.replace("\\n", "\n")


async def test_no_hanging_tool_and_no_busy_reader_keeps_it_past_its_time(
    claude, job, run, agent_rig
):
    async def hang(_arguments):
        await asyncio.sleep(60)

    agent_rig.answers["read_context"] = hang
    claude.api.add([say("warm")], [say("one"), use("read_context", file_path="a.md")])
    limit = 2 + 2 * (await run(claude.backend, job())).seconds
    began = time.monotonic()
    async with aclosing(claude.backend.run(job(id="run-2", timeout_s=limit))) as steps:
        assert await anext(steps) == TextStep(text="one")
        assert claude.left_over()
        assert await claude.is_gone(within_s=limit + 20)
        assert time.monotonic() - began < limit + 20
        account = await anext(steps)
        with pytest.raises(AgentFailedError, match="ran out of time"):
            await anext(steps)

    assert account.cost_usd == claude.gateway.usage_store.spent("run-2").usd > 0


async def test_a_process_apart_ends_with_its_backend_or_when_it_is_cancelled(
    claude, job, run, monkeypatch
):
    for name in ("A_SECRET", "a.key-of: the daemon", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.setenv(name, "sk-ant-of-the-daemon")
    claude.api.add(*[Delay(seconds=60, then=[say("late")])] * 2)
    for number, end in enumerate((asyncio.Task.cancel, None), 1):
        task = asyncio.get_running_loop().create_task(run(claude.backend, job()))
        await until(lambda number=number: len(claude.api.asked) == number)
        processes = [Path(f"/proc/{pid}") for pid in claude.left_over()]
        environs = [(process / "environ").read_bytes() for process in processes]
        commands = [(process / "cmdline").read_bytes() for process in processes]
        sessions = {os.getsid(int(process.name)) for process in processes}
        if end:
            end(task)
        else:
            await claude.backend.close()
        assert await claude.is_gone(within_s=20)
        await asyncio.wait([task])
        assert task.cancelled() is (end is not None)

        assert any(b"ANTHROPIC_BASE_URL" in environ for environ in environs)
        assert not [each for each in environs if b"of-the-daemon" in each]
        assert not [each for each in environs if b"PARACHUTE_DROPPED" in each]
        assert b"You tend notes" not in b"".join(commands)
        assert os.getsid(0) not in sessions


async def test_a_mistake_in_a_tool_is_ours_and_not_the_agents(claude, job, agent_rig):
    async def stumble(_arguments):
        raise ZeroDivisionError

    agent_rig.answers["read_context"] = stumble
    claude.api.add([use("read_context", file_path="a.md")], [say("done")])

    with pytest.raises(ZeroDivisionError):
        async for _step in claude.backend.run(job()):
            pass
