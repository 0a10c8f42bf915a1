from __future__ import annotations

import pytest

from parachuted.search.query import measure


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("3", ("number", 3.0)),
        (" -2.5e3", ("number", -2500.0)),
        ("1970-01-02", ("moment", 86400.0)),
        ("1970-01-01T01:00:00+01:00", ("moment", 0.0)),
        ("1970-01-01 00:01", ("moment", 60.0)),
        ("2026-13-45", ("text", 0.0)),
        ("2026-01", ("text", 0.0)),
        ("9e999", ("text", 0.0)),
        ("three", ("text", 0.0)),
        ("", ("text", 0.0)),
    ],
)
def test_a_text_counts_as_what_it_looks_like(text, measured):
    assert measure(text) == measured
