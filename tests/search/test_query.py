from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.search.query import LONGEST, QueryError, parse_query


@pytest.fixture(scope="module")
def table():
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE texts USING fts5("
            "title, headings, body, tags, matter, place, facets)"
        )
        yield database


ODD = [
    '"',
    "NEAR(a b)",
    "body : x",
    "{title}: x",
    "a AND",
    "^a",
    "a + b",
    "(",
    "-",
    "--x y",
    "x:",
    'k:"',
    "a\0b",
    "*",
    "\udcff",
    "a* b*",
    "title:",
]


@pytest.mark.parametrize("text", ODD)
def test_no_query_is_a_mistake_of_syntax(table, text):
    try:
        query = parse_query(text)
    except QueryError as error:
        assert str(error)  # noqa: PT017  either way is right, so long as it is one of these two
    else:
        table.execute("SELECT 1 FROM texts WHERE texts MATCH ?", (query.expression,)).fetchall()


@given(st.text(alphabet=st.sampled_from("ab \"*:-^(){}+,.\\'\0東é\udcff"), max_size=40))
@example('tag:"')
@example('-"a')
def test_nor_is_any_heap_of_marks(table, text):
    try:
        query = parse_query(text, part="title", within=[["a"], ["b", "c"]])
    except QueryError:
        return
    for expression in (query.expression, query.titles):
        if expression is not None:
            table.execute("SELECT 1 FROM texts WHERE texts MATCH ?", (expression,)).fetchall()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write what to look for"),
        ("-draft", "besides what is to be left out"),
        ("x" * (LONGEST + 1), "longer than"),
        ("a " * 100, "more than 32 terms"),
        ("?!", "write what to look for"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(text, reason):
    with pytest.raises(QueryError, match=reason):
        parse_query(text)


def test_a_quote_that_is_not_closed_reaches_to_the_end():
    (term,) = parse_query('"winter garden').terms

    assert term.words == ("winter", "garden")


def test_one_letter_with_a_star_is_looked_for_in_titles_alone():
    assert parse_query("d*").expression == '({title} : ("d" *))'
    assert parse_query("d*", part="body").expression == '({body} : ("d" *))'
    assert parse_query("beans d*").expression == parse_query("beans").expression
