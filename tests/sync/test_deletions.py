from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from parachuted.sync import DeletionCounter


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.mark.parametrize(
    ("count", "files", "asks"),
    [(0, 0, False), (1, 1, False), (2, 9, True), (2, 10, False), (21, 100, True), (20, 100, False)],
)
def test_more_than_a_fifth_at_once_is_asked_about(count, files, asks):
    assert DeletionCounter(Clock()).needs_confirming("phone", count, files) is asks


def test_pieces_of_one_caller_within_minutes_are_counted_together():
    clock, files = Clock(), 100
    deletions = DeletionCounter(clock)
    for _ in range(4):
        assert not deletions.needs_confirming("phone", 5, files)
        deletions.remember("phone", 5)
        files -= 5

    assert deletions.needs_confirming("phone", 5, files)
    assert not deletions.needs_confirming("tablet", 5, files)
    clock.now += timedelta(minutes=11)
    assert not deletions.needs_confirming("phone", 5, files)


def test_a_few_single_notes_of_a_small_vault_go_unasked():
    deletions = DeletionCounter(Clock())
    for files in range(10, 0, -1):
        assert not deletions.needs_confirming("phone", 1, files)
        deletions.remember("phone", 1)


def test_callers_are_not_remembered_without_end():
    deletions = DeletionCounter(Clock())
    for number in range(3_000):
        deletions.remember(str(number), 1)

    assert len(deletions._recent) == 1_000
