"""A conversation's title, summary and activity where no model can be asked: from its own words.
Pure.
"""

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


def title_from(message: str) -> str | None:
    """A title made of a message's first sentence; None where it has no words."""
    sentence = first_sentence(message)
    said = _POLITE.sub("", sentence).strip() or sentence
    said = said.rstrip(" .,:;!").strip("\"'“”„ ")
    if not re.search(r"\w", said):
        return None
    return shortened(said[0].upper() + said[1:], _LONGEST_TITLE)


def summary_from(questions: Sequence[str], answer: str) -> str | None:
    """What a person asked first and last, and how the last answer begins; None: nothing is said."""
    asked = [one for one in map(first_sentence, questions) if one]
    if not asked:
        return None
    first, last = (f"“{shortened(one, _LONGEST_QUOTE)}”" for one in (asked[0], asked[-1]))
    text = first if len(asked) == 1 else f"{first} to {last}"
    begins = shortened(first_sentence(answer.removeprefix(NO_MODEL)), _LONGEST_QUOTE)
    return f"{text}: {begins}" if begins else text


def activity_from(question: str, answer: str) -> str:
    """One exchange in one line."""
    return summary_from([question], answer) or "An exchange without words"


def first_sentence(text: str) -> str:
    """The first sentence of markdown, in one line and without its marks."""
    line = next(iter(plain_lines(_FENCE.sub(" ", text))), "")
    found = _SENTENCE.match(line)
    return found[0] if found else line


def plain_lines(text: str) -> list[str]:
    """The lines of markdown that have words, without its marks."""
    text = _LINK.sub(lambda link: link[1] or link[2] or "", _COMMENT.sub(" ", text))
    lines = (" ".join(_MARKS.sub("", line).split()) for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def shortened(text: str, most: int) -> str:
    """At most so many characters, cut between words."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    return f"{kept.rpartition(' ')[0] or kept} …"[:most]
