"""Task reviews: in which pieces what a run reviews is marked and closed."""

from __future__ import annotations

from parachuted.runs.task_reviews import in_pieces


def test_no_piece_is_larger_than_a_batch_may_be_and_none_is_left_out():
    pieces = [len(piece) for piece in in_pieces([None] * 501)]

    assert pieces == [250, 250, 1]
