"""Run request: options that are read or refused with the place, and what a run lends another."""

from __future__ import annotations

import pytest

from parachuted.access.agent_config import AgentConfig, AgentNarrowing, SandboxConfig
from parachuted.access.grant import Grant, build_grant
from parachuted.errors import ActRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.runs.run_request import read_options


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
    of_any = read_options({"narrowing": AgentNarrowing(write=()), "max_turns": 2})

    assert (found.model, found.attachments, found.timeout_s) == ("claude-x", ("a.md",), 3)
    assert found.narrowing == AgentNarrowing(read=("Projects/",), tools=())
    assert (found.working_directory, found.history) == (None, "")
    assert (of_any.narrowing.write, of_any.max_turns) == ((), 2)


@pytest.mark.parametrize(("folder", "known"), [("Work/", "Work"), ("../x", None), (None, None)])
def test_hooks_know_the_folder_of_a_conversation_as_far_as_it_is_one(folder, known):
    found = read_options({"conversation_folder": folder}, "conversation")
    assert found.conversation_folder == known


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "no model"}, "start: model"),
        ({"attachments": [""]}, "start: attachments.0"),
        ({"narrowing": {"reads": []}}, "start: narrowing"),
        ({"narrowing": {"capabilities": ["fly"]}}, "start: narrowing.capabilities"),
        ({"max_turns": 0}, "start: max_turns"),
        *(
            ({"working_directory": crafted}, "start: working_directory")
            for crafted in ("**", "Brain*", "?aily", "../x", "/", "~", "${CWD}", 7, ["Brain"])
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(options, says):
    with pytest.raises(ActRefusedError, match=says):
        read_options(options, "conversation")


def granted(**config: object) -> Grant:
    made = AgentConfig(**{"capabilities": ["read", "write"], **config})
    return build_grant(
        made, agent="a", bounds_read=EVERYWHERE, bounds_write=EVERYWHERE, entry="cli"
    )


def test_an_agent_that_another_one_asks_for_help_may_no_more_than_that_one():
    outer = granted(paths=["Brain/**"], bash=["git"], network=["a.example"])
    hosts = ["a.example", "b.example"]
    inner = granted(paths=["Brain/a/**", "Daily/**"], bash=True, network=hosts).both(outer)
    listed = granted(allowed_interfaces=("A", "B"))

    assert (inner.bash, inner.network) == (("git",), ("a.example",))
    paths = ("Brain/a/x.md", "Brain/x.md", "Daily/x.md")
    for may in (inner.may_read, inner.may_write):
        assert [path for path in paths if may(path)] == ["Brain/a/x.md"]
    assert granted().both(listed).interfaces == ("A", "B")
    assert granted(allowed_interfaces=("B", "C")).both(listed).interfaces == ("B",)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ({"paths": ["**"]}, {"paths": ["**"], "bash": True, "network": True}),
        (
            {"paths": ["**"], "bash": ["git"], "network": ["x.example"]},
            {"paths": ["**"], "bash": ["npm"], "network": ["y.example"]},
        ),
        (
            {"paths": ["**"]},
            {"paths": ["**"], "capabilities": ["Bash"], "sandbox": SandboxConfig(network="bridge")},
        ),
    ],
)
def test_a_shell_and_the_network_that_it_has_not_it_cannot_have_by_asking(
    outer: dict[str, object], inner: dict[str, object]
):
    restricted = granted(**inner).both(granted(**outer))

    assert (restricted.bash, restricted.network) == (False, "none")
    assert not {"Bash", "WebFetch"} & set(restricted.native)
