"""Words: what two texts have in common that are the same to a person who searches.

SQLite's tokenizer folds letter case and most accents. Other spellings (`Straße` by `strasse`) are
written so into the index, followed by marks that the tokenizer drops and that say which letter
stood there: `joined` gives it back. Parts of words (`username` in `getUserName`) follow the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator

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
    return "".join(chr(code) for first, last in _EMOJI for code in range(first, last + 1))


_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ð": "d", "þ": "th"}
    | {"\u0131": "i", "\u0451": "\u0435"}
)
_CYRILLIC = re.compile("[\u0400-\u052f]")
_SIGN = "\u0331"  # with a mark for each of five digits: the letter that stood there
_DIGITS = (
    "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308"
    "\u0309\u030a\u030b\u030c\u030f\u0311\u0323\u0324"
)
_TO_MARKS = str.maketrans("0123456789abcdef", _DIGITS)
_FROM_MARKS = str.maketrans(_DIGITS, "0123456789abcdef")
_MARKED = re.compile(f"{_SIGN}([{_DIGITS}]{{5}})")
_END = "\n\u2029\u200b\u2029\n"  # of the text; parts of its words follow
_BETWEEN = " zqz "
_CASES = bytes(
    ord("A" if char.isupper() else "a" if char.islower() else " ")
    for char in bytes(range(256)).decode("ascii", "replace")
)
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z].)|(?<=[A-Z]{2})(?=[a-z]{2}))")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W_A-Za-z\d]+")
_AFTER_POINT = re.compile(rb"\.[0-9]")
_NUMBERED = re.compile(r"[0-9](?<=[^\W\d_].)[0-9]*+(?:\.[0-9]++)++")
_LONGEST_WITH_PARTS, _MOST_PARTS, _MOST_WITH_PARTS, _MOST_TOGETHER = 40, 8, 1_000, 3


class _Folds(dict[int, str]):
    """For each character what stands for it, letter case, accents and other shapes aside."""

    def __missing__(self, code: int) -> str:
        one = chr(code)
        found = one if is_spaceless(one) or not one.isalnum() else _fold(one)
        if len(self) < 1 << 14:
            self[code] = found
        return found


def _fold(letter: str) -> str:
    folded = letter.casefold()
    if not _CYRILLIC.match(letter):  # its marks make other letters, but for `ё`
        parts = unicodedata.normalize("NFKD", folded).casefold()
        folded = "".join(part for part in parts if not unicodedata.combining(part))
    folded = folded.translate(_LETTERS)
    return folded if folded.isalnum() and not _ONE.search(folded) else letter.casefold()


def _is_folded_by_sqlite(letter: str, folded: str) -> bool:
    if folded == letter.lower():
        return True
    return folded.isascii() and unicodedata.normalize("NFD", letter)[0].lower() == folded


_FOLDS = _Folds()


def storable(text: str) -> str:
    """Without what SQLite's text cannot hold: lone surrogates and NUL."""
    return text if text.isascii() and "\0" not in text else _LONE.sub("\ufffd", text)


def has_parts(data: bytes) -> bool:
    """Most texts have none, and that is seen fast."""
    cases = data.translate(_CASES)
    return b"aA" in cases or b"AAA" in cases or _AFTER_POINT.search(data) is not None


def indexed(text: str) -> str:
    """The text as it is indexed, and the parts of its words."""
    parts = _BETWEEN.join(_parts(text))
    return f"{cut(text)}{_END}{parts}" if parts else cut(text)


def cut(text: str) -> str:
    """NFC, with letters that SQLite does not fold as `folded`, spaceless scripts apart."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    signs = {
        char: f"{letters}{_SIGN}{format(ord(char), '05x').translate(_TO_MARKS)}"
        for char in set(text)
        if not char.isascii()
        and (letters := _FOLDS[ord(char)]) != char
        and not _is_folded_by_sqlite(char, letters)
    }
    if signs:
        text = re.sub(f"[{''.join(signs)}]", lambda match: signs[match[0]], text)
    return _ONE.sub(f"{_APART}\\g<0>{_APART}", text)


def joined(text: str) -> str:
    if text.isascii():
        return text
    text = text.partition(_END)[0].replace(_APART, "")
    if _SIGN not in text:
        return text
    parts, at = [], 0
    for match in _MARKED.finditer(text):
        char = chr(int(match[1].translate(_FROM_MARKS), 16))
        before = text[at : match.start()]
        if before.endswith(letters := _FOLDS[ord(char)]):
            parts += [before.removesuffix(letters), char]
            at = match.end()
    return "".join([*parts, text[at:]])


def _parts(text: str) -> Iterator[str]:
    """Parts of `oneWord`, at most three together or all to its end, and the number of `v1.2`."""
    yield from dict.fromkeys(_NUMBERED.findall(text))
    seen: set[str] = set()
    at = 0
    while (hump := _HUMP.search(text, at)) is not None and len(seen) < _MOST_WITH_PARTS:
        start = hump.start()
        while (
            start > at and hump.start() - start < _LONGEST_WITH_PARTS and text[start - 1].isalnum()
        ):
            start -= 1
        at = hump.end()
        while at < len(text) and text[at].isalnum():
            at += 1
        word = text[start:at]
        if word not in seen and len(word) <= _LONGEST_WITH_PARTS:
            seen.add(word)
            yield from _runs(_PART.findall(word))


def _runs(parts: list[str]) -> Iterator[str]:
    count = len(parts)
    if count > _MOST_PARTS:
        return
    runs = [
        cut("".join(parts[first : first + size]))
        for size in range(1, count)
        for first in range(count - size + 1)
        if size <= _MOST_TOGETHER or first + size == count
    ]
    yield " ".join(run for run in runs if len(run) > 1)


def is_part(text: str, start: int, stop: int) -> bool:
    """Whether that piece of the text is a whole part of a word, or several."""
    return _parts_at(text, start) and _parts_at(text, stop)


def _parts_at(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at : at + 1]
    if not (before.isalnum() and after.isalnum()) or before.isalpha() != after.isalpha():
        return True
    return after.isupper() and (before.islower() or text[at + 1 : at + 3].islower())


def folded(text: str) -> str:
    """Lower case, without accents; a letter may become several, as `ß` does."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


class FoldedText:
    """A folded text, and where its places are in the text as it is written."""

    def __init__(self, written: str) -> None:
        self.text = folded(written)
        self._lasts: list[int] = []
        self._starts: list[int] = []
        if len(self.text) != len(written):
            wide = "".join(one for one in set(written) if len(_FOLDS[ord(one)]) > 1)
            more = 0
            for match in re.finditer(f"[{re.escape(wide)}]", written):
                more += len(_FOLDS[ord(match[0])]) - 1
                self._lasts.append(match.start() + more)
                self._starts.append(match.start())

    def place(self, at: int) -> int:
        """Just after a letter that the place is within."""
        if not self._lasts:
            return at
        index = bisect_left(self._lasts, at)
        more = self._lasts[index - 1] - self._starts[index - 1] if index else 0
        return min([at - more, *(start + 1 for start in self._starts[index : index + 1])])


def plain(text: str) -> str:
    """Accents, case and white space around aside."""
    return folded(text if text.isascii() else unicodedata.normalize("NFC", text)).strip()


def words_of(text: str) -> list[str]:
    return _WORD.findall(plain(text))


def written_words_of(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFC", text))


def is_spaceless(word: str) -> bool:
    return _ONE.match(word) is not None
