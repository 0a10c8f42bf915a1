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
    assert acts_of(held, held, lambda _path: True) == []


def test_what_moved_and_what_may_only_not_have_been_seen():
    def acts(held: dict[str, str], found: dict[str, str]) -> list[tuple[str, str | None, str]]:
        made = acts_of(held, found, lambda path: not path.startswith("unseen/"))
        return [(act.kind, act.source, act.path) for act in made]

    assert acts({"unseen/x.md": "1", "b.md": "2"}, {}) == [("delete", None, "b.md")]
    assert acts({"a.md": "1"}, {"b.md": "1"}) == [("move", "a.md", "b.md")]
    copies = acts({"a.md": "1"}, {"b.md": "1", "c.md": "1"})  # no one says which moved
    assert [kind for kind, _, _ in copies] == ["delete", "create", "create"]


@pytest.mark.parametrize(
    ("held", "found", "kinds"),
    [(0, 201, ["create"]), (0, 200, []), (40, 1, ["delete"]), (20, 0, []), (300, 199, ["delete"])],
)
def test_a_tree_that_was_unpacked_or_swept_away_is_not_taken_for_notes(
    held: int, found: int, kinds: list[str]
):
    before, after = ({str(one): str(one) for one in range(most)} for most in (held, found))
    assert list(too_many(acts_of(before, after, lambda _path: True), held)) == kinds


def test_what_is_reported_is_bounded():
    words = CheckinResult(refused=[(f"{number}.md", "no") for number in range(1_000)]).words()
    assert "(and 980 more that were not written)" in words
    assert len(words.splitlines()) == 21
