"""Scalars: what is written is read back as the same text by readers of YAML 1.1, and quoted only
where it must be.
"""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError
from parachuted.vault.bounded_yaml import (
    is_bare,
    json_scalar,
    kind_of,
    read_events,
    read_value,
    write_key,
    write_scalar,
)

WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30
) | st.text("ab 01:.-+#'\"[]{},&*!|>%@`?\\~\n\t=<_/eExoyn\x85\u2028\ufeff", max_size=12)


@pytest.mark.parametrize(
    "text", ["active", "Projects/*", "../", "./a", "two words", "a - b", "it's", "C#", "a:b", "a,b"]
)
def test_a_text_that_all_readers_take_for_text_is_not_quoted(text):
    for bare in (text, f"é 🎉 {text}"):
        assert is_bare(bare)
        assert write_scalar(bare) == bare


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "true",
            "No",
            "on",
            "y",
            "N",
            "null",
            "~",
            "1",
            "-1.5",
            "1e3",
            "0o17",
            "0x1F",
            "1_000",
            "10:30",
            "2026-02-24",
            ".inf",
        ),
        *(
            "=",
            "<<",
            "*",
            "*.md",
            "!Archive",
            "&a",
            "@x",
            "`x`",
            "%x",
            "- x",
            "? x",
            "a: b",
            "a:",
            "a #b",
            "#tag",
            "[[Note]]",
            "{{date}}",
        ),
        *(
            "| x",
            "> x",
            ".nan",
            "'x",
            '"x',
            " x",
            "x ",
            "a\nb",
            "a\tb",
            "\ufeffx",
            "a\x85b",
            "a\u2028b",
            "---",
            "a --- b",
        ),
    ],
)
def test_a_text_that_some_reader_takes_for_something_else_is_quoted(text):
    assert write_scalar(text)[0] in "'\""


@given(WORDS)
def test_a_written_text_reads_back_as_it_was_and_holds_no_frontmatter_end(text):
    written = write_scalar(text)

    assert "---" not in written
    assert "\n" not in written
    assert read_value(read_events(f"k: {written}\n"))[0] == {"k": text}
    assert read_value(read_events(f"- {written}\n"))[0] == [text]
    assert yaml.safe_load(f"k: {written} # c\n") == {"k": text}


@given(WORDS.filter(bool))
def test_a_written_key_reads_back_as_it_was(name):
    written = write_key(name)

    assert "---" not in written
    assert yaml.safe_load(f"{written}: v\n") == {name: "v"}


@given(st.booleans() | st.integers() | st.floats(allow_nan=False))
def test_a_number_or_a_truth_is_written_so_that_it_stays_one(value):
    read = yaml.safe_load(write_scalar(value))

    assert read == value
    assert type(read) is type(value)


def test_dashes_and_quotes_are_written_so_that_they_are_read():
    assert write_scalar("a ---- b") == '"a --\\x2D- b"'
    assert write_scalar('"x" \\ y: z') == "'\"x\" \\ y: z'"
    assert math.isnan(yaml.safe_load(write_scalar(math.nan)))


@pytest.mark.parametrize(
    ("write", "value"),
    [
        *((write_scalar, value) for value in ("a\0b", "a\ud800", 10**5000)),
        *((write_key, name) for name in ("", "a\0b", "a\udfff")),
    ],
    ids=["nul", "surrogate", "digits", "no key", "nul in a key", "surrogate in a key"],
)
def test_what_yaml_cannot_hold_is_refused(write, value):
    with pytest.raises(EditRefusedError):
        write(value)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *(
            ("true", "boolean"),
            ("No", "boolean"),
            ("12", "number"),
            ("1.5", "number"),
            ("0o7", "number"),
            ("10:30", "number"),
        ),
        *(
            ("", "null"),
            ("~", "null"),
            ("null", "null"),
            ("2026-02-24", "date"),
            ("word", "text"),
            ("../", "text"),
            (".", "text"),
        ),
    ],
)
def test_the_kind_of_a_bare_word_is_known(word, kind):
    assert kind_of(word) == kind


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("3", 3),
        ("-12", -12),
        ("0.5", 0.5),
        ("1e+16", 1e16),
    ],
)
def test_a_word_that_all_take_for_a_value_is_that_value_in_json(word, meant):
    found = json_scalar(word)

    assert (found, type(found)) == (meant, type(meant))


@pytest.mark.parametrize(
    "word",
    [
        *("yes", "No", "1.10", "007", "+3", "1_000", "0x1f", "12:30", "2026-01-02", ".nan", ".inf"),
        *("9" * 20, "9" * 5000, "1e999", "\u0661", "para:brain:12e4", "-", ".", "true ", "nil"),
    ],
)
def test_a_word_that_would_not_be_written_so_stays_what_it_is(word):
    assert json_scalar(word) is word


@given(WORDS)
def test_no_word_is_lost_by_what_it_means(word):
    found = json_scalar(word)

    if isinstance(found, int | float) and not isinstance(found, bool):
        assert str(found) == word
