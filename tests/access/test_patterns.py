"""Patterns: lists of paths as grants."""

from __future__ import annotations

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.access.grant import exactly, grant_of, within
from parachuted.keys import EVERYWHERE, NOWHERE, PathGlob


@pytest.mark.parametrize("name", ["What?.md", "a*.md", "**", "Work/[x].md", "~tilde.md"])
def test_a_note_with_wild_letters_in_its_name_is_itself_alone(name):
    grant = exactly([name])

    assert grant.sees(name)
    assert not grant.sees(name.replace("?", "s").replace("*", "b") + "x")
    assert not any(grant.sees(other) for other in ("Whats.md", "ab.md", "Work/x.md", "anything"))


def test_only_folders_on_the_way_are_entered():
    grant = exactly(["Work/client/a.md"])

    assert [
        folder
        for folder in ("", "Work", "Work/client", "Work/other", "Wor")
        if grant.enters(folder)
    ] == ["", "Work", "Work/client"]


def test_one_file_covers_itself_and_no_pattern():
    one = exactly(["a?.md"]).alternatives[0][0][0]

    assert one.covers(one)
    assert not one.covers(PathGlob("a?.md"))
    assert PathGlob("**").covers(one)
    assert not PathGlob("*.md").covers(one)  # not known to, which a grant may take for a no
    assert exactly(["a?.md", "b.md"]).alternatives[0][0][0].covers(one)


def test_nothing_named_is_nothing_given():
    assert grant_of([]) == exactly([]) == NOWHERE
    assert within(EVERYWHERE, AgentConfig()) == NOWHERE


def test_two_lists_come_to_what_both_name():
    both = grant_of(["a/**", "b/**"]).both(grant_of(["b/**", "c/**"]))

    assert [path for path in ("a/x", "b/x", "c/x") if both.sees(path)] == ["b/x"]
    assert EVERYWHERE.both(both) == both.both(EVERYWHERE) == both


def test_what_lies_beside_the_vault_is_not_a_pattern_of_it():
    grant = within(EVERYWHERE, AgentConfig(paths=("~/Work/", "/etc/", "${CWD}/x", "a/**")))

    assert [path for path in ("~/Work/a", "etc/passwd", "x", "a/b") if grant.sees(path)] == ["a/b"]
