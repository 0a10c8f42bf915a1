"""Wording: mistakes are described in our words, and what was sent is not repeated."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from parachuted.modules.registry.wording import mistakes_in


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (int, "secret", "should be a whole number"),
        (int, 1.5, "should be a whole number"),
        (float, "secret", "should be a number"),
        (bool, "secret", "should be true or false"),
        (str, 7, "should be a text"),
        (list[int], "secret", "should be a list"),
        (dict[str, int], "secret", "should be a mapping"),
        (Literal["a", "b"], "secret", "should be one of a, b"),
    ],
)
def test_each_mistake_is_said_in_our_words(kind, value, says):
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(value)

    assert [sentence for _, _, sentence in mistakes_in(raised.value)] == [says]


def test_each_has_its_place():
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(dict[str, list[int]]).validate_python({"a": [1, "x"], "b": ["y"]})

    assert [place for place, _, _ in mistakes_in(raised.value)] == [("a", 1), ("b", 0)]
