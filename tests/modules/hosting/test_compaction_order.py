"""That the context is nearly full is known before the session's older part is summed up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from parachuted.agents.job import Job, SessionStep, Step, UsageStep
from parachuted.hooks.decision import HookDecision
from parachuted.testing import ScriptedBackend
from tests.modules.module_rig import ModuleRig

LIMIT = "context.limit.approaching"
MANIFEST = """
permissions:
  read: ["Brain/**"]
agents:
  chat:
    paths: ["Brain/**"]
    capabilities: [read]
"""


class CompactingBackend(ScriptedBackend):
    """Its context grows by these steps, and is then summed up."""

    def __init__(self, *context_tokens: int, trigger: str = "auto") -> None:
        super().__init__()
        self.context_tokens, self.trigger = context_tokens, trigger

    async def run(self, job: Job) -> AsyncIterator[Step]:
        yield SessionStep(session_id="s1", is_resumed=False)
        for tokens in self.context_tokens:
            yield UsageStep(
                input_tokens=1,
                output_tokens=1,
                cache_read_tokens=0,
                cost_usd=0.0,
                context_tokens=tokens,
            )
        await job.compacting(self.trigger, None)


class RecordingHooks:
    """Hooks before a compaction: which events they come after."""

    def __init__(self, rig: ModuleRig) -> None:
        self.rig = rig
        self.earlier: list[list[str]] = []

    def wants(self, event: str) -> bool:
        return event == "compact.before"

    async def ask(self, hook_event) -> HookDecision:
        assert hook_event.event == "compact.before"
        self.earlier.append([event.event for event in self.rig.events])
        return HookDecision()


@pytest.mark.parametrize(
    ("backend", "limits"),
    [
        (CompactingBackend(1_000, 170_000, 190_000), [("s1", 170_000)]),
        (CompactingBackend(1_000), [("s1", 160_000)]),
        (CompactingBackend(1_000, trigger="manual"), []),
    ],
    ids=["as the usage told", "filled by one long message", "asked for by a person"],
)
async def test_a_nearly_full_context_is_published_once_before_it_is_summed_up(
    module_rig, backend, limits
):
    hooks = RecordingHooks(module_rig)
    agents = module_rig.agents(backend, asker=hooks)
    runs = module_rig.given(module_rig.approve(MANIFEST), agents).runs

    await runs.result(await runs.start("chat", "Dig.", {"conversation": True}))

    assert [one.count(LIMIT) for one in hooks.earlier] == [len(limits)]
    reported = [event.data for event in module_rig.events if event.event == LIMIT]
    assert [(one["session_id"], one["token_count"]) for one in reported] == limits
