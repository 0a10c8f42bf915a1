"""What an agent sends is data: whatever it is, the answer is a sentence, and nothing was done."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.agents.calling import call_tool
from parachuted.agents.job import ToolResult
from parachuted.errors import NotFoundError


@pytest.fixture
def tools(job):
    return job().tools


def deep(levels):
    value = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("rm", {}, "there is no tool 'rm'; the tools are read_context, update_context"),
        ("x" * 10_000_000, {}, "there is no tool"),
        ("read_context", ["a.md"], "takes an object with named arguments, not list"),
        ("read_context", None, "not NoneType"),
        ("read_context", {}, "'file_path' is a required property"),
        ("read_context", {"file_path": 7}, "file_path: 7 is not of type 'string'"),
        (
            "read_context",
            {"file_path": "a.md", "as": "root"},
            "Additional properties are not allowed ('as' was unexpected)",
        ),
        ("read_context", {"file_path": ["x" * 100_000]}, "…"),
        ("read_context", {"file_path": deep(100_000)}, "nested deeper than 20 levels"),
        ("read_context", {"file_path": [7] * 600_000}, "longer than 500,000 characters"),
        (
            "update_context",
            {"file_path": "a.md", "section": "Facts", "content": "x" * 10_000_000},
            "longer than 500,000 characters",
        ),
        ("update_context", {"k" * 10_000_000: 1}, "longer than 500,000 characters"),
    ],
)
async def test_a_call_that_does_not_fit_is_answered_with_a_sentence(
    tools, agent_rig, name, arguments, says
):
    result = await call_tool(tools, name, arguments)

    assert (result.is_error, says in result.text, len(result.text) < 1000) == (True, True, True), (
        result.text[:500]
    )
    assert agent_rig.calls == []


async def test_a_call_that_fits_is_done(tools, agent_rig):
    result = await call_tool(tools, "read_context", {"file_path": "a.md"})

    assert result == ToolResult(text="read_context did it")
    assert agent_rig.calls == [("read_context", {"file_path": "a.md"})]


async def test_a_named_error_of_a_tool_is_the_agents_to_know_and_a_mistake_ours(tools, agent_rig):
    async def fail(arguments):
        if arguments["file_path"] == "a.md":
            raise NotFoundError("no such note")
        raise ZeroDivisionError

    agent_rig.answers["read_context"] = fail

    failed = await call_tool(tools, "read_context", {"file_path": "a.md"})
    assert failed == ToolResult(text="no such note", is_error=True)
    with pytest.raises(ZeroDivisionError):
        await call_tool(tools, "read_context", {"file_path": "b.md"})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(name=st.sampled_from(["read_context", "update_context"]) | st.text(), arguments=ANYTHING)
@settings(max_examples=30)
async def test_only_calls_that_fit_are_ever_done(tools, agent_rig, name, arguments):
    agent_rig.calls.clear()
    result = await call_tool(tools, name, arguments)

    assert result.is_error is not bool(agent_rig.calls)
    assert all(
        isinstance(value, str)
        for _, given_arguments in agent_rig.calls
        for value in given_arguments.values()
    )
