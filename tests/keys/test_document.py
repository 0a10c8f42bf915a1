from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.keys.document import read_document, write_document

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (1 if isinstance(value, dict | list) else 0) + max(map(depth, inner), default=0)


@given(VALUES.filter(lambda value: depth(value) < 8))
def test_what_is_written_is_read_as_the_same(value):
    assert read_document(write_document(value)) == value


def test_everything_is_a_text_or_nothing():
    assert read_document("a: 2026-01-01\nb: no\nc: 010\nd:\ne: ~\nf: 'null'\n") == {
        "a": "2026-01-01",
        "b": "no",
        "c": "010",
        "d": None,
        "e": None,
        "f": "null",
    }
    assert read_document("\n") is None


@pytest.mark.parametrize("text", ["", "a: 1", "---\na: 1\n", "---\n", "---\na: 1\n..."])
def test_what_is_cut_off_is_refused(text):
    with pytest.raises(ValueError, match="cut off"):
        read_document(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not YAML"),
        ("a: b: c", "not YAML"),
        ("a: \x01", "not YAML"),
        ("[" * 50_000, "too deep"),
        ("{a: " * 9 + "}" * 9, "too deep"),
        ("a: &x 1\nb: *x", "alias"),
        ("a\n--- b", "more than one"),
        ("a: 1\na: 2\n", "stands twice"),
        ("[a]: 1", "no text"),
    ],
)
def test_what_is_no_plain_document_is_refused_with_the_reason(text, why):
    with pytest.raises(ValueError, match=why):
        read_document(f"{text}\n")
