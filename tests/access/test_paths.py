"""Control: what no agent and no module ever writes."""

from __future__ import annotations

import pytest

from parachuted.access.paths import is_code, is_control, is_hidden


@pytest.mark.parametrize(("path", "code"), [("Modules/a", True), ("MODULES", True), ("Suggestions/a.md", False), ("a/Modules/b", False)])
def test_code_lies_in_the_folder_of_modules_alone(path, code):
    assert is_code(path) == code


@pytest.mark.parametrize("path", ["a/.b/c", ".x", "a/.x", "Daily/.git/config"])
def test_names_with_a_dot_before_them_are_hidden_and_nobodys_to_write(path):
    assert (is_hidden(path), is_control(path)) == (True, True)


@pytest.mark.parametrize(
    "path", ["Modules/a", "mODULES/a", "Modules", "Modules /a", "Mod\u200bules/a", "Suggestions/a.md", "suggestions", "Daily/.agents/x.md"]
)
def test_what_rules_agents_and_modules_is_nobodys_to_write(path):
    assert (is_hidden(path), is_control(path)) == (False, True)


@pytest.mark.parametrize("path", ["Daily/modules/a.md", "Modulesx/a.md", "Daily/Suggestions/a.md", "a.b/c", "a..b", ""])
def test_other_names_are_notes(path):
    assert (is_hidden(path), is_control(path)) == (False, False)
