"""Editing: one value changes, and what a person wrote around it stays."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.home_files import (
    REMOVED,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
)

LIMIT = 64 * 1024
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BY_HAND = """\
# mine
keys: # all of them
- id: a # the first
  uses: [x, y]
  note: |
    two
    lines
# the second
- {id: b, uses: []}
other: {a: 1, b: 'two'}
"""


def plain(text: str) -> object:
    node = read_document(text)
    return None if node is None else node.plain()


@example({"<<": None})
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_a_new_document_is_read_as_what_it_was_made_of(value):
    assert plain(new_document(value)) == value


@pytest.mark.parametrize(
    ("place", "values", "old", "new"),
    [
        (("keys", 0), {"id": "c d"}, "id: a ", "id: c d "),
        (("keys", 0), {"note": "x"}, "note: |\n    two\n    lines\n", "note: x\n"),
        (("keys", 0), {"note": REMOVED}, "  note: |\n    two\n    lines\n", ""),
        (("keys", 0), {"uses": ["p", "q: r"]}, " [x, y]", "\n  - p\n  - 'q: r'"),
        (("keys", 0, "uses"), {2: "z"}, "[x, y]", "[x, y, z]"),
        (("keys", 0), {"new": True}, "    lines\n", "    lines\n  new: true\n"),
        (("keys", 1), {"id": "c"}, "id: b", "id: c"),
        (("keys", 1, "uses"), {0: "x"}, "[]", "[x]"),
        (("keys",), {1: REMOVED}, "- {id: b, uses: []}\n", ""),
        (("keys",), {2: {"id": "c"}}, "uses: []}\n", "uses: []}\n- id: c\n"),
        (("other",), {"a": REMOVED, "c": "3"}, "{a: 1, b: 'two'}", "{b: 'two', c: 3}"),
        (("more", "deep"), {"a": "1"}, "'two'}\n", "'two'}\nmore:\n  deep:\n    a: 1\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_change_leaves_all_else_as_it_was_written(place, values, old, new, newline):
    before = BY_HAND.replace("\n", newline)

    after = edit_document(before, {place: values}, limit=LIMIT)

    assert BY_HAND.count(old) == 1
    assert after == BY_HAND.replace(old, new).replace("\n", newline)


@given(
    value=VALUES,
    place=st.sampled_from([(), ("keys", 0), ("keys", 1), ("other",), ("new",), ("new", "deep")]),
    key=st.sampled_from(["id", "uses", "note", "a", "b", "x"]),
)
def test_whatever_is_set_is_read_back_and_the_comments_stay(value, place, key):
    after = edit_document(BY_HAND, {place: {key: value}}, limit=LIMIT)

    found = plain(after)
    for name in place:
        found = found[name]
    assert found[key] == value
    assert [line for line in after.splitlines() if line.startswith("#")] == [
        "# mine",
        "# the second",
    ]


def test_the_last_of_a_list_leaves_an_empty_one():
    empty = edit_document("a:\n- b\nc: d\n", {("a",): {0: REMOVED}}, limit=LIMIT)
    assert plain(empty) == {"a": [], "c": "d"}


def test_the_comments_of_an_entry_that_goes_stay():
    text = "a:\n- b # beside\n# below\n- c\n# end\nd: e\n"

    assert edit_document(text, {("a",): {1: REMOVED, 7: REMOVED}}, limit=LIMIT) == (
        "a:\n- b # beside\n# below\n# end\nd: e\n"
    )
    assert edit_document(text, {("a",): {0: REMOVED}}, limit=LIMIT) == (
        "a:\n- c\n# end\nd: e\n# below\n"
    )


@pytest.mark.parametrize(
    ("before", "place", "key"),
    [
        ("a: text\n", ("a",), "b"),
        ("a: [1]\n", ("a",), "b"),
        ("a: 1\na: 2\n", (), "b"),
        ("a: !!binary x\n", (), "b"),
        ("a: !!null ''\n", (), "b"),
    ],
)
def test_a_text_that_allows_no_change_is_refused(before, place, key):
    with pytest.raises(YamlRejectedError):
        edit_document(before, {place: {key: "x"}}, limit=LIMIT)
