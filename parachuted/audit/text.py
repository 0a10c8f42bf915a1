"""Audit text: untrusted texts as they may appear in the audit: bounded, printable and without
secrets.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

SECRET = "[secret]"  # noqa: S105  what stands in a secret's place
_SECRETS = re.compile(
    r"""
    para_[A-Za-z0-9_-]{20,}                                                # a key of ours
    | sk-[A-Za-z0-9_-]{12,} | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
    | xox[abeprs]-[A-Za-z0-9-]{10,} | A(?:KI|SI)A[0-9A-Z]{16} | AIza[0-9A-Za-z_-]{30,}
    | \d{6,12}:[A-Za-z0-9_-]{30,}                                          # a bot's
    | eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*                                      # a signed token
    | (?i:bearer)[\s+%:=]+(?:20)?[^\s"',;&]{8,} | (?i:basic)\s+[A-Za-z0-9+/]{12,}={0,2}
    | (?i:authorization|x-api-key|api[_-]?key|access[_-]?key|token|passw(?:or)?d|secret|credential)s?["']?\s*[:=]\s*["']?[^\s"',;&]+
    | -----BEGIN[^-]{0,40}PRIVATE\ KEY.*
    """,  # noqa: E501
    re.VERBOSE | re.DOTALL,
)
# each secret holds one of these; most paths hold none, and looking for them is a tenth of the time
_MARKS = ("para_", "sk-", "gh", "glpat-", "xox", "IA", "AIza", "eyJ", "-----", *":=%+")
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BYTE = range(0xDC80, 0xDD00)
_LONG = 256
_MARGIN = 512


def clean(text: str, most: int) -> str:
    """At most `most` characters of the text, with secrets removed and invisible characters escaped
    as in a Python string.
    """
    return _short(text, most) if len(text) <= _LONG else _clean(text, most)


def clean_all(texts: Sequence[str], most: int, most_texts: int) -> list[str]:
    """The same for the first of several texts."""
    return [clean(text, most) for text in texts[:most_texts]]


def _clean(text: str, most: int) -> str:
    """What follows the window may be the rest of a secret, so a text that shrank is shown only up
    to half the window.
    """
    window = text[: most + 2 * _MARGIN]
    cleaned = _SECRETS.sub(SECRET, window) if _may_hold_secret(window) else window
    if not (cleaned.isascii() and cleaned.isprintable()):
        cleaned = _UNSEEN.sub(_escaped, cleaned)
    if len(window) < len(text) and SECRET in cleaned:
        cleaned = cleaned[:-_MARGIN]
    return cleaned if len(cleaned) <= most else f"{cleaned[: most - 1]}…"


def _may_hold_secret(text: str) -> bool:
    if not (text.isascii() and text.isprintable()):
        return True
    if any(mark in text for mark in _MARKS):
        return True
    return " " in text and any(word in text.lower() for word in ("bearer", "basic"))


_short = functools.lru_cache(maxsize=8192)(
    _clean
)  # routes, names of keys and modules come again and again


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
