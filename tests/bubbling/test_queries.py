"""Queries: which patterns are queries, and what they ask."""

from __future__ import annotations

import pytest

from parachuted.bubbling.patterns import (
    PatternPart,
    QueryMatches,
    is_query,
    parse_pattern,
    parse_query_terms,
)
from parachuted.search import KeyFilter
from parachuted.state import StateStore


@pytest.mark.parametrize(
    "text",
    ["Projects/*", "Re: hello.md", "Notes/a:b.md", "*:x", "./tag:x", "10:30.md", "People/@kevin"],
)
def test_what_names_a_place_is_not_a_query(text):
    assert not is_query(text)


def test_terms_are_conditions_that_all_must_hold():
    query, rest = parse_query_terms(
        'tag:#book/novel folder:Books status:open due:lt:2026-12-01 by:"Frank Herbert" rating:* '
        "@status"
    )

    assert (query.asked.tag, query.asked.folder, rest) == ("book/novel", "Books", "@status")
    assert query.asked.filters == (
        KeyFilter(key="status", op="eq", value="open"),
        KeyFilter(key="due", op="lt", value="2026-12-01"),
        KeyFilter(key="by", op="eq", value="Frank Herbert"),
        KeyFilter(key="rating", op="exists", value=True),
    )


def test_a_pattern_can_be_narrowed_and_can_leave_out():
    pattern = parse_pattern("!tag:book #Decisions", "W.md")

    assert (pattern.excludes, pattern.narrowing, pattern.query.text) == (
        True,
        PatternPart(mark="#", name="Decisions"),
        "tag:book",
    )


@pytest.mark.parametrize(
    "text",
    [
        "tag:a and more",
        "tag:a tag:b",
        "status:in progress",
        " ".join(f"k{number}:v" for number in range(20)),
    ],
)
def test_what_cannot_be_asked_is_refused(text):
    with pytest.raises(ValueError, match=r"condition|one `tag:`"):
        parse_pattern(text, "W.md")


def test_what_changes_before_the_index_answers_counts_as_it_is(state: StateStore):
    matches = QueryMatches(state)
    query, _rest = parse_query_terms("tag:book")
    matches.decide(query, "new.md", is_match=True)
    matches.decide(query, "old.md", is_match=False)
    matches.answer(query, ["a.md", "old.md"])

    assert set(matches.paths(query)) == {"a.md", "new.md"}
    assert matches.decide(query, "a.md", is_match=False)
    assert set(QueryMatches(state).paths(query)) == {"new.md"}
    matches.forget([])
    assert not QueryMatches(state).is_known(query)
