"""Long answers as several messages: a property of any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.bots.splitting import split

FENCES = st.sampled_from(["```", "```python", "~~~", "````", "   ```", "```a`b", "``` "])
LINES = st.one_of(FENCES, st.text("ab .\u00e4\U0001f331", max_size=90), st.just(""))
TEXTS = st.lists(LINES, max_size=60).map("\n".join)


def words(text: str) -> str:
    """The text without what cuts may add or drop: fences, and blanks."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("```", "~~~"))]
    return "".join("".join(lines).split())


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(TEXTS, st.integers(200, 400), st.sampled_from([len, utf16]))
def test_each_message_is_short_enough_and_together_they_are_the_text(text, longest, size):
    parts = split(text, longest, size)
    assert all(0 < size(part) <= longest for part in parts)
    assert words("\n".join(parts)) == words(text)


@given(TEXTS, TEXTS, st.integers(200, 400))
def test_what_was_sent_of_a_growing_text_stays(text, more, longest):
    before, after = split(text, longest), split(text + more, longest)
    assert after[: max(0, len(before) - 2)] == before[: max(0, len(before) - 2)]


def test_a_code_block_that_is_cut_is_closed_and_opened_again():
    code = "\n".join(f"row = {number}" for number in range(40))
    first, second, *_ = split(f"Look:\n\n```python\n{code}\n```\n", 250)
    assert first.startswith("Look:\n\n```python\nrow = 0\n")
    assert first.endswith("\n```")
    assert second.startswith("```python\nrow = ")


def test_a_text_is_cut_between_paragraphs_or_else_between_words():
    text = "\n\n".join(["A sentence of some words. " * 4] * 6)
    assert all(one.strip().endswith("words.") for one in split(text, 300))
    with pytest.raises(ValueError, match="room for 200"):
        split("x", 10)
