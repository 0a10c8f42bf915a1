"""`self.ask` and `self.agent(name)`, as an author uses them."""

from __future__ import annotations

import pytest

from parachuted.errors import AgentFailedError
from parachuted.modules.agent_runs import read_answer
from parachuted.testing import running_module
from tests.modules.small_modules import write_module

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BODY = """
@route("GET", "/plain")
async def plain(self):
    return await self.ask("How many?")
@route("GET", "/shaped")
async def shaped(self):
    return await self.ask("How many?", schema={"type": "object", "required": ["n"]}, max_usd=0.1)
@route("GET", "/steps")
async def steps(self):
    run = await self.agent("helper").start("Go.")
    return {"steps": [step async for step in run], "result": await run.result(), "id": run.id}
"""


async def test_a_module_asks_and_follows_a_run(tmp_path):
    (tmp_path / "vault").mkdir()
    asked = []

    def answers(agent: str, prompt: str) -> str:
        asked.append((agent, prompt))
        return '```json\n{"n": 3}\n```'

    async with running_module(
        write_module(tmp_path / "daily", BODY), vault=tmp_path / "vault", answers=answers
    ) as module:
        assert await module.request("GET", "/plain") == '```json\n{"n": 3}\n```'
        assert await module.request("GET", "/shaped") == {"n": 3}
        found = await module.request("GET", "/steps")

    assert "JSON schema" in asked[1][1]
    assert asked[2] == ("helper", "Go.")
    assert [step["text"] for step in found["steps"]] == ['```json\n{"n": 3}\n```']
    assert found["result"]["run_id"] == found["id"]


@pytest.mark.parametrize("answer", ['{"n": 1}', ' {"n": 1}\n', '```\n{"n": 1}\n```'])
async def test_json_is_read_in_the_ways_in_which_models_write_it(answer):
    assert await read_answer(answer, SCHEMA) == {"n": 1}


@pytest.mark.parametrize("answer", ["", "three", '{"n": "x"}', "{}", '{"n": 1} more', "[" * 10_000])
async def test_what_does_not_fit_is_a_failure_in_words(answer):
    with pytest.raises(AgentFailedError, match="the model's answer"):
        await read_answer(answer, SCHEMA)
