"""Anyone who approves a text sees all of it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.texts.visible import (
    _columns_of,
    fact,
    is_ignorable,
    one_line,
    quoted,
    quoted_lines,
    visible,
    wrapped,
)

_PERL = (
    r'for (0..0x10FFFF) { next if $_ >= 0xD800 && $_ <= 0xDFFF; print "$_ " if chr($_) =~ '
    r"/\p{Default_Ignorable_Code_Point}/ }"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, naïve, 日本語 😀", "plain, naïve, 日本語 😀"),
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("a\r\nb", "a\\x0d\\x0ab"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("in\u200bvisible\ufeff", "in\\u200bvisible\\ufeff"),
        ("a\u00a0b\u3000c", "a\\xa0b\\u3000c"),
        ("\u3164\ufe0f\U000e0041", "\\u3164\\ufe0f\\U000e0041"),
        ("\udcff", "\\udcff"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_hides_is_spelled_out(text, shown):
    assert visible(text) == shown


def test_what_is_asked_for_is_kept():
    assert visible("a\tb\nc\r", keep="\t\n") == "a\tb\nc\\x0d"


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl has the property, Python does not")
def test_the_table_of_ignorable_characters_is_that_of_unicode():
    reported = subprocess.run(
        ["perl", "-CS", "-e", _PERL], capture_output=True, check=True, timeout=60
    ).stdout

    assert [number for number in map(int, reported.split()) if not is_ignorable(chr(number))] == []


FALSE_LINES = (
    " " * 200
    + "digest      sha256:0"
    + "\n\n\n\n"
    + "\u2800" * 160
    + "Approve?\u3000" * 80
    + "\r\x1b[2J"
    + "e\u0301\u0301\u0301\u0301\u0301"
)


def test_blanks_are_one_blank_and_what_is_stacked_or_hidden_is_spelled():
    assert one_line("a \t b\n\n c\u2028d\xa0e") == "a b c d e"
    assert one_line("x" + "\u0301" * 5) == "x" + "\u0301" * 3 + "\\u0301" * 2
    assert one_line("\u0301x") == "\\u0301x"
    assert one_line("\u202eabc\u2800") == "\\u202eabc\\u2800"
    assert one_line("a" * 10, most=4) == "aaaa... (6 more characters)"


@given(st.text(max_size=400) | st.just(FALSE_LINES), st.integers(20, 200))
def test_no_text_of_a_stranger_begins_a_line_on_a_screen_of_any_width(text, columns):
    lines = wrapped(quoted("says", text), columns)

    assert lines[0].startswith("says      | ")
    assert [line for line in lines[1:] if not line.startswith("          | ")] == []
    assert [line for line in lines if sum(map(_columns_of, line)) >= max(columns, 30)] == []
    assert [line for line in lines if "\n" in line or not line.isprintable()] == []
    assert len("".join(lines)) < 300 * 12 * 2


def test_long_lines_are_parted_at_blanks():
    line = quoted("tool", "recall: find what the vault says by name or words of a question")

    assert wrapped(line, 48) == [
        "tool      | recall: find what the vault says by",
        "          | name or words of a question",
    ]
    assert wrapped(f"{'a' * 40} {'b' * 40}", 30) == [
        "a" * 29,
        f"{' ' * 12}{'a' * 11}",
        f"{' ' * 12}{'b' * 17}",
        f"{' ' * 12}{'b' * 17}",
        f"{' ' * 12}{'b' * 6}",
    ]


@given(st.text(" \u4e00a", max_size=200), st.integers(30, 60))
def test_a_line_in_pieces_loses_blanks_alone_and_fits_its_screen(text, columns):
    pieces = wrapped(f"  | {text}", columns)

    assert [piece for piece in pieces if sum(map(_columns_of, piece)) >= columns] == []
    assert "".join(piece[4:] for piece in pieces).replace(" ", "") == text.replace(" ", "")


@given(st.text(max_size=400))
def test_lines_of_a_note_are_each_marked(text):
    pieces = [piece for line in quoted_lines(text, 20) for piece in wrapped(line, 60)]

    assert [
        piece for piece in pieces if not piece.startswith("  |") and "more lines)" not in piece
    ] == []


def test_a_line_of_ours_is_distinguished_from_a_quoted_one():
    assert (fact("runs", "here"), quoted("says", "here")) == (
        "runs        here",
        "says      | here",
    )
    assert quoted_lines("a\nb\nc\n", 2) == ["  | a", "  | b", "(1 more lines)"]
