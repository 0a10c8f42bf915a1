"""Check-in: what was done to a copy, as acts, and which of them are anybody's to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.tools.checkin import (
    CheckinResult,
    acts_of,
    objection,
    too_many,
    twin_of,
)
from tests.tools.checkout_rig import GARDENER

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


def test_both_ends_of_a_move_must_be_its_own():
    (move,) = acts_of({"Projects/a.md": "1"}, {"Library/a.md": "1"}, lambda _path: True)
    (back,) = acts_of({"Library/a.md": "1"}, {"Projects/a.md": "1"}, lambda _path: True)
    (lane,) = acts_of({"Projects/a.md": "1"}, {"Daily/a.md": "1"}, lambda _path: True)

    assert objection(move, GARDENER) == objection(back, GARDENER) == "gardener may not write it"
    assert objection(lane, GARDENER) is None


def test_a_new_name_that_is_not_text_is_refused_and_one_that_a_person_gave_is_not():
    (create,) = acts_of({}, {"Daily/\udcff.md": "1"}, lambda _path: True)
    (update,) = acts_of({"Daily/\udcff.md": "1"}, {"Daily/\udcff.md": "2"}, lambda _path: True)

    assert objection(create, GARDENER) == "its name is not UTF-8 text"
    assert objection(update, GARDENER) is None


@pytest.mark.parametrize(
    ("path", "twin"),
    [
        ("Projects/Roof.md", "Projects/roof.md"),
        ("projects/x.md", "Projects"),
        ("Projects/caf\u0065\u0301.md", "Projects/caf\u00e9.md"),
        ("Projects/other.md", None),
        ("New/roof.md", None),
        ("Projects/roof.md", None),
    ],
)
def test_twins_are_found_on_every_part_of_the_way(path: str, twin: str | None):
    names = {"": ["Projects"], "Projects": ["roof.md", "caf\u00e9.md"]}
    assert twin_of(path, lambda folder: names.get(folder, ()), frozenset()) == twin


def test_what_is_reported_is_bounded():
    words = CheckinResult(refused=tuple((f"{number}.md", "no") for number in range(1_000))).words()
    assert "(and 980 more that were not written)" in words
    assert len(words.splitlines()) == 21
