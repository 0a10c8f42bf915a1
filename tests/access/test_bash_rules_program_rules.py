"""Program rules: a table of them is in test_bash_rules.py; here, that options are known in all
their spellings.
"""

from __future__ import annotations

import pytest

from parachuted.access.bash_rules import check_program
from parachuted.access.shell_word import ShellRefusedError, Word


def word(text: str, *, sure: bool = True) -> Word:
    return Word(text=text if sure else None, begins=text, is_one=True, is_plain=True)


@pytest.mark.parametrize(
    "given",
    [
        word("--exec"),
        word("--exec=rm"),
        word("--exe"),
        word("--e"),
        word("--ex", sure=False),
        word("-x"),
        word("-ix"),
        word("-", sure=False),
    ],
)
def test_an_option_is_itself_however_it_is_written(given):
    with pytest.raises(ShellRefusedError):
        check_program("git", [word("rebase"), given])


@pytest.mark.parametrize(
    "given",
    [
        word("--onto"),
        word("main"),
        word("-i"),
        word("x"),
        word("a", sure=False),
        word("--format=", sure=False),
    ],
)
def test_other_options_are_others(given):
    check_program("git", [word("rebase"), given])


def test_after_two_dashes_all_are_names():
    check_program("git", [word("rebase"), word("--"), word("--exec")])


def test_a_program_without_rules_is_its_own_affair():
    check_program("cat", [word("--exec")])
