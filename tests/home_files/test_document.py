"""Document: YAML as texts that know their lines, and what is not read."""

from __future__ import annotations

import pytest

from parachuted.home_files import YamlRejectedError, read_document


def plain(text: str, *, is_strict: bool = False) -> object:
    node = read_document(text, is_strict=is_strict)
    return None if node is None else node.plain()


def test_all_scalars_are_the_text_they_were():
    text = "on: yes\nat: 10:30\nn: 010\nday: 2026-01-01\nnone: ~\nempty:\nquoted: '~'\n"

    assert plain(text) == {
        "on": "yes",
        "at": "10:30",
        "n": "010",
        "day": "2026-01-01",
        "none": None,
        "empty": None,
        "quoted": "~",
    }


def test_every_value_knows_the_line_of_its_key_or_its_dash():
    node = read_document(
        "hooks:\n  a.b:\n    - type: command\n      command: x\n\n    - {type: http}\n"
    )

    assert node is not None
    (_, hooks), *_ = node.entries or ()
    (_, listed), *_ = hooks.entries or ()
    assert (hooks.line, listed.line, [item.line for item in listed.items or ()]) == (1, 2, [3, 6])


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_a_text_without_a_value_is_nothing(text):
    assert plain(text) is None


def test_a_block_text_that_begins_with_a_tab_and_an_encoding_mark_are_read():
    assert plain("\ufeffa: |\n  \tb\n") == {"a": "\tb\n"}


def test_of_a_repeated_key_the_last_counts_unless_it_is_refused():
    assert plain("a: 1\na: 2\n") == {"a": "2"}
    with pytest.raises(YamlRejectedError, match=r"line 3: the key 'b' is repeated"):
        plain("a:\n  b: 1\n  b: 2\n", is_strict=True)


@pytest.mark.parametrize("text", ["", "a: 1", "---\na: 1\n", "---\n", "---\na: 1\n..."])
def test_what_may_have_been_cut_off_is_refused_where_it_gives_rights(text):
    with pytest.raises(YamlRejectedError, match="cut off"):
        plain(text, is_strict=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c\n", r"line 1: it is not YAML"),
        ("a:\n  - b\n c: d\n", r"line 3: it is not YAML"),
        ("a: [1, 2\n", r"line 2: it is not YAML"),
        ("a: &x b\nc: *x\n", r"line 2: it uses an alias: put '\*x' in quotes"),
        ("a: *\n", r"put a text that begins with \* in quotes"),
        ("a: b\n---\nc: d\n", r"more than one YAML document"),
        ("[" * 100 + "]" * 100, r"nested more than"),
        ("a: " + "x" * 70_000, r"larger than 64 KB"),
        ("? [a]\n: b\n", r"line 1: a key should be a word"),
        ("a: \x07\n", r"not YAML"),
        ("a: 1\n<<: {b: c}\n", r"line 2: it merges mappings"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, words: str):
    with pytest.raises(YamlRejectedError, match=words):
        read_document(text)
