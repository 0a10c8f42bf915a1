from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from parachuted.cli.show import escape, say, say_diff, say_json, say_table, say_text, when


def test_what_steers_a_terminal_is_shown_and_not_sent():
    steering = "\x1b[31m\r\0\x7f\x9b\u2028\u202e\u2066\u200f"
    spelled = "\\x1b[31m\\x0d\\x00\\x7f\\x9b\\u2028\\u202e\\u2066\\u200f"
    assert escape(steering) == spelled
    plain = "h\xe9llo \u65e5\u672c \U0001f469\u200d\U0001f33e\ta\nb"
    assert escape(plain) == plain
    assert escape("b\udcff") == "b\\udcff"
    every = (*range(0x3000), *range(0xD800, 0xE000))
    passed = {shown for code in every if len(shown := escape(chr(code))) == 1}
    unsafe = {text for text in passed if unicodedata.category(text) in {"Cc", "Cs", "Zl", "Zp"}}
    assert unsafe == {"\n", "\t"}


def test_a_table_has_columns_under_their_heads(capsys):
    rows = [{"a": "a", "b": ["long", "one"], "c": None}, {"a": "b\nb", "b": 0, "c": True}]
    say_table(rows, {"A": "a", "B": "b", "C": lambda row: row["c"]})
    assert capsys.readouterr().out == "A    B          C\na    long, one\nb b  0          yes\n"
    say_table([], {"A": "a"}, nothing="Nothing.")
    assert capsys.readouterr().out == "Nothing.\n"


def test_json_is_ascii_and_can_be_read_back(capsys):
    value = {"a": ["\x1b", "\udcff", "\xe9", None, 1.5]}
    say_json(value)
    said = capsys.readouterr().out

    assert said.isascii()
    assert json.loads(said) == value


@pytest.mark.parametrize("where", ["a program", "a terminal", "a terminal without colours"])
def test_a_diff_has_colours_on_a_terminal_unless_they_are_not_wanted(capsys, monkeypatch, where):
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\x0cline\n+new\x1b[2J\u2028line\n same\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: where != "a program")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if "without" in where:
        monkeypatch.setenv("NO_COLOR", "1")
    say_diff(diff)
    said = capsys.readouterr().out

    if where == "a terminal":
        assert "  \x1b[32m+new\\x1b[2J\\u2028line\x1b[0m\n" in said
        assert said.count("\x1b") == 10
    else:
        lines = ["--- a/x", "+++ b/x", "@@ -1 +1 @@", "-old\\x0cline"]
        lines += ["+new\\x1b[2J\\u2028line", " same"]
        assert said.splitlines() == [f"  {line}" for line in lines]


def test_a_line_break_in_what_is_said_begins_no_line(capsys):
    say("run: changed - all well\nproblem  forged\r\nagain\x07")
    say("\nA paragraph.\n")
    say()
    say_text("two\nlines\n\nof an answer")

    forged = "run: changed - all well problem  forged again\\x07\n"
    rest = "\nA paragraph.\n\n\ntwo\nlines\n\nof an answer\n"
    assert capsys.readouterr().out == forged + rest
    assert [when("2026-02-24T12:00:01.5+00:00"), when(None)] == ["2026-02-24 12:00:01", ""]
