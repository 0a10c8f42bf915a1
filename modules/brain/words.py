"""Words and names: how texts are split and folded, and when two spellings mean the same."""

from __future__ import annotations

import re
import secrets
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

_APART = "\u200b"

_LETTER = r"[^\W_]"
_ASCII_WORD = re.compile(rf"({_LETTER}+(?:_+{_LETTER}+)*)")
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)  # scripts without spaces between words: each character is a word
_SPACELESS_ONE = re.compile(f"[{_SPACELESS}]")
_WORD = re.compile(rf"([{_SPACELESS}]|[^ _{_SPACELESS}]+(?:_+[^ _{_SPACELESS}]+)*)")
_NOT_DECOMPOSED = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "æ": "ae", "œ": "oe"})


class Words(NamedTuple):
    folded: list[str]
    starts: list[int]
    ends: list[int]


class _Separators(dict[int, str]):
    def __missing__(self, code: int) -> str:
        one = chr(code)
        found = one if unicodedata.category(one)[0] in "LNM" or one == "_" else " "
        if len(self) < 1 << 14:
            self[code] = found
        return found


_SEPARATORS = _Separators()


def split(text: str) -> Words:
    """The words of the text in order. A name with underscores is one word, as in code."""
    if text.isascii():
        parts = _ASCII_WORD.split(text.lower())
        folded = parts[1::2]
    else:
        parts = _WORD.split(text.translate(_SEPARATORS))
        folded = [fold(word) for word in parts[1::2]]
    edges = list(accumulate(map(len, parts)))  # each word stands between two other parts
    return Words(folded, edges[:-1:2], edges[1::2])


def folded_words(text: str) -> list[str]:
    return _ASCII_WORD.findall(text.lower()) if text.isascii() else split(text).folded


def fold(word: str) -> str:
    """The word without letter case and accents; composed and decomposed characters agree."""
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word).casefold()
    plain = "".join(one for one in apart if not unicodedata.combining(one))
    return unicodedata.normalize("NFKC", plain.translate(_NOT_DECOMPOSED))


def phrase_of(folded: list[str]) -> str:
    """What a name of these words is found by: its last word in the singular."""
    return " ".join([*folded[:-1], singular(folded[-1])]) if folded else ""


@lru_cache(maxsize=8_192)  # most texts are made of few words
def singular(word: str) -> str:
    """An English plural without its ending; most other words unchanged."""
    if len(word) < 4 or word[-1] != "s" or word.endswith(("ss", "us", "is")):  # noqa: PLR2004
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]  # noqa: PLR2004
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if word.endswith("oes") and len(word) > 5:  # noqa: PLR2004
        return word[:-2]
    return word[:-1]


def set_apart(text: str) -> str:
    """The text in NFC, with marks of no width around characters that are words of their own."""
    if text.isascii():
        return text
    apart = f"{_APART}\\g<0>{_APART}"
    return _SPACELESS_ONE.sub(apart, unicodedata.normalize("NFC", text))


def join(text: str) -> str:
    return text if text.isascii() else text.replace(_APART, "")


def is_spaceless(text: str) -> bool:
    return not text.isascii() and _SPACELESS_ONE.match(text) is not None


_NO_WORD = re.compile(r"[\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s?\b")
_LONGEST_SLUG: Final = 80
_ID_LETTERS: Final = string.ascii_lowercase + string.digits
_LENGTH: Final = 12
_LENGTHS: Final = frozenset({6, 8, _LENGTH})  # of all that there were
_ANY = re.compile(
    r"(?:para:)?(?:(?P<module>[a-z][a-z0-9-]*):)?(?P<id>[a-z0-9]{12}|[a-z0-9]{8}|[a-z0-9]{6})",
    re.IGNORECASE,
)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d|agents|claude)")


@lru_cache(maxsize=4_096)  # a name is asked for several times in a row
def fold_name(text: str) -> str:
    """A name without what does not matter: letter case, accents, and what stands between words."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(part for part in parts if not unicodedata.combining(part))
    return _NO_WORD.sub(" ", text.casefold()).strip()


@lru_cache(maxsize=4_096)
def stem(text: str) -> str:
    """The folded name in the singular, without a possessive: `Kim's gardens` is `kim garden`."""
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub("", text)
    return " ".join(map(singular, fold_name(text).split()))


def slug(name: str) -> str:
    """What the file for that name is called, without its suffix; "" for a name without a letter."""
    found = fold_name(name).replace(" ", "-")[:_LONGEST_SLUG].strip("-")
    return f"{found}-1" if _RESERVED.fullmatch(found) else found


def new_para_id(is_taken: Callable[[str], bool]) -> str:
    while True:
        letters = "".join(secrets.choice(_ID_LETTERS) for _ in range(_LENGTH))
        if not is_taken(found := f"para:brain:{letters}"):
            return found


def short_id(text: str) -> str:
    """`a1b2c3d4e5f6` for all spellings of `para:brain:A1b2c3d4e5f6`."""
    text = text.strip()
    if ":" not in text and len(text) not in _LENGTHS:
        return text.lower()
    match = _ANY.fullmatch(text)
    if match is None:
        return text.lower()
    module = (match["module"] or "brain").lower()
    short = match["id"].lower()
    return short if module == "brain" else f"{module}:{short}"
