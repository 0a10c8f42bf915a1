"""Words: splits and folds text, identically for indexing and for searching.

SQLite's tokenizer knows letters and accents, but takes a run of Chinese for one word: characters of
scripts that put no spaces between words, and emoji, are set apart by a mark that takes no room, so
that each is a word and two in a row are a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b
from typing import Literal, TypeAlias

FacetKind: TypeAlias = Literal["folder", "tag", "key", "value"]

_APART = "\u200b"
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u3131-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
_EMOJI = (
    (0x2600, 0x27BF),
    (0x2B50, 0x2B50),
    (0x2B55, 0x2B55),
    (0x1F1E6, 0x1F1FF),
    (0x1F300, 0x1FAFF),
)
_SPACELESS += "".join(f"{chr(first)}-{chr(last)}" for first, last in _EMOJI)
_ONE = re.compile(f"[{_SPACELESS}]")
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}]+")
_LONE = re.compile("[\ud800-\udfff\0]")


def emoji() -> str:
    """The characters beside letters and digits that are words."""
    return "".join(chr(code) for first, last in _EMOJI for code in range(first, last + 1))


class _Folds(dict[int, str]):
    """For each character one that stands for it, letter case and accents aside; so that places in a
    text stay what they are.
    """

    def __missing__(self, code: int) -> str:
        one = chr(code)
        plain = one if is_spaceless(one) else unicodedata.normalize("NFD", one)[:1].casefold()
        folded = plain if len(plain) == 1 else one
        if len(self) < 1 << 14:
            self[code] = folded
        return folded


_FOLDS = _Folds()


def storable(text: str) -> str:
    """The text without what SQLite's text cannot hold: lone surrogates and NUL."""
    return text if text.isascii() and "\0" not in text else _LONE.sub("\ufffd", text)


def cut(text: str) -> str:
    """The text as it is indexed."""
    if text.isascii():
        return text
    return _ONE.sub(f"{_APART}\\g<0>{_APART}", unicodedata.normalize("NFC", text))


def joined(text: str) -> str:
    """The text that was cut."""
    return text if text.isascii() else text.replace(_APART, "")


def folded(text: str) -> str:
    """The text in lower case and without accents, of the same length."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def plain(text: str) -> str:
    """What two texts have in common that are the same to a person: accents, case and white space
    around them aside.
    """
    return folded(text if text.isascii() else unicodedata.normalize("NFC", text)).strip()


def words_of(text: str) -> list[str]:
    """The words of a text, folded, in order."""
    return _WORD.findall(plain(text))


def written_words_of(text: str) -> list[str]:
    """The words of a text as they are written, in order."""
    return _WORD.findall(unicodedata.normalize("NFC", text))


def is_spaceless(word: str) -> bool:
    """Whether the word is a character of a script without spaces."""
    return _ONE.match(word) is not None


def facet(kind: FacetKind, text: str) -> str:
    """One word that stands for a folder, tag, key or value as a whole, and that nobody writes."""
    return (
        f"zq{kind[0]}{blake2b(text.encode('utf-8', 'surrogateescape'), digest_size=6).hexdigest()}"
    )
