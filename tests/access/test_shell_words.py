"""Shell words: what a line of shell comes to, word by word.

That nothing hides from it is tested beside bash_rules.py.
"""

from __future__ import annotations

import pytest

from parachuted.access.shell_word import ShellRefusedError, Word
from parachuted.access.shell_words import Shell


def walked(line: str) -> tuple[list[list[str | None]], list[tuple[str, bool]], list[str]]:
    """The words of each command, the variables that are set, and the files that are opened."""
    commands: list[list[str | None]] = []
    variables: list[tuple[str, bool]] = []
    targets: list[str] = []

    def command(words: list[Word]) -> None:
        commands.append([word.text for word in words])

    def variable(name: str, follows: bool) -> None:  # noqa: FBT001  the seam's shape
        variables.append((name, follows))

    Shell(
        line, command=command, variable=variable, target=lambda word: targets.append(word.begins)
    ).walk()
    return commands, variables, targets


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a b  c", ["a", "b", "c"]),
        (r"""a 'b c' "d e" f\ g""", ["a", "b c", "d e", "f g"]),
        (r"""'a'"b"c\d""", ["abcd"]),
        (r'a "\$x \" \\ \n"', ["a", '$x " \\ \\n']),
        ("a $x ${y} *.md ~ {a,b}", ["a", None, None, None, None, None]),
        ("a HEAD~1 a=~", ["a", "HEAD~1", None]),
        ("a $ $+ b#c", ["a", "$", "$+", "b#c"]),
        ("a b # c d", ["a", "b"]),
        ('a ""', ["a", ""]),
        ("[ a ]", ["[", "a", "]"]),
        ("a\\\nb c", ["ab", "c"]),
    ],
)
def test_words_are_what_bash_makes_of_them(line, words):
    assert walked(line)[0] == [words]


def test_every_command_of_a_line_is_asked_for_the_inner_ones_first():
    commands, variables, targets = walked(
        "a $(b | c) && x=1 d > out <in & e; for f in 1 2; do g; done"
    )

    assert [words[0] for words in commands] == ["b", "c", "a", "d", "e", "g"]
    assert variables == [("x", True), ("f", False)]
    assert targets == ["out", "in"]


def test_texts_after_a_line_are_no_commands():
    assert walked("a <<'E' | b\nc $(d)\nE\ne")[0] == [["a"], ["b"], ["e"]]


@pytest.mark.parametrize(
    "line",
    [
        "a `b`",
        "a $((1))",
        "f() { a; }",
        "case a in b) c;; esac",
        "a ${b:-c}",
        "a '",
        'a "',
        "a )",
        "( a",
        "a \\",
    ],
)
def test_what_is_not_followed_is_refused(line):
    with pytest.raises(ShellRefusedError):
        walked(line)
