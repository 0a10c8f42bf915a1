"""What an agent does, as the app reads it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    NotFoundError,
    StorageFailedError,
)
from parachuted.modules import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentText,
    AgentTextDelta,
    AgentThinkingDelta,
    AgentToolCall,
    AgentToolUse,
)
from tests.chat.app_decoder import decoded
from tests.chat.scripted_runs import usage
from tests.module_files import chat_file

turn_events, turn_stream = chat_file("turn_events"), chat_file("turn")


def read(steps, session="s1"):
    """The events of these steps, with texts as the stream makes them, and the reader."""
    reader, stream = turn_events.TurnSteps(session), turn_stream.TurnStream()
    for step in steps:
        for one in reader.read(step):
            stream.send(one)
    return reader, stream


async def events(stream):
    stream.send({"type": "error", "error": "the end"})
    return [decoded(one.data) async for one in stream.read()][:-1]


async def test_a_text_is_sent_whole_with_its_delta_and_begins_after_a_tool():
    _, stream = read(
        [
            AgentTextDelta(text="I will "),
            AgentTextDelta(text="look."),
            AgentText(text="I will look."),
            AgentToolUse(id="t1", tool="read_file", arguments={"path": "a.md"}),
            AgentToolCall(id="t1", tool="read_file", arguments={"path": "a.md"}, answer="Beans."),
            AgentTextDelta(text="It says beans."),
            AgentText(text="It says beans."),
        ]
    )
    assert await events(stream) == [
        {"type": "text", "content": "I will look.", "delta": "I will look."},
        {"type": "tool_use", "tool": {"id": "t1", "name": "read_file", "input": {"path": "a.md"}}},
        {"type": "tool_result", "toolUseId": "t1", "content": "Beans.", "isError": False},
        {"type": "text", "content": "It says beans.", "delta": "It says beans."},
    ]


async def test_a_run_without_deltas_says_the_same():
    reader, stream = read(
        [
            AgentText(text="One."),
            AgentText(text="Two."),
            AgentToolCall(id="", tool="find", arguments={}, answer="no", is_error=True),
        ]
    )
    found = await events(stream)
    assert found[0]["content"] == "One.\n\nTwo."
    assert [one["type"] for one in found] == ["text", "tool_use", "tool_result"]
    assert found[1]["tool"]["id"] == found[2]["toolUseId"]
    assert reader.text == "One.\n\nTwo."
    assert [(tool.name, tool.input) for tool in reader.tools] == [("find", {})]
    assert reader.failed == {found[1]["tool"]["id"]} == {reader.tools[0].id}


async def test_what_is_thought_is_one_event():
    _, stream = read(
        [AgentThinkingDelta(text="hm"), AgentThinkingDelta(text="m"), AgentText(text="A.")]
    )
    found = await events(stream)
    assert [one["type"] for one in found] == ["thinking", "text"]
    assert found[0]["content"] == "hmm"


async def test_a_question_has_the_fields_that_the_app_casts():
    asked = {
        "question": "Which?",
        "options": [{"label": "A"}, "B", {"label": 3, "description": None}],
    }
    reader, stream = read([AgentQuestion(id="t9", questions=(asked,))])
    (found,) = await events(stream)
    assert found["requestId"] == "s1-q-t9"
    assert found["questions"] == [
        {
            "question": "Which?",
            "header": "",
            "options": [{"label": "A", "description": ""}, {"label": "3", "description": ""}],
            "multiSelect": False,
        }
    ]
    assert reader.questions["s1-q-t9"].id == "t9"


async def test_a_permission_request_is_a_question_with_what_it_allows():
    reader, stream = read(
        [
            AgentPermissionRequest(
                id="p1", tool="Bash", arguments={"command": "ls"}, patterns=("ls *",)
            )
        ]
    )
    request, question = await events(stream)
    assert request["type"] == "permission_request"
    assert request["patterns"] == ["ls *"]
    labels = [one["label"] for one in question["questions"][0]["options"]]
    asked = reader.questions[question["requestId"]]
    assert [asked.value_of({"May it?": label}) for label in labels] == [
        "allow",
        {"pattern": "ls *"},
        "deny",
    ]
    for other in ("Allow rm *", "", {}, ["Allow", "Deny"], None):
        assert asked.value_of(other) == "deny"


words = st.text(min_size=1, max_size=6)
steps = st.one_of(
    words.map(lambda text: AgentTextDelta(text=text)),
    words.map(lambda text: AgentThinkingDelta(text=text)),
    words.map(lambda text: AgentText(text=text)),
    words.map(lambda name: AgentToolUse(id=name, tool=name)),
    words.map(lambda name: AgentToolCall(id=name, tool=name, answer=name)),
    st.just(usage()),
)


@given(st.lists(steps, max_size=12))
async def test_whatever_an_agent_does_the_app_can_read_it(made):
    reader, stream = read(made)
    found = await events(stream)
    assert json.dumps([asdict(tool) for tool in reader.tools])
    since_tool = ""
    for one in found:
        if one["type"] == "tool_use":
            since_tool = ""
        if one["type"] == "text":
            since_tool += one["delta"]
            assert one["content"] == since_tool


@pytest.mark.parametrize(
    ("error", "code", "can_retry"),
    [
        (
            AgentUnavailableError("the model refused the login (401); see"),
            "invalid_credentials",
            False,
        ),
        (AgentUnavailableError("no login for the model was found; see"), "invalid_api_key", False),
        (
            AgentUnavailableError("the login has ended and could not be renewed"),
            "expired_token",
            False,
        ),
        (AgentUnavailableError("the model answered 429: slow down"), "rate_limited", True),
        (AgentUnavailableError("the model answered 529: overloaded"), "service_error", True),
        (AgentUnavailableError("the model could not be reached: dns"), "network_error", True),
        (AgentUnavailableError("the budget of today is used up"), "billing_error", False),
        (AgentUnavailableError("the budget is used up", wait_s=30.0), "billing_error", True),
        (AgentStoppedError("the model answered 503: later"), "service_unavailable", True),
        (
            AgentFailedError("the agent failed: prompt is too long: 210000"),
            "context_exceeded",
            False,
        ),
        (AgentFailedError("the model refused to answer: no"), "unknown_error", False),
        (ActRefusedError("the budget hook said no"), "unknown_error", False),
        (NotFoundError("there is none"), "session_not_found", False),
        (StorageFailedError("the disk refused the log: I/O error"), "session_unavailable", True),
    ],
)
def test_an_error_says_what_it_is_and_whether_to_ask_again(error, code, can_retry):
    reported = decoded(turn_events.typed_error(error, "s1"))
    assert (reported["code"], reported["canRetry"]) == (code, can_retry)
    assert reported["message"] == error.message
    assert (reported["retryDelayMs"] is not None) == can_retry
    assert any(one["action"] == "retry" for one in reported["actions"]) == can_retry
