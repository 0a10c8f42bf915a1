"""Options of a conversation's run: read from what a module said, or refused with the place."""

from __future__ import annotations

import pytest

from parachuted.access.narrowing import AgentNarrowing
from parachuted.errors import ActRefusedError
from parachuted.runs.conversations import read_conversation_options, read_narrowing


def test_its_own_options_are_read_and_the_rest_is_handed_on():
    found, rest = read_conversation_options(
        {
            "model": "claude-x",
            "attachments": ["a.md"],
            "narrowing": {"read": ["Projects/"], "tools": []},
            "timeout_s": 3,
            "working_directory": "",
        }
    )

    assert (found.model, found.attachments) == ("claude-x", ("a.md",))
    assert found.narrowing == AgentNarrowing(read=("Projects/",), tools=())
    assert rest == {"timeout_s": 3}


def test_any_run_can_be_narrowed():
    found, rest = read_narrowing({"narrowing": AgentNarrowing(write=()), "max_turns": 2})

    assert (found.narrowing.write, rest) == ((), {"max_turns": 2})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "no model"}, "start: model"),
        ({"attachments": [""]}, "start: attachments.0"),
        ({"narrowing": {"reads": []}}, "start: narrowing"),
        ({"narrowing": {"capabilities": ["fly"]}}, "start: capabilities"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(options, says):
    with pytest.raises(ActRefusedError, match=says):
        read_conversation_options(options)
