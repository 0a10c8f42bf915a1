"""Reviews: what each watcher has not seen, while it is looked at and after."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.bubbling import PendingChange, PendingChanges
from parachuted.errors import StorageFailedError
from parachuted.state import StateStore, open_state

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
REVIEW = PendingChange(watcher="w", path="a.md", base="d0", since=NOON)


@pytest.fixture
def reviews(state: StateStore) -> PendingChanges:
    return PendingChanges(state)


def test_what_is_open_is_reported_by_path_and_by_watcher(
    reviews: PendingChanges,
):
    other = replace(REVIEW, path="b.md", base=None)
    for review in (other, REVIEW, replace(REVIEW, watcher="v")):
        reviews.open(review)

    assert reviews.of("w") == [REVIEW, other]
    assert reviews.get("w", "b.md") == other
    assert reviews.watchers() == ["v", "w"]
    assert (reviews.has("w"), reviews.has("x")) == (True, False)
    for path in ("a.md", "a.md", "b.md"):
        reviews.close("w", path)
    assert (reviews.has("w"), reviews.get("w", "a.md")) == (False, None)


def test_a_restart_finds_it_all(reviews: PendingChanges, state: StateStore, tmp_path: Path):
    looked = reviews.look_at(replace(REVIEW, source="old.md", asked=True), "d1")
    reviews.open(replace(REVIEW, path="b.md"))
    state.close()

    again = PendingChanges(open_state(tmp_path / "state.db"))

    assert again.of("w") == [looked, replace(REVIEW, path="b.md")]
    assert again.looking("w") == [looked]


@pytest.mark.parametrize(
    ("looked", "now", "left"),
    [
        ("d1", "d1", []),  # seen
        ("d1", "d2", [replace(REVIEW, base="d1")]),  # what changed meanwhile stays open
        (None, "d1", [replace(REVIEW, base=None)]),  # gone, and back again
    ],
)
def test_what_was_looked_at_is_seen_unless_it_has_changed_since(
    reviews: PendingChanges, looked: str | None, now: str, left: list[PendingChange]
):
    reviews.open(REVIEW)
    review = reviews.look_at(REVIEW, looked)
    assert review.reviewing == (looked or "")
    reviews.saw(review, now, NOON)

    assert reviews.of("w") == left


def test_after_a_failure_the_difference_is_open_as_it_was(reviews: PendingChanges):
    reviews.open(REVIEW)
    reviews.give_up(reviews.look_at(REVIEW, "d1"))

    assert reviews.of("w") == [REVIEW]
    assert reviews.looking("w") == []


@pytest.mark.parametrize("how", ["saw", "give_up"])
def test_what_is_watched_no_more_at_the_end_is_not_opened_again(reviews: PendingChanges, how: str):
    reviews.open(REVIEW)
    looked = reviews.look_at(REVIEW, "d1")
    reviews.close_all("w")
    if how == "saw":
        reviews.saw(looked, "d2", NOON)
    else:
        reviews.give_up(looked)

    assert not reviews.has("w")


def test_a_persons_wish_during_the_work_stays_open(reviews: PendingChanges):
    reviews.open(REVIEW)
    looked = reviews.look_at(REVIEW, "d1")
    reviews.open(replace(looked, asked_again=True))
    reviews.saw(looked, "d1", NOON)

    assert reviews.of("w") == [replace(REVIEW, base="d1", asked=True)]


def test_only_what_is_watched_no_more_is_forgotten(reviews: PendingChanges):
    for path in ("a.md", "b.md", "c.md"):
        reviews.open(replace(REVIEW, path=path))
    reviews.close_all("w", ["b.md", "x.md"])

    assert [review.path for review in reviews.of("w")] == ["b.md"]


def test_a_watcher_takes_what_it_has_not_seen_along(reviews: PendingChanges):
    reviews.open(REVIEW)
    looked = reviews.look_at(REVIEW, "d1")
    reviews.rename("w", "v")

    assert reviews.of("v") == [replace(REVIEW, watcher="v")]
    reviews.saw(looked, "d1", NOON)
    assert reviews.watchers() == ["v"]


def test_every_text_that_is_still_needed_is_named(reviews: PendingChanges):
    reviews.open(replace(REVIEW, base=None))
    reviews.look_at(replace(REVIEW, path="b.md", base="d1"), "d2")
    reviews.look_at(replace(REVIEW, path="c.md", base="d3"), None)

    assert reviews.digests() == {"d1", "d2", "d3"}


def test_a_batch_that_is_undone_leaves_the_reviews_as_they_were(
    reviews: PendingChanges, state: StateStore
):
    reviews.open(REVIEW)

    def fail() -> None:
        with state.batch():
            reviews.close("w", "a.md")
            reviews.open(replace(REVIEW, path="b.md"))
            raise StorageFailedError

    with pytest.raises(StorageFailedError):
        fail()
    assert reviews.of("w") == [REVIEW]
