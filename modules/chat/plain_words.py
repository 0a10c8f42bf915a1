"""A conversation's own words: titles and summaries without a model, and text without its marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

NO_MODEL: Final = "No model can be asked now, so this is only what your notes say."
_LONGEST_TITLE: Final = 60
_LONGEST_QUOTE: Final = 140
_FENCE = re.compile(r"^(```|~~~).*?(^\1|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(-->|\Z)", re.DOTALL)
# no part of it may run over another opening: a text of many would take the square of their number
_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^)\n]{0,500}\)")
_MARKS = re.compile(r"^\s*(?:[#>*+-]+\s+|\d+[.)]\s+)+|[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}")
_SENTENCE = re.compile(".{8,}?[.!?](?=\\s|$)|.{8,}?[\u3002\uff01\uff1f]")
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|please|ok|okay|so|thanks|can you|could you|would you|will you|i want you "
    r"to|i'd like you to|help me(?: to)?|tell me|let's)\b[\s,:!.]*)+",
    re.IGNORECASE,
)
_PARA_ID: Final = re.compile(r"\bpara:[a-z]+:\w+\s*")


def title_from(message: str) -> str | None:
    sentence = first_sentence(message)
    said = _POLITE.sub("", sentence).strip() or sentence
    said = said.rstrip(" .,:;!").strip("\"'“”„ ")
    if not re.search(r"\w", said):
        return None
    return shortened(said[0].upper() + said[1:], _LONGEST_TITLE)


def summary_from(questions: Sequence[str], answer: str) -> str | None:
    asked = [one for one in map(first_sentence, questions) if one]
    if not asked:
        return None
    first, last = (f"“{shortened(one, _LONGEST_QUOTE)}”" for one in (asked[0], asked[-1]))
    text = first if len(asked) == 1 else f"{first} to {last}"
    begins = shortened(first_sentence(answer.removeprefix(NO_MODEL)), _LONGEST_QUOTE)
    return f"{text}: {begins}" if begins else text


def first_sentence(text: str) -> str:
    line = next(iter(plain_lines(_FENCE.sub(" ", text))), "")
    match = _SENTENCE.match(line)
    return match[0] if match else line


def plain_lines(text: str) -> list[str]:
    text = _LINK.sub(lambda link: link[1] or link[2] or "", _COMMENT.sub(" ", text))
    lines = (" ".join(_MARKS.sub("", line).split()) for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    begin = text[: most - 1]
    return f"{begin.rpartition(' ')[0] or begin} …"[:most]


def words_of(text: str, title: str) -> str:
    """In one line, without headings where there is other text, and without its title."""
    lines = text.splitlines()
    prose = [line for line in lines if not _is_heading(line)]
    words = _plain("\n".join(prose)) or _plain("\n".join(lines))
    return words[len(title) :].strip() if title and words.startswith(f"{title} ") else words


def _plain(text: str) -> str:
    return " ".join(_PARA_ID.sub("", " ".join(plain_lines(text))).split())


def _is_heading(line: str) -> bool:
    return line.lstrip().startswith("#")
