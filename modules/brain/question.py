"""Questions: which words of a sentence say what is asked for."""

from __future__ import annotations

from typing import NamedTuple

from .words import is_spaceless, split

_MOST_WORDS = 32


class QuestionWord(NamedTuple):
    """A word as it is written, and as FTS5 is asked for it."""

    shown: str
    asked: str


def read_question(text: str) -> tuple[QuestionWord, ...]:
    """What a text in NFC asks for, each word once. Ignored words alone are looked for as well."""
    words, ignored = {}, {}
    folded, starts, ends = split(text)
    for number, (word, start, end) in enumerate(zip(folded, starts, ends, strict=True)):
        shown = text[start:end]
        if is_spaceless(shown):
            after = text[end : end + 1]
            before = text[start - 1 : start]
            if is_spaceless(after):
                words[word + after] = QuestionWord(shown + after, f'"{shown} {after}"')
            elif not is_spaceless(before):
                words[word] = QuestionWord(shown, f'"{shown}"')
        elif word in _STOP and (number == 0 or not shown[0].isupper() or len(shown) == 1):
            ignored[word] = QuestionWord(shown, f'"{shown}"')
        else:
            words[word] = QuestionWord(shown, f'"{shown}"')
    return tuple((words or ignored).values())[:_MOST_WORDS]


# Words of a question that say nothing of what is asked for; a name among them is written large.
_STOP = frozenset(
    """
    a about again all also am an and any anybody anyone anything are as ask asked at away be
    because been before being both but by can could d did didn do does doesn doing don done each
    either ever every find for from get give given go got had has have having he her here hers him
    his how i if in into is isn it its itself just know known let ll look looking m many may maybe
    me mean might mine more most much my myself name named no nor not now of off on one only or
    other our ours out over own please re really remember remind s said same say see she should
    show so some somebody someone something such t tell than that the their theirs them then there
    these they thing things think this those through to too under up us ve very want was wasn we
    were what whatever when where whether which while who whoever whom whose why will with wonder
    would yes yet you your yours
    """.split()  # noqa: SIM905  a list of these would take two hundred lines
)
