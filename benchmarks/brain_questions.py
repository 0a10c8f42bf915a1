"""Questions about the generated vault with the notes that answer each: 400 share words with their
answer, 100 say a fact in other words alone.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.brain_facts import DAYS, PEOPLE, Fact
from benchmarks.brain_vault import MadeNote

Sharing: TypeAlias = Literal["facts", "names", "days", "paraphrases"]

COUNTS: dict[Sharing, int] = {"facts": 200, "names": 100, "days": 100, "paraphrases": 100}
_PARAPHRASED_DAYS = 30

_FACTS = (
    "Who in {town} {one} and {two}?",
    "Do you know anybody from {town} who {one}, and who also {two}?",
    "I am looking for the one who {one}. I think they live in {town}, and it is one who {two}.",
)
_NAMES = (
    "Who is {name}?",
    "What do I know about {name}?",
    "Tell me where {name} is and what to remember.",
    "Is there anything on {name} that I should read before we meet?",
)
_MET = (
    "When was it about {one}, on the day that I met {name}?",
    "On which day was there {one} and also {two}, and did I see {name} then?",
)
_PEOPLE_ASKED = ("Who {fact}?", "Is there a person who {fact}?")
_DAYS_ASKED = ("On which date did {fact}?", "When did {fact}?")


class LabelledQuestion(NamedTuple):
    """A question, and the keys of the notes of which each is a right answer."""

    kind: Sharing
    text: str
    answers: frozenset[str]


def make_questions(notes: Sequence[MadeNote]) -> list[LabelledQuestion]:
    """All of them, the same for the same notes."""
    chance = random.Random(500)  # noqa: S311  generated text needs no secrecy
    people = [note for note in notes if note.type == "person"]
    days = [note for note in notes if note.type == "day"]
    named = [note for note in notes if note.type != "day"]
    asked = [_of_person(chance, note, people) for note in chance.sample(people, COUNTS["facts"])]
    asked += [_of_name(chance, note) for note in chance.sample(named, COUNTS["names"])]
    asked += [_of_day(chance, note, days) for note in chance.sample(days, COUNTS["days"])]
    count = COUNTS["paraphrases"] - _PARAPHRASED_DAYS
    asked += _paraphrases(chance, people, chance.sample(PEOPLE, count), _PEOPLE_ASKED)
    asked += _paraphrases(chance, days, chance.sample(DAYS, _PARAPHRASED_DAYS), _DAYS_ASKED)
    return asked


def _of_person(
    chance: random.Random, note: MadeNote, people: Iterable[MadeNote]
) -> LabelledQuestion:
    one, two = chance.sample(note.facts, 2)
    text = chance.choice(_FACTS).format(town=note.town, one=one.asked, two=two.asked)
    right = (each.key for each in people if each.town == note.town and {one, two} <= {*each.facts})
    return LabelledQuestion("facts", text, frozenset(right))


def _of_name(chance: random.Random, note: MadeNote) -> LabelledQuestion:
    text = chance.choice(_NAMES).format(name=chance.choice([note.name, *note.aliases]))
    return LabelledQuestion("names", text, frozenset([note.key]))


def _of_day(chance: random.Random, note: MadeNote, days: Iterable[MadeNote]) -> LabelledQuestion:
    one, two = chance.sample(note.facts, 2)
    name = chance.choice(note.names)
    text = chance.choice(_MET).format(one=one.asked, two=two.asked, name=name)
    right = (each.key for each in days if name in each.names and one in each.facts)
    return LabelledQuestion("days", text, frozenset(right))


def _paraphrases(
    chance: random.Random,
    notes: Sequence[MadeNote],
    facts: Iterable[Fact],
    templates: Sequence[str],
) -> Iterator[LabelledQuestion]:
    """A question for each fact that has no word of it, in any form; every note with that fact
    answers it. Raises ValueError where a word is shared.
    """
    stems = Stems()
    for fact in facts:
        if shared := stems.of(fact.paraphrased) & stems.of(fact.written):
            message = f"{fact.paraphrased!r} shares {shared} with {fact.written!r}"
            raise ValueError(message)
        text = chance.choice(templates).format(fact=fact.paraphrased)
        right = (note.key for note in notes if fact in note.facts)
        yield LabelledQuestion("paraphrases", text, frozenset(right))


class Stems:
    """The stems of a text as porter has them, without words that say nothing."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')"
        )
        self._database.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(texts, row)")
        self._empty = self._stems(_EMPTY_WORDS)

    def of(self, text: str) -> set[str]:
        """The stems of that text."""
        return self._stems(text) - self._empty

    def _stems(self, text: str) -> set[str]:
        self._database.execute("DELETE FROM texts")
        self._database.execute("INSERT INTO texts VALUES (?)", (text,))
        return {row[0] for row in self._database.execute("SELECT term FROM stems")}


_EMPTY_WORDS = """
a about after all also am an and any anybody anyone are as at be before but by cannot could did do
does for from give go had has have he her his how i in into is it its me my near no not nobody of
off on one or our out people person she should so some somebody someone something that the their
them then there they things to too took up us was we were what when where which who whose with you
your
"""
