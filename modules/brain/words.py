"""Words: splits a text for Brain's engines, and folds what does not matter."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

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
    """The words of a text, folded, with where each begins and ends."""

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
