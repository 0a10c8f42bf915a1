"""Names and ids: when two spellings mean the same, and what a file for a name is called."""

from __future__ import annotations

import re
import secrets
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from .words import singular

_NO_WORD = re.compile(r"[\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s?\b")
_LONGEST_SLUG: Final = 80
_LETTERS: Final = string.ascii_lowercase + string.digits
_LENGTH: Final = 12
_LENGTHS: Final = frozenset({6, 8, _LENGTH})  # of all that there were
_ANY = re.compile(
    r"(?:para:)?(?:(?P<module>[a-z][a-z0-9-]*):)?(?P<id>[a-z0-9]{12}|[a-z0-9]{8}|[a-z0-9]{6})",
    re.IGNORECASE,
)
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
    return " ".join(map(singular, fold(text).split()))


def slug(name: str) -> str:
    """What the file for that name is called, without its suffix; "" for a name without a letter."""
    found = fold(name).replace(" ", "-")[:_LONGEST_SLUG].strip("-")
    return f"{found}-1" if _RESERVED.fullmatch(found) else found


def new_para_id(is_taken: Callable[[str], bool]) -> str:
    while True:
        letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        if not is_taken(found := f"para:brain:{letters}"):
            return found


def short_id(text: str) -> str:
    """What all spellings of an id have in common: `a1b2c3d4e5f6` for `para:brain:A1b2c3d4e5f6`.
    Another module's keeps its module; `project-parachute`, made by hand, is itself.
    """
    text = text.strip()
    if ":" not in text and len(text) not in _LENGTHS:
        return text.lower()
    found = _ANY.fullmatch(text)
    if found is None:
        return text.lower()
    module = (found["module"] or "brain").lower()
    short = found["id"].lower()
    return short if module == "brain" else f"{module}:{short}"
