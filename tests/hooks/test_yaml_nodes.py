"""Document: YAML and JSON as texts that know their lines, whatever a person pastes."""

from __future__ import annotations

import json

import pytest

from parachuted.hooks.yaml_nodes import DocumentRefusedError, read_document


def plain(text: str) -> object:
    node = read_document(text)
    return None if node is None else node.plain()


def test_all_scalars_are_the_text_they_were():
    text = "on: yes\nat: 10:30\nn: 010\nnothing: ~\nquoted: '~'\n"

    assert plain(text) == {"on": "yes", "at": "10:30", "n": "010", "nothing": None, "quoted": "~"}


def test_every_value_knows_the_line_of_its_key_or_its_dash():
    node = read_document(
        "hooks:\n  a.b:\n    - type: command\n      command: x\n\n    - {type: http}\n"
    )

    assert node is not None
    (_, hooks), *_ = node.entries or ()
    (_, listed), *_ = hooks.entries or ()
    assert (hooks.line, listed.line, [item.line for item in listed.items or ()]) == (1, 2, [3, 6])


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_nothing_is_nothing(text: str):
    assert plain(text) is None


AWKWARD = {
    "hooks": {
        "Stop": [
            {
                "command": 'say "hi" / \\ \t \n é 🎉 \u2028',
                "n": 1.5,
                "t": True,
                "none": None,
                "empty": [],
                "o": {},
            }
        ]
    }
}


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_is_read_as_json_would_be(indent: int | str | None, *, ascii_only: bool):
    text = json.dumps(AWKWARD, indent=indent, ensure_ascii=ascii_only).replace("/", "\\/")

    (hook,) = plain(text)["hooks"]["Stop"]  # type: ignore[index]
    assert hook["command"] == AWKWARD["hooks"]["Stop"][0]["command"]
    assert (hook["n"], hook["t"], hook["none"], hook["empty"], hook["o"]) == (
        "1.5",
        "true",
        None,
        [],
        {},
    )


def test_json_without_a_space_in_it_and_with_a_mark_of_its_encoding_is_read():
    assert plain('\ufeff{"hooks":{"Stop":[{"command":"x"}]}}') == {
        "hooks": {"Stop": [{"command": "x"}]}
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c\n", r"line 1: it is not YAML"),
        ("a:\n  - b\n c: d\n", r"line 3: it is not YAML"),
        ("a: [1, 2\n", r"line 2: it is not YAML"),
        ("a: &x b\nc: *x\n", r"alias"),
        ("a: b\n---\nc: d\n", r"more than one YAML document"),
        ("[" * 100 + "]" * 100, r"nested more than"),
        ("a: " + "x" * 70_000, r"larger than 64 KB"),
        ("? [a]\n: b\n", r"line 1: a key should be a word"),
        ("a: \x07\n", r"not YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, words: str):
    with pytest.raises(DocumentRefusedError, match=words) as refused:
        read_document(text)
    assert "frontmatter" not in str(refused.value)
