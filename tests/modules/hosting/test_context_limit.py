"""That a session's context is nearly full is published once."""

from __future__ import annotations

from collections.abc import AsyncIterator

from parachuted.agents.job import Job, SessionStep, Step, UsageStep
from parachuted.testing import ScriptedBackend

LIMIT = "context.limit.approaching"
MANIFEST = """
permissions:
  read: ["Brain/**"]
agents:
  chat:
    paths: ["Brain/**"]
    capabilities: [read]
"""


class GrowingBackend(ScriptedBackend):
    async def run(self, _job: Job) -> AsyncIterator[Step]:
        yield SessionStep(session_id="s1", is_resumed=False)
        for tokens in (1_000, 170_000, 190_000):
            yield UsageStep(
                input_tokens=1,
                output_tokens=1,
                cache_read_tokens=0,
                cost_usd=0.0,
                context_tokens=tokens,
            )


async def test_a_nearly_full_context_is_published_once(module_rig):
    agents = module_rig.agents(GrowingBackend())
    runs = module_rig.given(module_rig.approve(MANIFEST), agents).runs
    await runs.result(await runs.start("chat", "Dig.", {"conversation": True}))

    reported = [event.data for event in module_rig.events if event.event == LIMIT]
    assert [(one["session_id"], one["token_count"]) for one in reported] == [("s1", 170_000)]
