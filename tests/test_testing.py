"""The tools of tests: the scripted API speaks the protocol, the scripted backend follows its
script.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime

import aiohttp
import pytest

from parachuted.agents.job import (
    Job,
    RunLimits,
    RunResult,
    TextStep,
    Tool,
    ToolCallStep,
    ToolResult,
)
from parachuted.errors import AgentFailedError
from parachuted.testing import (
    ApiRefusal,
    Delay,
    Reply,
    ScriptedBackend,
    ScriptedMessages,
    ToolUse,
    say,
    use,
)


@pytest.fixture
async def ask():
    async with aiohttp.ClientSession() as session:

        async def ask(api, **body):
            async with session.post(
                f"{api.url}/v1/messages", json={"model": "m", **body}
            ) as answer:
                return answer.status, await answer.text()

        yield ask


async def test_an_answer_is_plain_json(ask):
    async with ScriptedMessages([[say("hi"), use("read_context", file_path="a")]]) as api:
        status, text = await ask(api, messages=[])

    message = json.loads(text)
    assert (status, message["model"], message["stop_reason"]) == (200, "m", "tool_use")
    assert message["content"][0] == {"type": "text", "text": "hi"}
    assert message["content"][1]["name"] == "read_context"
    assert api.requests[0].body == {"model": "m", "messages": []}


async def test_an_answer_is_a_stream_of_events(ask):
    async with ScriptedMessages(
        [Reply(blocks=(say("hi"), use("read", a=1)), usage={"input_tokens": 7})]
    ) as api:
        _, text = await ask(api, stream=True)

    frames = [frame.split("\n") for frame in text.strip().split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [name.removeprefix("event: ") for name, _ in frames] == [
        event["type"] for event in events
    ]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [event["type"] for event in events] == [
        "message_start",
        *block,
        *block,
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["usage"]["input_tokens"] == 7
    assert json.loads(events[5]["delta"]["partial_json"]) == {"a": 1}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_a_turn_can_refuse_wait_or_be_made_from_the_request(ask):
    turns = [
        ApiRefusal(status=529, kind="overloaded_error", headers={"Retry-After": "3"}),
        Delay(seconds=0.05, then=[say("late")]),
        lambda request: [say(f"you are {request.headers['User-Agent'][:6]}")],
    ]
    async with ScriptedMessages(turns) as api:
        answers = [await ask(api) for _ in range(4)]

    assert [status for status, _ in answers] == [529, 200, 200, 400]
    assert json.loads(answers[0][1])["error"]["type"] == "overloaded_error"
    assert "late" in answers[1][1]
    assert "you are Python" in answers[2][1]
    assert "the script has ended" in answers[3][1]


async def test_an_answer_can_break_off(ask):
    async with ScriptedMessages([Reply(blocks=(say("x" * 100),), cut=True)]) as api:
        with pytest.raises(aiohttp.ClientPayloadError):
            await ask(api, stream=True)


async def test_the_other_routes_are_there_and_everything_is_recorded():
    async with ScriptedMessages() as api, aiohttp.ClientSession() as session:
        async with (
            session.head(api.url) as head,
            session.post(f"{api.url}/v1/messages/count_tokens", json={}) as tokens,
            session.get(f"{api.url}/x") as other,
        ):
            assert (head.status, (await tokens.json())["input_tokens"] > 0, other.status) == (
                200,
                True,
                404,
            )

        assert [(request.method, request.path) for request in api.requests] == [
            ("HEAD", "/"),
            ("POST", "/v1/messages/count_tokens"),
            ("GET", "/x"),
        ]
        assert api.asked == []


def make_job(**limits):
    async def read(arguments):
        return ToolResult(text=f"text of {arguments['file_path']}")

    tool = Tool(
        name="read_context",
        description="reads",
        schema={"type": "object", "required": ["file_path"]},
        call=read,
    )
    usual = {"timeout_s": 5, "max_turns": 5, "max_cost_usd": 1.0}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Job(
        id="1",
        watcher="A.md",
        system_prompt="",
        prompt="p",
        tools=(tool,),
        limits=RunLimits(**{**usual, **limits}),
        changes=(),
        at=at,
    )


async def follow(backend, job):
    async with aclosing(backend.run(job)) as steps:
        return [step async for step in steps]


async def test_a_scripted_backend_says_and_calls_what_its_script_says():
    backend = ScriptedBackend(
        [say("hm"), use("read_context", file_path="a"), ToolUse(name="rm", input=[])], cost_usd=0.5
    )
    steps = await follow(backend, make_job())

    assert steps[:2] == [
        TextStep(text="hm"),
        ToolCallStep(
            tool="read_context", arguments={"file_path": "a"}, result=ToolResult(text="text of a")
        ),
    ]
    assert steps[2].result.is_error
    assert steps[3] == RunResult(
        cost_usd=0.5, input_tokens=0, output_tokens=0, turns=3, session_id="scripted-A.md"
    )
    assert [job.prompt for job in backend.jobs] == ["p"]


async def test_a_scripted_backend_can_make_its_script_from_the_job():
    async def script(job):
        return [say(job.watcher)]

    assert (await follow(ScriptedBackend(script), make_job()))[0] == TextStep(text="A.md")


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"max_turns": 1}, "1 turns"),
        ({"max_cost_usd": 0.1}, "0.1"),
        ({"timeout_s": 0.05}, "out of time"),
    ],
)
async def test_a_scripted_backend_keeps_the_limits(limits, says):
    async def script(_job):
        await asyncio.sleep(0.2)
        return [say("a"), say("b")]

    with pytest.raises(AgentFailedError, match=says):
        await follow(ScriptedBackend(script, cost_usd=0.5), make_job(**limits))
