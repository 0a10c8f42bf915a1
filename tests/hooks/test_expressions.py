"""Expressions: they mean what they mean in JavaScript, and take no longer than the text is long."""

from __future__ import annotations

import contextlib
import time

import pytest
import regress
from hypothesis import given
from hypothesis import strategies as st

from parachuted.hooks.expressions import compile_expression

PIECES = [
    "a",
    "b",
    "Edit",
    ".",
    ".*",
    "^",
    "$",
    "[ab]",
    "[^a]",
    "\\w",
    "\\d",
    "\\.",
    "\\b",
    "(?:a|b)",
    "(a)",
    "a+?",
    "b{1,2}",
    "|",
    "/",
]


@pytest.mark.parametrize(
    "text", ["(a+)+$", "(a|a)*$", "(.*)*b", "^(?!(a+)+$)(a+)+!$", "(a?){30}a{30}$"]
)
def test_no_expression_holds_the_daemon(text: str):
    test = compile_expression(text)
    began = time.process_time()
    test("a" * 4096 + "!")
    assert time.process_time() - began < 5  # by backtracking, far longer than any test waits


@pytest.mark.parametrize(
    "text",
    [
        "^" + "(?!a)" * 3000,
        "^(?=a)" * 150 + "|b" * 40,
        "^(?!a)(b)|" * 500,
        "^(?!a" + "(b)" * 5000 + ")",
    ],
)
def test_an_expression_is_read_in_no_time_however_many_conditions_it_has(text: str):
    began = time.process_time()
    with contextlib.suppress(ValueError):
        compile_expression(text)("b" * 4096)
    assert time.process_time() - began < 5


@given(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.text(st.sampled_from("abEdit./ !"), max_size=12),
)
def test_what_is_matched_is_what_javascript_matches(text: str, subject: str):
    try:
        expected = regress.Regex(text).find(subject) is not None
    except regress.RegressError:
        with pytest.raises(ValueError, match="never matches"):
            compile_expression(text)
    else:
        assert compile_expression(text)(subject) is expected


@given(
    st.lists(
        st.sampled_from(["^(?!a)", "^(?=a|b)", "(?!b)", *PIECES[:5], "(?:a|b)", "|"]), max_size=4
    ).map("".join),
    st.text(st.sampled_from("abEdit"), max_size=6),
)
def test_a_condition_at_the_beginning_is_that_of_javascript_or_refused(text: str, subject: str):
    try:
        expected = regress.Regex(text).find(subject) is not None
        test = compile_expression(text)
    except (regress.RegressError, ValueError):
        return
    assert test(subject) is expected


@pytest.mark.parametrize(
    ("text", "subject", "expected"),
    [
        ("^(?!Read).*", "Read", False),
        ("^(?!Read).*", "Edit", True),
        ("^(?!mcp__)(?!Bash$).+$", "Bash", False),
        ("^(?!mcp__)(?!Bash$).+$", "BashOutput", True),
        ("^(?=.*\\.md$)(?!Daily/)", "Work/a.md", True),
        ("^(?!(?:a|b)\\)).", "a)", False),
        ("(?<name>Edit)", "Edit", True),
        ("^.\\.md$", "\ud800.md", True),
    ],
)
def test_conditions_at_the_beginning_and_names_of_groups_are_understood(
    text: str,
    subject: str,
    expected: bool,  # noqa: FBT001  a table
):
    assert compile_expression(text)(subject) is expected


@pytest.mark.parametrize("text", ["(?i)edit", "(?P<x>a)", "a++", "("])
def test_what_is_not_javascript_is_said(text: str):
    with pytest.raises(ValueError, match=r"not a JavaScript regular expression.*never matches"):
        compile_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "(a)\\1",
        "a(?=b)",
        "(?<!a)b",
        "^(?!a)b|c",
        "^(?!a){0}b",
        "^(?!a)*b",
        "\\u0041",
        "\\Qa.b\\E",
        "[[:alpha:]]",
        "[]",
        "a{2000}",
    ],
)
def test_what_cannot_be_matched_in_bounded_time_or_would_mean_something_else_is_said(text: str):
    with pytest.raises(ValueError, match="not done here, so it never matches"):
        compile_expression(text)
