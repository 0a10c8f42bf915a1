from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from parachuted.cli.show import escape, say, say_diff, say_json, say_table, say_text, when


def test_what_steers_a_terminal_is_shown_and_not_sent():
    assert (
        escape("\x1b[31m\r\0\x7f\x9b\u2028\u202e\u2066\u200f")
        == "\\x1b[31m\\x0d\\x00\\x7f\\x9b\\u2028\\u202e\\u2066\\u200f"
    )
    assert (
        escape("h\xe9llo \u65e5\u672c \U0001f469\u200d\U0001f33e\ta\nb")
        == "h\xe9llo \u65e5\u672c \U0001f469\u200d\U0001f33e\ta\nb"
    )
    assert escape("b\udcff") == "b\\udcff"


def test_no_control_character_and_no_surrogate_passes():
    passed = {escape(chr(code)) for code in range(0x3000)} | {
        escape(chr(code)) for code in range(0xD800, 0xE000)
    }

    assert {
        text
        for text in passed
        if len(text) == 1 and unicodedata.category(text) in {"Cc", "Cs", "Zl", "Zp"}
    } == {"\n", "\t"}


def test_a_table_has_columns_under_their_heads(capsys):
    say_table([("a", "long one", ""), ("bbb", "x", "y")], ("A", "B", "C"), nothing="none")
    assert capsys.readouterr().out == "A    B         C\na    long one\nbbb  x         y\n"
    say_table([], ("A",), nothing="Nothing.")
    assert capsys.readouterr().out == "Nothing.\n"


def test_json_is_ascii_and_can_be_read_back(capsys):
    value = {"a": ["\x1b", "\udcff", "\xe9", None, 1.5]}
    say_json(value)
    said = capsys.readouterr().out

    assert said.isascii()
    assert json.loads(said) == value


DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\x0cline\n+new\x1b[2J\u2028line\n same\n"


def test_a_diff_is_plain_where_it_is_not_a_terminal(capsys):
    say_diff(DIFF)
    assert (
        capsys.readouterr().out
        == "  --- a/x\n  +++ b/x\n  @@ -1 +1 @@\n  -old\\x0cline\n  +new\\x1b[2J\\u2028line\n   "
        "same\n"
    )


@pytest.mark.parametrize("no_colour", [False, True])
def test_a_diff_has_colours_on_a_terminal_unless_they_are_not_wanted(
    capsys, monkeypatch, no_colour
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_colour:
        monkeypatch.setenv("NO_COLOR", "1")
    say_diff(DIFF)
    said = capsys.readouterr().out

    assert ("  \x1b[32m+new\\x1b[2J\\u2028line\x1b[0m\n" in said) is not no_colour
    assert said.count("\x1b") == (0 if no_colour else 10)


def test_lines_and_times_are_said_as_people_read_them(capsys):
    say("a b\x07")
    say()
    assert capsys.readouterr().out == "a b\\x07\n\n"
    assert [when("2026-02-24T12:00:01.5+00:00"), when(None)] == ["2026-02-24 12:00:01", ""]


def test_a_line_break_in_what_is_said_begins_no_line(capsys):
    say("run: changed - all well\nproblem  forged\r\nagain")
    say("\nA paragraph.\n")
    say()
    say_text("two\nlines\n\nof an answer")

    assert (
        capsys.readouterr().out
        == "run: changed - all well problem  forged again\n\nA paragraph.\n\n\ntwo\nlines\n\nof "
        "an answer\n"
    )
