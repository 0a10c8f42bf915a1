"""Run options: read from what a module said, or refused with the place."""

from __future__ import annotations

import pytest

from parachuted.access.narrowing import AgentNarrowing
from parachuted.errors import ActRefusedError
from parachuted.runs.run_options import read_options


def test_a_conversation_has_options_of_its_own_beside_those_of_any_run():
    found = read_options(
        {
            "model": "claude-x",
            "attachments": ["a.md"],
            "narrowing": {"read": ["Projects/"], "tools": []},
            "timeout_s": 3,
            "working_directory": "",
            "history": None,
        },
        "conversation",
    )

    assert (found.model, found.attachments, found.timeout_s) == ("claude-x", ("a.md",), 3)
    assert found.narrowing == AgentNarrowing(read=("Projects/",), tools=())
    assert (found.folder, found.history) == (None, "")


def test_any_run_can_be_narrowed():
    found = read_options({"narrowing": AgentNarrowing(write=()), "max_turns": 2})
    assert (found.narrowing.write, found.max_turns) == ((), 2)


@pytest.mark.parametrize(("folder", "known"), [("Work/", "Work"), ("../x", None), (None, None)])
def test_hooks_know_the_folder_of_a_conversation_as_far_as_it_is_one(folder, known):
    found = read_options({"conversation_folder": folder}, "conversation")
    assert found.about_folder == known


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "no model"}, "start: model"),
        ({"attachments": [""]}, "start: attachments.0"),
        ({"narrowing": {"reads": []}}, "start: narrowing"),
        ({"narrowing": {"capabilities": ["fly"]}}, "start: capabilities"),
        ({"max_turns": 0}, "start: max_turns"),
        ({"working_directory": "../x"}, "start: working_directory"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(options, says):
    with pytest.raises(ActRefusedError, match=says):
        read_options(options, "conversation")
