"""Whoever approves a text sees all of it."""

from __future__ import annotations

import pytest

from parachuted.modules.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, naïve, 日本語 😀", "plain, naïve, 日本語 😀"),
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("a\r\nb", "a\\x0d\\x0ab"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("in\u200bvisible\ufeff", "in\\u200bvisible\\ufeff"),
        ("a\u00a0b\u3000c", "a\\xa0b\\u3000c"),
        ("\u3164\ufe0f\U000e0041", "\\u3164\\ufe0f\\U000e0041"),
        ("\udcff", "\\udcff"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_hides_is_spelled_out(text, shown):
    assert visible(text) == shown


def test_what_is_asked_for_is_kept():
    assert visible("a\tb\nc\r", keep="\t\n") == "a\tb\nc\\x0d"
