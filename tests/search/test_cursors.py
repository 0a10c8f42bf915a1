from __future__ import annotations

import pytest

from parachuted.search.index_tables import read_cursor, write_cursor


def test_a_cursor_holds_its_values():
    assert read_cursor(write_cursor("title", 1, "x"), "title", (int, str)) == [1, "x"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "é",
        "!!!!",
        "bnVsbA",
        write_cursor("path", 1, "x"),
        write_cursor("title", "1", "x"),
        write_cursor("title"),
    ],
)
def test_what_is_not_a_cursor_of_that_list_is_refused(text):
    with pytest.raises(ValueError, match="cursor"):
        read_cursor(text, "title", (int, str))
