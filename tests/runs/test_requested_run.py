"""Requested run: what came of it, in its outcome, its words and its author."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.agents import Job
from parachuted.errors import AgentFailedError, HookRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run_request import AgentDefinition, RunBudget, RunReport, RunRequest
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.modules.hosting.test_module_agents import ObjectingHooks
from tests.modules.module_rig import LIMITS, ModuleRig
from tests.runs.test_run_guard import FakeSuggestions

PROPOSES = use(
    "suggest_change",
    action="create",
    path="Brain/n.md",
    payload={"text": "x"},
    reasoning="It is missing.",
)
APPENDS = use("edit_section", path="Brain/a.md", section="Facts", text="- one")
WRITES = use("write_note", path="Brain/n.md", text="x")
EDITS = use("edit_section", path="Brain/a.md", section="Facts", text="x")


@pytest.fixture
def module_rig(tmp_path: Path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Brain/a.md", "# A\n")
    yield module_rig
    module_rig.close()


async def run(
    module_rig: ModuleRig,
    *blocks: Block,
    script: Callable[[Job], Awaitable[list[Block]]] | None = None,
    module: str | None = None,
    **more: object,
) -> RunReport:
    definition = AgentDefinition(
        name="helper",
        config=AgentConfig(paths=["Brain/**"], capabilities=["read", "write"]),
        bounds=ModuleBounds(who="x", reads=EVERYWHERE, writes=EVERYWHERE),
        system_prompt="You help.",
        module=module,
    )
    request = RunRequest(
        definition=definition,
        prompt="Help.",
        entry="schedule",
        budget=RunBudget(limits=LIMITS),
    )
    return await module_rig.agents(ScriptedBackend(script or blocks), **more).runner.run(request)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([say("ok")], ("unchanged", ())),
        ([PROPOSES, say("ok")], ("suggested", ("s-1",))),
        ([PROPOSES, APPENDS], ("changed", ("s-1",))),
    ],
)
async def test_a_run_is_reported_by_what_it_wrote_then_by_what_it_suggested(
    module_rig: ModuleRig, blocks: list[Block], expected: tuple[str, tuple[str, ...]]
):
    report = await run(module_rig, *blocks, suggestions=FakeSuggestions())
    assert (report.outcome.result, report.suggested) == expected


@pytest.mark.parametrize("block", [WRITES, APPENDS, EDITS])
async def test_a_run_whose_writes_a_hook_refuses_has_failed_with_the_hooks_words(
    module_rig: ModuleRig, monkeypatch: pytest.MonkeyPatch, block: Block
):
    def refuse(*_given: object, **_named: object) -> None:
        raise HookRefusedError(
            "a hook refused the write to Brain/n.md, so nothing was written: it is Sunday"
        )

    for name in ("write", "edit", "create"):
        monkeypatch.setattr(module_rig.store, name, refuse, raising=False)
    report = await run(module_rig, block, say("I could not write."))
    assert (report.outcome.result, report.words) == ("failed", "I could not write.")
    assert "it is Sunday" in report.outcome.reason


@pytest.mark.parametrize(
    ("block", "result"), [(WRITES, "failed"), (use("list_notes"), "unchanged")]
)
async def test_a_call_that_a_hook_refuses_fails_the_run_where_it_would_have_written(
    module_rig: ModuleRig, block: Block, result: str
):
    report = await run(module_rig, block, say("Well."), asker=ObjectingHooks(block.name))
    assert report.outcome.result == result


@pytest.mark.parametrize(("module", "by"), [("bot", "module:helper"), (None, "agent:helper")])
async def test_what_it_writes_is_of_its_module_or_of_the_daemons_own_agent(
    module_rig: ModuleRig, module: str | None, by: str
):
    report = await run(module_rig, WRITES, module=module)
    (write,) = module_rig.history.writes_by(report.run)
    (document,) = module_rig.history.runs()
    assert (write.author.by, document["agent"]) == (by, "helper")
    assert [cause["id"] for cause in document["causes"]] == list(write.author.causes)


async def test_a_run_that_fails_is_recorded_as_failed_and_its_caller_learns_why(
    module_rig: ModuleRig,
):
    async def broken(_job: Job) -> list[Block]:
        raise RuntimeError("the backend fell over")

    with pytest.raises(AgentFailedError, match="broke: RuntimeError"):
        await run(module_rig, script=broken)
    (document,) = module_rig.history.runs()
    assert (document["outcome"], document["reason"]) == (
        "failed",
        "the backend scripted broke: RuntimeError",
    )


async def test_a_caller_that_goes_away_ends_the_run_and_the_end_is_recorded(
    module_rig: ModuleRig,
):
    working = asyncio.Event()

    async def endless(_job: Job) -> list[Block]:
        working.set()
        await asyncio.Event().wait()
        return []

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(module_rig, script=endless))
        await working.wait()
        task.cancel()

    (document,) = module_rig.history.runs()
    assert (document["outcome"], document["reason"]) == (
        "failed",
        "it was ended, because its caller no longer waits",
    )
    assert module_rig.history.unended() == []
