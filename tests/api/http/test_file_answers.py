"""File answers: bytes that a module made go out so that no browser runs them."""

from __future__ import annotations

import pytest

from parachuted.api.http.answers import bytes_answer


@pytest.mark.parametrize(
    ("kind", "is_saved"),
    [
        ("image/png", False),
        ("audio/wav", False),
        ("text/plain; charset=utf-8", False),
        ("application/json", False),
        ("text/html", True),
        ("image/svg+xml", True),
        ("application/javascript", True),
    ],
)
def test_only_what_no_browser_runs_is_shown(kind, is_saved):
    answer = bytes_answer(b"x", kind, None)

    assert ("Content-Disposition" in answer.headers) == is_saved
    assert answer.headers["Content-Type"] == kind
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_name_to_save_by_cannot_hold_a_header():
    answer = bytes_answer(b"x", "image/png", 'a"\r\nX-Evil: 1.png')

    assert "\r" not in answer.headers["Content-Disposition"]
    assert answer.headers["Content-Disposition"].startswith("attachment; filename*=UTF-8''a%22")
