"""Which files something may be suggested for."""

from __future__ import annotations

import pytest

from parachuted.errors import EditRefusedError, PathRefusedError
from parachuted.suggestions.payload import check_target, module_of


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "~/x",
            ".git/hooks/pre-commit",
            "a/.claude/settings.json",
            ".mcp.json",
            "\u200b.mcp.json",
        ),
        *(
            "Modules/m/module.py",
            "MODULES/x",
            "Mod\u200bules/x",
            "Suggestions/x.md",
            "suggestions/x.md",
            "\uff33uggestions/x.md",
            "a\0b",
        ),
    ],
)
def test_what_decides_over_programs_is_not_to_be_suggested(path):
    with pytest.raises(PathRefusedError):
        check_target(path)


def test_a_name_that_no_file_of_a_suggestion_could_hold_is_refused():
    with pytest.raises(EditRefusedError):
        check_target("caf\udce9.md")


@pytest.mark.parametrize(
    ("path", "module"),
    [("Brain/a.md", "brain"), ("Daily/x/a.md", "daily"), ("chat/a.md", "chat"), ("a.md", "vault")],
)
def test_whose_note_it_is_is_distinguished_from_its_folder(path, module):
    assert (check_target(path), module_of(path)) == (path, module)
