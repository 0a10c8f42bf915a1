"""Pasted JSON: it is read as JSON would be, also where YAML spells it otherwise."""

from __future__ import annotations

import json

import pytest

from parachuted.home_files import read_document
from parachuted.hooks.settings import json_as_yaml


def plain(text: str) -> object:
    node = read_document(json_as_yaml(text))
    return None if node is None else node.plain()


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


@pytest.mark.parametrize("text", ["", "hooks:\n\tx", "{a: b}\n", '{"a": \n'])
def test_what_is_not_json_is_left_as_it_is(text: str):
    assert json_as_yaml(text) == text
