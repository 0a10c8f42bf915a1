"""`self.ask` and `self.agent(name)`, as an author uses them."""

from __future__ import annotations

import pytest

from parachuted.errors import AgentFailedError
from parachuted.modules.services import read_answer
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


async def test_a_module_asks_and_follows_a_run(tmp_path, vault):
    asked, said = [], '```json\n{"n": 3}\n```'

    def answers(agent: str, prompt: str) -> str:
        asked.append((agent, prompt))
        return said

    folder = write_module(tmp_path / "daily", BODY)
    async with running_module(folder, vault=vault, answers=answers) as module:
        assert await module.request("GET", "/plain") == said
        assert await module.request("GET", "/shaped") == {"n": 3}
        found = await module.request("GET", "/steps")

    assert "JSON schema" in asked[1][1]
    assert asked[2] == ("helper", "Go.")
    assert [step["text"] for step in found["steps"]] == [said]
    assert found["result"]["run_id"] == found["id"]


async def test_json_is_read_as_models_write_it_and_else_fails_in_words():
    for answer in ('{"n": 1}', ' {"n": 1}\n', '```\n{"n": 1}\n```'):
        assert await read_answer(answer, SCHEMA) == {"n": 1}
    for answer in ("", "three", '{"n": "x"}', "{}", '{"n": 1} more', "[" * 10_000):
        with pytest.raises(AgentFailedError, match="the model's answer"):
            await read_answer(answer, SCHEMA)
