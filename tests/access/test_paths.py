"""Control: what no agent and no module ever writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.paths import is_approval, is_code, is_control, is_hidden


@pytest.mark.parametrize(
    ("path", "code"),
    [("Modules/a", True), ("MODULES", True), ("Suggestions/a.md", False), ("a/Modules/b", False)],
)
def test_code_lies_in_the_folder_of_modules_alone(path, code):
    assert is_code(path) == code


@pytest.mark.parametrize("path", ["a/.b/c", ".x", "a/.x", "Daily/.git/config"])
def test_names_with_a_dot_before_them_are_hidden_and_not_to_be_written(path):
    assert (is_hidden(path), is_control(path)) == (True, True)


@pytest.mark.parametrize(
    "path",
    [
        "Modules/a",
        "mODULES/a",
        "Modules",
        "Modules /a",
        "Mod\u200bules/a",
        "Suggestions/a.md",
        "suggestions",
        "Daily/.agents/x.md",
    ],
)
def test_what_rules_agents_and_modules_is_not_to_be_written(path):
    assert (is_hidden(path), is_control(path)) == (False, True)


@pytest.mark.parametrize(
    "path",
    [
        "Daily/modules/a.md",
        "Modulesx/a.md",
        "Daily/Suggestions/a.md",
        "a.b/c",
        "a..b",
        "",
        "\u2026/x.md",
        "a.",
        "Suggestions: mine.md",
        "notes~1.md",
    ],
)
def test_other_names_are_notes(path):
    assert (is_hidden(path), is_control(path)) == (False, False)


@pytest.mark.parametrize(
    "path", [".agents/x.md", "Daily/.agents/x.md", ".AGENTS/x.md", ".agents./x.md"]
)
def test_the_folder_of_agents_is_read_and_not_written(path):
    assert (is_hidden(path), is_control(path)) == (False, True)


SPELLINGS = (
    "{}.",
    "{} ",
    "{} . .",
    "{}\ufe0f",
    "{}\u034f",
    "{}\u3164",
    "\u115f{}",
    "\u200b{}",
    "{}\u2060",
    "\ufeff{}",
    "{}\U000e0041",
    "{}\u2024",
    "{}::$INDEX_ALLOCATION",
    "{}:$I30:$INDEX_ALLOCATION",
    "{}\\x",
)


@pytest.mark.parametrize("spelled", SPELLINGS)
@pytest.mark.parametrize("below", ["", "/x.md"])
def test_a_folder_of_programs_is_one_however_a_lenient_disk_spells_it(spelled, below):
    for name in ("Modules", "MODULES", "\uff2dodules"):
        assert is_code(spelled.format(name) + below)
        assert is_control(spelled.format(name) + below)
    for name in ("Suggestions", "suGGestions", "Suggest\u0131ons"):
        assert is_approval(spelled.format(name) + below)
        assert is_control(spelled.format(name) + below)
    for name in (".git", ".Parachute", "\u2024claude"):
        assert is_hidden(f"a/{spelled.format(name)}{below}")
        assert is_control(f"a/{spelled.format(name)}{below}")


@pytest.mark.parametrize(
    "path",
    [
        "SUGGES~1/x.md",
        "suggES~12",
        "SU1A2B~1/x.md",
        "GIT~1/config",
        "a/GI7EB3~1/hooks",
        "MCP~1.JSO",
        "CLAUDE~1",
    ],
)
def test_the_short_names_of_older_programs_are_known(path):
    assert is_control(path)


@given(st.text(max_size=12))
def test_what_is_hidden_is_never_writable(path):
    assert not is_hidden(path) or is_control(path)
