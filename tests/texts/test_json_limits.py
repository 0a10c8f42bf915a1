"""JSON limits: what holds too much is found without being parsed, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as some

from parachuted.texts import json_limits
from parachuted.texts.json_limits import check_json

TEXTS = some.text(some.sampled_from('\\"[]{},:a\n\u00fc'), max_size=8)
VALUES = some.recursive(
    some.none() | some.integers() | TEXTS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def separators(value: object) -> int:
    """How many lists, objects and commas there are: what is counted."""
    inner = (
        list(value.values())
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list)
        else None
    )
    return 0 if inner is None else 1 + max(len(inner) - 1, 0) + sum(map(separators, inner))


def depth(value: object) -> int:
    inner = (
        list(value.values())
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list)
        else None
    )
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def refused(data: bytes, **limits: int) -> bool:
    try:
        check_json(data, **limits)
    except ValueError:
        return True
    return False


@given(value=VALUES, piece=some.integers(2, 40), is_ascii=some.booleans())
def test_it_counts_what_is_there_wherever_its_pieces_end(value: object, piece: int, is_ascii: bool):  # noqa: FBT001
    data = json.dumps(value, ensure_ascii=is_ascii).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_limits, "_PIECE", piece)
        holds, deep = separators(value) + 1, depth(value)
        assert not refused(data, most_values=holds, most_depth=deep)
        assert refused(data, most_values=holds - 1, most_depth=deep)
        assert deep == 0 or refused(data, most_values=holds, most_depth=deep - 1)


@pytest.mark.parametrize(
    "data", [b"", b"\\", b'"', b'"\\', b"]]]]", b'"' * 100_000, b"\\" * 200_001, b"\xff" * 100_000]
)
def test_what_is_not_json_is_left_to_the_parser(data: bytes):
    check_json(data)


@pytest.mark.parametrize(
    "text", ["[" * 300_000, '\\"[' * 200_000, "," * 300_000, "\\" * 300_000 + '"{']
)
def test_a_text_may_hold_anything(text: str):
    check_json(json.dumps({"text": text}).encode())


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 1_000,
        b'{"a":' * 1_000,
        b"[" + b"[]," * 100_000,
        b"[" + b"1," * 100_000,
        b'{"a":"[",' * 100,
    ],
)
def test_what_holds_too_much_is_refused(bomb: bytes):
    assert refused(bomb)
