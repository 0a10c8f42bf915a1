"""A short question to the model, whose answer has a shape."""

from __future__ import annotations

import pytest

from parachuted.agents.gateway import Judge
from parachuted.errors import AgentFailedError, AgentUnavailableError
from parachuted.testing import ApiRefusal, Reply, ScriptedMessages, ToolUse, say
from tests.agents.gateway.conftest import MODEL, GatewayRig

SCHEMA = {
    "type": "object",
    "properties": {"keep": {"type": "boolean"}, "why": {"type": "string", "maxLength": 20}},
    "required": ["keep"],
    "additionalProperties": False,
}


def given(**answer: object) -> list[ToolUse]:
    return [ToolUse(name="answer", input=answer)]


async def test_the_answer_is_as_the_schema_says_and_is_counted_for_its_cause(
    gateway_rig: GatewayRig, api: ScriptedMessages
):
    api.add(given(keep=True, why="it matters"))
    judge = Judge(gateway_rig.gateway, MODEL)
    assert await judge.ask("You judge.", "Is it worth keeping?", SCHEMA, cause="c7") == {
        "keep": True,
        "why": "it matters",
    }
    await gateway_rig.gateway.close()

    (asked,) = [request.body for request in api.asked]
    assert (asked["system"], asked["tool_choice"]) == (
        "You judge.",
        {"type": "tool", "name": "answer"},
    )
    assert asked["tools"][0]["input_schema"] == SCHEMA
    assert "stream" not in asked
    again = type(gateway_rig.usage_store)(
        gateway_rig.usage_store._database.path, gateway_rig.now[0].timestamp
    )
    assert again.report(gateway_rig.now[0])["agents"][0]["agent"] == "judge"
    assert again.spent(cause="c7").requests == 1
    again.close()


@pytest.mark.parametrize(
    "answer",
    [
        [say("yes")],
        given(),
        given(keep="yes"),
        given(keep=True, more=1),
        [ToolUse(name="other", input={"keep": True})],
    ],
)
async def test_any_other_answer_is_an_error(gateway_rig: GatewayRig, api: ScriptedMessages, answer):
    api.add(answer)
    with pytest.raises(AgentFailedError, match="shape"):
        await Judge(gateway_rig.gateway, MODEL).ask("s", "p", SCHEMA)


async def test_a_model_that_cannot_be_asked_now_is_another_matter(
    make_gateway_rig, api: ScriptedMessages
):
    api.add(ApiRefusal(status=529, headers={"x-should-retry": "false"}))
    gateway_rig = make_gateway_rig(api.url, usd_per_hour=0.01)
    judge = Judge(gateway_rig.gateway, MODEL)
    with pytest.raises(AgentUnavailableError, match="529"):
        await judge.ask("s", "p", SCHEMA)
    api.add(lambda _request: Reply(blocks=tuple(given(keep=True)), usage={"input_tokens": 9_950}))
    await judge.ask("s", "p", SCHEMA)
    with pytest.raises(AgentUnavailableError, match="usd_per_hour"):
        await judge.ask("s", "p", SCHEMA)
