"""Visible: a stranger's text as a person can judge it, with all that hides or turns other text spelled out."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0), range(0x180B, 0x1810))


def visible(text: str, keep: str = "") -> str:
    """The text with an escape such as <backslash>u202e for each character that nobody sees, but for those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or not _is_hidden(one) else _spelled(one) for one in text)


def _is_hidden(one: str) -> bool:
    category = unicodedata.category(one)
    if category in _HIDDEN or one in _BLANKS or (category == "Zs" and one != " "):
        return True
    return any(ord(one) in selectors for selectors in _SELECTORS)


def _spelled(one: str) -> str:
    number = ord(one)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004
