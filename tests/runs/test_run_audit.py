from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.agents import TextStep, Tool, ToolCallStep, ToolResult, call_tool
from parachuted.runs.run_audit import RunAudit
from parachuted.tasks import RunOutcome
from tests.modules.module_rig import MemoryAudit
from tests.runs.task_rig import make_task

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def reported(kept: MemoryAudit) -> list[tuple[object, ...]]:
    return [(event.event_type, event.target_endpoint, event.success) for event in kept.events]


async def answer(arguments: dict[str, object]) -> ToolResult:
    if arguments.get("file_path") == "break":
        raise RuntimeError
    return ToolResult(
        text="no" if arguments.get("file_path") == "bad" else "yes",
        is_error=arguments.get("file_path") == "bad",
    )


TOOL = Tool(
    name="read", description="", schema={"type": "object", "required": ["file_path"]}, call=answer
)


@pytest.fixture
def kept():
    return MemoryAudit()


@pytest.fixture
def audit(kept):
    task = make_task("a\udcff.md")
    return RunAudit(kept, lambda: NOON, task, agent="curator", backend="scripted", module="curator")


def test_the_begin_and_the_end_are_reported_with_run_and_causes(kept, audit):
    audit.record_start()
    audit.record_end(RunOutcome(result="changed", reason="updated a.md"))
    audit.record_end(RunOutcome(result="failed", reason="it ran out of time"))

    assert reported(kept) == [
        ("agent_start", "agents.scripted", True),
        ("agent_end", "agents.scripted: changed", True),
        ("agent_end", "agents.scripted: failed", False),
    ]
    assert {(event.run, tuple(event.causes), tuple(event.paths)) for event in kept.events} == {
        ("r-1", ("c1",), ("a\\xff.md",))
    }
    assert kept.events[2].error == "it ran out of time"


async def test_each_call_is_reported_once_whether_it_reached_a_tool_or_not(kept, audit):
    tools = audit.tools([TOOL])
    calls = [
        ("read", {"file_path": "a.md"}),
        ("read", {"file_path": "bad"}),
        ("read", {}),
        ("write", {"file_path": "x"}),
    ]
    results = [
        (name, arguments, await call_tool(tools, name, arguments)) for name, arguments in calls
    ]
    for name, arguments, result in results:
        audit.record_refused(ToolCallStep(tool=name, arguments=arguments, result=result))
    audit.record_refused(TextStep(text="done"))

    assert reported(kept) == [
        ("mcp_call", "curator.read", True),
        ("mcp_call", "curator.read", False),
        ("mcp_call", "curator.read", False),
        ("mcp_call", "curator.write", False),
    ]
    assert [event.paths for event in kept.events] == [["a.md"], ["bad"], [], ["x"]]


async def test_a_call_in_which_a_tool_breaks_is_reported_too(kept, audit):
    with pytest.raises(RuntimeError):
        await call_tool(audit.tools([TOOL]), "read", {"file_path": "break"})

    assert [(event.success, event.error) for event in kept.events] == [
        (False, "the call was cut short")
    ]


async def test_what_an_agent_names_may_be_anything(kept, audit):
    for path in ("\ud800", "x" * 10_000_000, 7, None):
        result = await call_tool(audit.tools([TOOL]), "y" * 1_000_000, {"file_path": path})
        audit.record_refused(
            ToolCallStep(tool="y" * 1_000_000, arguments={"file_path": path}, result=result)
        )

    assert all(len(repr(event)) < 5_000 for event in kept.events)
    assert kept.events[0].paths == ["\\ud800"]


async def test_a_call_whose_answer_leaves_out_what_is_private_says_so(kept, audit):
    async def shortened(_arguments: dict[str, object]) -> ToolResult:
        return ToolResult(text="# Day\n\n(private part 1: left out)\n")

    (tool,) = audit.tools([Tool(name="read", description="", schema={}, call=shortened)])
    await call_tool([tool], "read", {"file_path": "a.md"})

    assert [event.target_endpoint for event in kept.events] == [
        "curator.read: private parts left out"
    ]
