"""Run: it ends once, with its reason, in the audit, the history and on the bus."""

from __future__ import annotations

import pytest

from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import AgentFailedError, AgentStoppedError
from parachuted.tasks import RunOutcome
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.module_rig import ModuleRig
from tests.runs.task_rig import DONE, SmallRun


async def perform(run: SmallRun) -> RunOutcome:
    return await run.perform(since=run.parts.active_runs.moment)


def recorded(rig: ModuleRig) -> list[tuple[object, ...]]:
    return [
        (event.event_type, event.target_endpoint, event.error, event.paths)
        for event in rig.audit.events
    ]


async def test_a_run_that_ends_is_settled_audited_and_published_once(module_rig: ModuleRig):
    run = SmallRun(module_rig, watcher="a\udcff.md")
    assert await perform(run) == DONE
    assert run.ends == [(DONE, None)]
    assert recorded(module_rig) == [
        ("agent_start", "agents.scripted", None, ["a\\xff.md"]),
        ("agent_end", "agents.scripted: unchanged", None, ["a\\xff.md"]),
    ]
    assert {(event.run, event.causes) for event in module_rig.audit.events} == {("r-1", ("c1",))}
    (event,) = module_rig.events
    assert (event.event, event.data["outcome"]) == ("run.finished", "unchanged")

    run.is_final = False  # it will be tried again, so it has not finished
    await perform(run)
    assert (len(run.ends), module_rig.events) == (2, [event])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AgentFailedError("no credit"), "no credit"),
        (AgentStoppedError("you stopped it"), "you stopped it"),
        (RuntimeError("bug"), "it broke"),
    ],
)
async def test_a_run_that_fails_is_settled_with_its_reason_and_raises_its_error(
    module_rig: ModuleRig, error: Exception, reason: str
):
    async def fail() -> RunOutcome:
        raise error

    run = SmallRun(module_rig)
    run.act = fail
    with pytest.raises(type(error)):
        await perform(run)

    ((outcome, _error),) = run.ends
    assert (outcome.result, outcome.reason) == ("failed", reason)
    failed = "the run failed; its record says why"
    assert recorded(module_rig)[1:] == [("agent_end", "agents.scripted: failed", failed, ["w.md"])]
    assert [event.data["reason"] for event in module_rig.events] == [reason]


async def test_the_words_after_the_last_call_are_the_answer(module_rig: ModuleRig):
    blocks = [say("Let me see."), use("nothing"), say("One."), say("Two.")]
    run = SmallRun(module_rig, ScriptedBackend(blocks))
    await run.follow(run.job)
    assert run.answer == "One.\n\nTwo."


async def test_each_call_of_a_tool_is_recorded_also_one_that_breaks(module_rig: ModuleRig):
    async def answer(arguments: dict[str, object]) -> ToolResult:
        path = arguments["file_path"]
        if path == "break":
            raise RuntimeError
        text = "# Day\n\n(private part 1: left out)\n" if path == "private" else "iagnosis"
        return ToolResult(text=text, is_error=path == "bad")

    run = SmallRun(module_rig)
    run.brief("", "", [Tool(name="read", description="", schema={}, call=answer)], run.job.limits)
    (tool,) = run.job.tools
    for path in ("a.md", "bad", "private"):
        await tool.call({"file_path": path})
    with pytest.raises(RuntimeError):
        await tool.call({"file_path": "break"})

    assert recorded(module_rig) == [
        ("mcp_call", "helper.read", None, ["a.md"]),
        ("mcp_call", "helper.read", "it answered an error", ["bad"]),
        ("mcp_call", "helper.read: private parts left out", None, ["private"]),
        ("mcp_call", "helper.read", "the call was cut short", ["break"]),
    ]
    assert "iagnosis" not in repr(module_rig.audit.events)


async def test_what_an_agent_names_may_be_anything(module_rig: ModuleRig):
    run = SmallRun(module_rig)
    for path in ("\ud800", "x" * 10_000_000, 7, None):
        run.record_call("y" * 1_000_000, {"file_path": path}, ToolResult(text=""), 1.0)
    run.record_call("the diagnosis, all of it", {}, ToolResult(text=""), 1.0)

    assert all(len(repr(event)) < 5_000 for event in module_rig.audit.events)
    assert module_rig.audit.events[0].paths == ["\\ud800"]
    assert "diagnosis" not in repr(module_rig.audit.events)
