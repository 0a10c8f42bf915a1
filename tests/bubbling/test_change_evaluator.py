"""Weighing: what a change comes to for one who watches, worked out once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.bubbling import PendingChange, PendingChanges
from parachuted.bubbling.pending_changes import ChangeEvaluator, Evaluation, WatchedChange
from parachuted.bubbling.trie import WatchMatch
from parachuted.bubbling.watches import store_texts
from parachuted.events import Change
from parachuted.state import open_state
from parachuted.vault import Author, IndexEntry, ObjectStore, VaultPath, VaultRoot, digest_of

A, B, C = b"# A\n\n- one\n", b"# A\n\n- two\n", b"# A\n\n- three\n"
FRESH = PendingChange(watcher="", path="", base=None, since=datetime(2026, 1, 5, 12, 0, tzinfo=UTC))
W = WatchMatch(watcher="w.md", patterns=())


class CountingObjects(ObjectStore):
    """Objects that tell how often they are read."""

    reads = 0

    def get(self, digest: str) -> bytes | None:
        self.reads += 1
        return super().get(digest)


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[CountingObjects]:
    objects = CountingObjects(tmp_path / "objects")
    objects.see([(digest_of(text), text) for text in (A, B, C)])
    yield objects
    objects.close()


@pytest.fixture
def reviews(tmp_path: Path) -> PendingChanges:
    return PendingChanges(open_state(tmp_path / "state.db"))


@pytest.fixture
def evaluator(tmp_path: Path, objects: ObjectStore, reviews: PendingChanges) -> ChangeEvaluator:
    return ChangeEvaluator(VaultRoot(tmp_path), objects, reviews)


def entry(text: bytes) -> IndexEntry:
    return IndexEntry(1, 1, len(text), 1, digest_of(text))


def change(
    old: bytes | None, new: bytes | None, *, source: str | None = None, data: bytes | None = None
) -> Change:
    return Change(
        kind="moved" if source else "modified",
        path=VaultPath("a.md"),
        old=None if old is None else entry(old),
        new=None if new is None else entry(new),
        author=Author(by="person", causes=("c1",)),
        source=VaultPath(source) if source else None,
        data=data,
    )


@pytest.fixture
def evaluate(evaluator: ChangeEvaluator) -> Callable[..., Evaluation]:
    def evaluate(one: Change, *, path: str = "a.md", source: str | None = None) -> Evaluation:
        touched = WatchedChange(
            change=one,
            path=VaultPath(path),
            match=W,
            source=VaultPath(source) if source else None,
        )
        (weighed,) = evaluator.evaluate([touched], FRESH)
        return weighed

    return evaluate


def seen(base: bytes, path: str = "a.md", **more: object) -> PendingChange:
    """What the watcher has seen of a file."""
    return replace(FRESH, watcher="w.md", path=path, base=digest_of(base), **more)


def test_a_first_difference_begins_at_the_text_before(evaluate):
    weighed = evaluate(change(A, B))

    assert weighed.known is None
    assert weighed.review == seen(A)
    assert weighed.wakes


@pytest.mark.parametrize(("old", "new"), [(None, B), (A, None)])
def test_what_comes_and_what_goes_is_a_difference(evaluate, old: bytes | None, new: bytes | None):
    assert evaluate(change(old, new)).wakes


def test_what_means_nothing_is_none(evaluate):
    weighed = evaluate(change(A, A + b"\n\n", data=A + b"\n\n"))

    assert (weighed.review, weighed.wakes) == (None, False)


def test_a_difference_that_is_open_is_compared_with_what_was_seen(
    evaluate, reviews: PendingChanges
):
    known = seen(A)
    reviews.open(known)

    again = evaluate(change(B, C))
    assert (again.known, again.review, again.wakes) == (known, known, True)
    assert evaluate(change(B, A)).review is None
    white = evaluate(change(B, B + b"\n", data=B + b"\n"))
    assert (white.review, white.wakes) == (known, False)


def test_what_an_agent_looks_at_counts_as_seen(evaluate, reviews: PendingChanges):
    reviews.look_at(seen(A), digest_of(B))

    assert evaluate(change(B, A)).review is not None
    assert evaluate(change(C, B)).review is None


def test_a_text_that_is_not_kept_may_mean_anything(evaluate):
    lost = b"# Lost\n"

    assert evaluate(change(lost, B)).wakes
    assert evaluate(change(A, lost)).wakes


def test_a_moved_file_goes_on_from_where_it_was_seen_last(evaluate, reviews: PendingChanges):
    reviews.look_at(seen(A, "old.md", asked=True), digest_of(B))
    weighed = evaluate(change(B, B, source="old.md"), source="old.md")

    assert weighed.review == seen(A, source="old.md", asked=True)
    assert weighed.wakes


def test_a_moved_file_that_holds_nothing_of_interest_is_not_a_difference(evaluate):
    moved = change(b"\n", b"\n", source="old.md", data=b"\n")

    assert evaluate(moved, source="old.md").review is None


def test_of_a_move_who_watched_one_place_only_sees_a_file_come_or_go(evaluate):
    moved = change(A, A, source="old.md")
    came, went = evaluate(moved), evaluate(moved, path="old.md")

    assert (came.review.base, came.review.source) == (None, None)
    assert (went.review.base, went.review.path) == (digest_of(A), "old.md")


def test_a_text_is_read_and_parsed_once_for_all_who_watch_it(
    evaluator: ChangeEvaluator, objects: CountingObjects
):
    one = change(A, B)
    matches = [WatchMatch(watcher=f"w{number}.md", patterns=()) for number in range(100)]
    touched = [WatchedChange(change=one, path=one.path, match=match) for match in matches]
    evaluator.evaluate(touched, FRESH)

    assert objects.reads == 2


def test_the_new_text_is_kept_for_the_next_difference(
    evaluate, objects: ObjectStore, tmp_path: Path
):
    at_hand, on_disk, newer = b"# At hand\n", b"# On disk\n", b"# Newer\n"
    evaluate(change(A, at_hand, data=at_hand))
    (tmp_path / "a.md").write_bytes(on_disk)
    evaluate(change(A, on_disk))
    evaluate(change(A, newer))

    assert [objects.get(digest_of(text)) for text in (at_hand, on_disk, newer)] == [
        at_hand,
        on_disk,
        None,
    ]


def test_a_text_too_large_to_keep_is_not_kept(tmp_path: Path, objects: ObjectStore):
    large = b"x" * ((4 << 20) + 1)
    texts = [(VaultPath("a.md"), digest_of(large), large), (VaultPath("b.md"), None, None)]
    store_texts(VaultRoot(tmp_path), objects, texts)

    assert digest_of(large) not in objects
