"""What the CLI's messages mean."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from parachuted.agents.claude.steps import StepReader
from parachuted.agents.job import RunResult, TextStep, ToolCallStep, ToolResult
from parachuted.errors import AgentFailedError, AgentStoppedError, AgentUnavailableError


@pytest.fixture
def new_reader(job, agent_rig):
    tools = (agent_rig.tool("read"),)
    return lambda: StepReader(job(tools=tools, max_turns=3, max_cost_usd=0.25), "claude-haiku-4-5")


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


def retry(status, attempt):
    data = {"error_status": status, "attempt": attempt, "error": "overloaded"}
    return SystemMessage(subtype="api_retry", data=data)


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


def test_a_run_is_charged_for_all_of_its_answers(reader):
    reader.count(result())
    [account] = read(reader, answer(), answer(message_id="m2"), answer(), result())

    assert (account.input_tokens, account.output_tokens, account.turns) == (2_020, 200, 2)
    assert account.cost_usd == pytest.approx(0.002 + 0.000_002 + 0.001)
    assert account.session_id == "s"


def test_what_the_cli_says_in_the_models_place_is_not_an_answer(reader):
    assert read(reader, answer(TextBlock("API Error"), model="<synthetic>")) == []
    assert not reader.answered


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"subtype": "error_max_turns"}, "after 3 turns"),
        ({"subtype": "error_max_budget_usd"}, r"\$0.25"),
        ({"subtype": "error_during_execution", "errors": ["one", "two"]}, "one; two"),
        ({"subtype": "error_of_tomorrow"}, "error_of_tomorrow"),
        ({"result": "x" * 10_000}, "xxx"),
        (None, "400 too long"),
    ],
)
def test_a_bad_end_is_reported_after_the_account(reader, parts, says):
    end = refused(says, 400) if parts is None else result(is_error=True, **parts)
    steps = reader.read(end)

    assert isinstance(next(steps), RunResult)
    with pytest.raises(AgentFailedError, match=says) as caught:
        next(steps)
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
    steps = reader.read(refused("it can't help", None, stop_reason="refusal"))

    account = next(steps)
    assert isinstance(account, RunResult)
    assert account.session_id is None
    says = "the model refused to answer: it can't help"
    with pytest.raises(AgentFailedError, match=says) as caught:
        next(steps)
    assert type(caught.value) is AgentFailedError


@pytest.mark.parametrize(
    ("status", "attempt", "gives_up"),
    [
        (401, 1, True),
        (403, 1, True),
        (429, 1, False),
        (429, 2, True),
        (None, 2, True),
        (529, 9, True),
    ],
)
def test_a_model_is_not_waited_for_long_unless_it_has_answered(
    new_reader, status, attempt, gives_up
):
    expected = pytest.raises(AgentUnavailableError) if gives_up else nullcontext()
    with expected:
        read(new_reader(), retry(status, attempt))

    assert read(new_reader(), answer(TextBlock("hm")), retry(status, attempt))


def test_a_run_that_was_cut_off_may_have_cost_all_that_it_was_allowed(reader):
    assert reader.account_unfinished() is None
    reader.asked = True
    assert reader.account_unfinished() == RunResult(
        cost_usd=0.25, input_tokens=0, output_tokens=0, turns=0
    )
    read(reader, result())
    assert reader.account_unfinished() is None


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": "7", "output_tokens": None}])
def test_rubbish_in_an_account_counts_as_nothing(reader, usage):
    [account] = read(reader, result(usage=usage))

    assert (account.cost_usd, account.input_tokens, account.output_tokens) == (0, 0, 0)
