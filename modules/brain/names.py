"""Names: when two spellings mean the same, and what a file for a name is called."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

_NO_WORD = re.compile(r"[\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s?\b")
_LONGEST_SLUG: Final = 80
_SHORTEST_STEM: Final = 3
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d|agents|claude)")


@lru_cache(maxsize=4_096)  # a name is asked for several times in a row
def fold(text: str) -> str:
    """A name without what does not matter: letter case, accents, and what stands between words."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(one for one in parts if not unicodedata.combining(one))
    return _NO_WORD.sub(" ", text.casefold()).strip()


@lru_cache(maxsize=4_096)
def stem(text: str) -> str:
    """The folded name in the singular, without a possessive: `Kim's gardens` is `kim garden`."""
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub("", text)
    return " ".join(map(_singular, fold(text).split()))


def slug(name: str) -> str:
    """What the file for that name is called, without its suffix; "" for a name without a letter."""
    found = fold(name).replace(" ", "-")[:_LONGEST_SLUG].strip("-")
    return f"{found}-1" if _RESERVED.fullmatch(found) else found


def _singular(word: str) -> str:
    if len(word) <= _SHORTEST_STEM or not word.endswith("s") or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[: -2 if word.endswith(("xes", "ches", "shes", "sses")) else -1]
