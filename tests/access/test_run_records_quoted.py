"""What a run's record may quote: a list that only grows, and is none once it cannot be whole."""

from __future__ import annotations

import pytest

from parachuted.access.run_records import QuotedPaths


def test_paths_are_listed_once_and_sorted():
    quoted = QuotedPaths(["b.md"])
    quoted.add("a.md", "b.md")
    assert quoted.document() == ["a.md", "b.md"]


@pytest.mark.parametrize("value", [None, "a.md", 3, ["a.md", 3], {"a.md": 1}])
def test_what_is_not_a_list_of_paths_counts_as_anything(value: object):
    assert QuotedPaths.from_document(value).document() is None


def test_a_list_that_is_read_back_is_the_same():
    assert QuotedPaths.from_document(QuotedPaths(["a.md"]).document()).document() == ["a.md"]


def test_nothing_makes_a_list_of_anything():
    quoted = QuotedPaths()
    quoted.add_all(QuotedPaths(None))
    quoted.add("a.md")
    assert quoted.is_anything


def test_more_paths_than_a_record_can_hold_are_anything():
    quoted = QuotedPaths(f"{number}.md" for number in range(1000))
    assert not quoted.is_anything
    quoted.add("one more.md")
    assert quoted.is_anything


def test_what_another_lists_is_taken_over():
    quoted = QuotedPaths(["a.md"])
    quoted.add_all(QuotedPaths(["b.md"]))
    assert quoted.document() == ["a.md", "b.md"]
