"""Agent tools: those of modules that an agent may call, and what they answer."""

from __future__ import annotations

import pytest

from parachuted.agents.calling import call_tool
from parachuted.agents.job import ToolResult
from parachuted.errors import ModuleFailedError
from parachuted.modules import Response
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.runs.agent_tools import module_tools


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=f"{name}s", handler="handle", schema={"type": "object"})


OFFERED = [
    ("brain", spec("brain_search")),
    ("daily", spec("daily-journal")),
    ("other", spec("daily-journal")),
    ("other", spec("read_note")),
]


async def test_tools_of_modules_are_those_that_the_permissions_name():
    calls = []

    async def call(module, tool, arguments):
        calls.append((module, tool, arguments))
        return {"found": ["Kevin"]}

    allowed = ["brain_search", "daily-journal", "read_note", "none"]
    tools = module_tools(OFFERED, allowed, "bot", ["read_note"], call)
    assert [tool.name for tool in tools] == [
        "brain_search"
    ]  # one name of two modules means neither, and none takes one of ours
    assert [tool.name for tool in module_tools(OFFERED, allowed, "daily", ["read_note"], call)] == [
        "brain_search",
        "daily-journal",
    ]
    assert module_tools(OFFERED, [], "bot", [], call) == ()

    assert '"Kevin"' in (await call_tool(tools, "brain_search", {"query": "K"})).text
    assert calls == [("brain", "brain_search", {"query": "K"})]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("text", ToolResult(text="text")),
        (
            Response(status=404, body="no such entity"),
            ToolResult(text="no such entity", is_error=True),
        ),
        (Response(status=201, body="made"), ToolResult(text="made")),
        (ModuleFailedError("it failed"), ToolResult(text="it failed", is_error=True)),
    ],
)
async def test_what_a_modules_tool_answers_reaches_the_agent_as_text(answer, expected):
    async def call(_module, _tool, _arguments):
        if isinstance(answer, Exception):
            raise answer
        return answer

    (tool,) = module_tools([("brain", spec("brain_search"))], ["brain_search"], "bot", [], call)
    assert await call_tool([tool], "brain_search", {}) == expected
