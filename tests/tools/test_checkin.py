"""Check-in: what was done to a copy, as acts, and which of them are anybody's to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.runs.checkout import CheckinResult, acts_of, too_many

TEXTS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123456"))


def done(held: dict[str, str], found: dict[str, str]) -> dict[str, str]:
    """What the vault holds when the acts are made in their order, each on what it says it was
    decided on.
    """
    vault = dict(held)
    for act in acts_of(held, found, lambda _path: True):
        if act.kind == "create":
            assert act.path not in vault
        else:
            assert vault[act.source or act.path] == act.base
        if act.kind == "move":
            assert act.path not in vault
        vault.pop(act.source or act.path, None)
        if act.digest is not None:
            vault[act.path] = act.digest
    return vault


@given(held=TEXTS, found=TEXTS)
def test_the_acts_make_of_what_was_held_what_was_found(held: dict[str, str], found: dict[str, str]):
    assert done(held, found) == found


@given(held=TEXTS)
def test_nothing_is_done_where_nothing_was_done(held: dict[str, str]):
    assert acts_of(held, held, lambda _path: True) == []


def test_what_may_only_not_have_been_seen_is_not_deleted():
    assert (
        acts_of({"a/x.md": "1", "b.md": "2"}, {}, lambda path: not path.startswith("a/"))[0].path
        == "b.md"
    )


def test_a_file_with_the_one_content_that_went_has_moved():
    (act,) = acts_of({"a.md": "1"}, {"b.md": "1"}, lambda _path: True)
    assert (act.kind, act.source, act.path) == ("move", "a.md", "b.md")


def test_of_copies_no_one_says_which_moved():
    assert [
        act.kind for act in acts_of({"a.md": "1"}, {"b.md": "1", "c.md": "1"}, lambda _path: True)
    ] == ["delete", "create", "create"]


@pytest.mark.parametrize(
    ("held", "found", "kinds"),
    [
        ({}, {f"{number}": f"{number}" for number in range(201)}, ["create"]),
        ({}, {f"{number}": f"{number}" for number in range(200)}, []),
        ({f"{number}": f"{number}" for number in range(40)}, {"0": "0"}, ["delete"]),
        ({f"{number}": f"{number}" for number in range(20)}, {}, []),
        (
            {f"{number}": f"{number}" for number in range(300)},
            {f"{number}": f"{number}" for number in range(199)},
            ["delete"],
        ),
    ],
)
def test_a_tree_that_was_unpacked_or_swept_away_is_not_taken_for_notes(
    held: dict[str, str], found: dict[str, str], kinds: list[str]
):
    assert list(too_many(acts_of(held, found, lambda _path: True), len(held))) == kinds


def test_what_is_reported_is_bounded():
    words = CheckinResult(refused=[(f"{number}.md", "no") for number in range(1_000)]).words()
    assert "(and 980 more that were not written)" in words
    assert len(words.splitlines()) == 21
