"""Visible: a stranger's text as a person can judge it, with all that hides or turns other text spelled out."""

from __future__ import annotations

import unicodedata

from parachuted.vault import is_ignorable

_HIDDEN = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK = "\u2800"  # of Braille


def visible(text: str, keep: str = "") -> str:
    """The text with an escape such as <backslash>u202e for each character that nobody sees, but for those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or not _is_hidden(one) else _spelled(one) for one in text)


def _is_hidden(one: str) -> bool:
    category = unicodedata.category(one)
    return category in _HIDDEN or one == _BLANK or is_ignorable(one) or (category == "Zs" and one != " ")


def _spelled(one: str) -> str:
    number = ord(one)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004
