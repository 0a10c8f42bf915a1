"""What the CLI's messages mean."""

from __future__ import annotations

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from parachuted.agents.claude.steps import StepReader
from parachuted.agents.job import TextStep, ToolCallStep, ToolResult
from parachuted.errors import AgentFailedError, AgentStoppedError, AgentUnavailableError


@pytest.fixture
def new_reader(job, agent_rig):
    tools = (agent_rig.tool("read"),)
    return lambda: StepReader(job(tools=tools, max_turns=3), None, lambda: 0.0)


@pytest.fixture
def reader(new_reader):
    return new_reader()


def answer(*blocks, message_id="m1", model="haiku"):
    return AssistantMessage(content=list(blocks), model=model, message_id=message_id)


def result(**parts):
    usual = {
        "subtype": "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": False,
        "num_turns": 1,
        "session_id": "s",
        "usage": {"input_tokens": 1_000, "cache_read_input_tokens": 10, "output_tokens": 100},
    }
    return ResultMessage(**{**usual, **parts})


def refused(said, status, **parts):
    return result(
        is_error=True,
        result=f"API Error: {said}",
        terminal_reason="api_error",
        api_error_status=status,
        **parts,
    )


def read(reader, *messages):
    return [step for message in messages for step in reader.read(message)]


def test_words_and_calls_become_steps_and_a_call_waits_for_its_result(reader):
    first = read(
        reader,
        answer(
            TextBlock("hm"),
            TextBlock("  "),
            ToolUseBlock("1", "mcp__curator__read", {"p": "a"}),
            ToolUseBlock("2", "Bash", {}),
        ),
    )
    unknown = ToolResultBlock("2", "<tool_use_error>No such tool</tool_use_error>", is_error=True)
    parts = [{"type": "text", "text": text} for text in "ab"]
    second = read(
        reader,
        UserMessage(content=[unknown]),
        UserMessage(content=[ToolResultBlock("1", parts), ToolResultBlock("9", "x")]),
        UserMessage(content="just words"),
    )

    assert first == [TextStep(text="hm")]
    no_tool = ToolResult(text="No such tool", is_error=True)
    assert second == [
        ToolCallStep(id="2", tool="Bash", arguments={}, result=no_tool),
        ToolCallStep(id="1", tool="read", arguments={"p": "a"}, result=ToolResult(text="a\nb")),
    ]


def test_each_answer_is_a_turn_and_the_end_names_the_session(reader):
    assert read(reader, answer(), answer(message_id="m2"), answer(), result()) == []
    assert (reader.turns, reader.next_session) == (2, "s")


def test_what_the_cli_says_in_the_models_place_is_not_an_answer(reader):
    assert read(reader, answer(TextBlock("API Error"), model="<synthetic>")) == []
    assert reader.turns == 0


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"subtype": "error_max_turns"}, "after 3 turns"),
        ({"subtype": "error_during_execution", "errors": ["one", "two"]}, "one; two"),
        ({"subtype": "error_of_tomorrow"}, "error_of_tomorrow"),
        ({"result": "x" * 10_000}, "xxx"),
        (None, "400 too long"),
    ],
)
def test_a_bad_end_is_reported(reader, parts, says):
    end = refused(says, 400) if parts is None else result(is_error=True, **parts)
    with pytest.raises(AgentFailedError, match=says) as caught:
        read(reader, end)
    assert reader.next_session == "s"
    assert not isinstance(caught.value, AgentUnavailableError)
    assert len(caught.value.message) < 600


ADVICE = "This is a server-side issue, usually temporary. Check 127.0.0.1:4."


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [(502, "h was not reached: no.", f" {ADVICE}"), (402, "pay", ""), (404, "none", "")],
)
def test_of_a_model_that_is_down_only_what_the_daemon_said_is_reported(reader, status, said, words):
    with pytest.raises(AgentUnavailableError) as caught:
        read(reader, refused(f"{status} {said}{words}", status))
    assert caught.value.message == f"the model answered {status}: {said}"


@pytest.mark.parametrize("status", [None, 401, 402, 404, 429, 500, 529])
def test_an_api_error_means_not_available_and_after_an_answer_interrupted(new_reader, status):
    end = refused("", status)
    with pytest.raises(AgentUnavailableError):
        read(new_reader(), end)

    with pytest.raises(AgentFailedError) as caught:
        read(new_reader(), answer(TextBlock("hm")), end)
    assert isinstance(caught.value, AgentStoppedError)


def test_a_refusal_of_the_models_is_an_answer_and_its_session_ends(reader):
    says = "the model refused to answer: it can't help"
    with pytest.raises(AgentFailedError, match=says) as caught:
        read(reader, refused("it can't help", None, stop_reason="refusal"))
    assert reader.next_session is None
    assert type(caught.value) is AgentFailedError
