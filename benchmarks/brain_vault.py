"""Brain's vault: generated entities and journal days with facts, links and aliases, the same at
every run.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brain_facts import DAYS, PEOPLE, Fact

ENTITIES, LINKS, ALIASES, JOURNAL_DAYS = 10_000, 30_000, 25_000, 3_650

_FIRST = tuple(
    """
    Ada Alma Amos Anna Arlo Asta Axel Bela Bert Bo Britt Carl Cleo Dana Dora Edda Eli Elsa Emil Enzo
    Erik Esme Etta Ezra Fay Finn Flora Frida Gil Greta Gus Hanna Hugo Ida Igor Ines Ivo Jana Jens
    Jon Juno Kai Karin Kim Lars Lea Leif Lena Leo Lina Lou Luca Lucy Maja Marc Mia Mila Mona Nell
    Nils Nina Noa Nora Olaf Olga Omar Otis Otto Paul Pia Quin Rafa Rita Rolf Rosa Runa Saga Sam Sara
    Silas Sofi Sven Tara Theo Tilda Toni Ulla Uma Vera Vito Wanda Wim Xenia Yara Yves Zara Zeno Zoe
    """.split()  # noqa: SIM905
)
_TOWNS = tuple(
    """
    Aarhus Bergen Bilbao Bremen Bruges Cadiz Cork Delft Dover Dresden Exeter Faro Fulda Galway Genoa
    Ghent Graz Kiel Lille Linz Lucca Lund Lyon Mainz Malaga Nantes Narvik Odense Oulu Padua Parma
    Pecs Pisa Porto Rennes Riga Siena Split Tartu Trento Turku Umea Utrecht Vaasa Verona
    """.split()  # noqa: SIM905
)
_FILLER = tuple(
    """
We talked for an hour and agreed to meet again in {month}.
There is more about this in an email that came in {month}.
A letter from {town} lies on the shelf and should be answered soon.
The last visit was short, but everything important was said.
It was a long evening with soup, candles and old stories.
Nobody remembers who brought the blue suitcase.
Call back before the end of {month}, ideally in the afternoon.
The address changed twice since the summer in {town}.
All of it began with a misunderstanding at the station of {town}.
Send a card in {month}, with a picture of the harbour.
The plan is still open and depends on the others.
Asked about the holidays; the answer was vague and friendly.
Prefers short messages and replies within a day or so.
There was laughter, then a silence that lasted.
Ask about the key that was left in {town}.
The notes of {month} are in the other folder.
Two photographs were taken in front of the museum of {town}.
A good listener, with a habit of walking up and down.
Owed me a favour since {month}, which is settled now.
We should have started earlier, as usual.
The weather in {town} was grey, and it did not matter.
Introduced me to half of the street in one evening.
Everything else is in the shared document of {month}.
Do not forget the umbrella that belongs to the family.
""".strip().splitlines()
)
_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_KINDS = (
    ("person", "people", 0.6),
    ("organization", "organizations", 0.1),
    ("project", "projects", 0.15),
    ("topic", "topics", 0.1),
    ("event", "events", 0.06),
)
_SUFFIXES = {
    "organization": ("Works", "Trust", "Partners", "House"),
    "project": ("Plan", "Pilot", "Atlas", "Rebuild"),
    "topic": ("theory", "practice", "history", "methods"),
    "event": ("Summit", "Weekend", "Fair", "Meeting"),
}
_LABELS = ("Founder", "Advisor", "friend", "works with", "member", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeNote:
    """An entity, or a day (`type` "day"): what a file of the vault says, `links` by key."""

    key: str
    type: str
    name: str
    path: str
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    town: str = ""
    text: str
    facts: tuple[Fact, ...] = ()
    names: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def make_notes(entities: int = ENTITIES, days: int = JOURNAL_DAYS) -> list[MadeNote]:
    """All entities, then all days."""
    chance = random.Random(entities)  # noqa: S311  generated text needs no secrecy
    surnames = _surnames(chance, entities)
    names = [_named(chance, surname, number, entities) for number, surname in enumerate(surnames)]
    made = [_entity(chance, number, names) for number in range(entities)]
    people = [note for note in made if note.type == "person"]
    first = dt.date(2016, 1, 1)
    return made + [_day(chance, first + dt.timedelta(number), people) for number in range(days)]


def write_notes(notes: Iterable[MadeNote], folder: Path) -> Path:
    """The vault as files."""
    for note in notes:
        path = folder / note.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_matter(note)}{note.text}", "utf-8")
    return folder


def journal_text(notes: Sequence[MadeNote], words: int, seed: int) -> str:
    """A journal entry of so many words that names an entity in every third sentence or so."""
    chance = random.Random(seed)  # noqa: S311
    entities = [note for note in notes if note.type != "day"]
    parts: list[str] = []
    count = 0
    while count < words:
        first = len(parts)
        parts.append(_filler(chance))
        if chance.random() < 0.3:  # noqa: PLR2004
            note = chance.choice(entities)
            called = chance.choice([note.name, *note.aliases])
            parts.append(f"Then {called} {chance.choice(PEOPLE).written}.")
        if chance.random() < 0.1:  # noqa: PLR2004
            parts.append("\n\n")
        count += sum(len(part.split()) for part in parts[first:])
    return " ".join(" ".join(parts).split(" ")[:words])


def _surnames(chance: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = (
            chance.choice("bdfghklmnprstvz") + chance.choice("aeiou")
            for _ in range(chance.randint(2, 3))
        )
        found["".join(syllables).capitalize() + chance.choice(["n", "r", "s", "l", "m"])] = None
    return list(found)


def _named(
    chance: random.Random, surname: str, number: int, count: int
) -> tuple[str, str, str, tuple[str, ...]]:
    """Type, folder, name and aliases of an entity: two or three aliases each."""
    bounds = itertools.accumulate(share for _kind, _folder, share in _KINDS)
    part = (number + 0.5) / count
    kind, folder, _share = _KINDS[next(at for at, bound in enumerate(bounds) if part < bound)]
    if kind == "person":
        first = chance.choice(_FIRST)
        aliases = [f"{first[0]}. {surname}", f"Mr. {surname}", surname][: 2 + number % 2]
        return kind, folder, f"{first} {surname}", tuple(aliases)
    name = f"{surname} {chance.choice(_SUFFIXES[kind])}"
    aliases = [surname.upper()[:5] + str(number % 97), f"the {surname} {kind}", surname]
    return kind, folder, name, tuple(aliases[: 2 + number % 2])


def _entity(
    chance: random.Random, number: int, names: Sequence[tuple[str, str, str, tuple[str, ...]]]
) -> MadeNote:
    kind, folder, name, aliases = names[number]
    facts = tuple(chance.sample(PEOPLE, 3)) if kind == "person" else ()
    town = chance.choice(_TOWNS)
    others = [chance.randrange(len(names)) for _ in range(LINKS // ENTITIES)]
    links = tuple((f"e{other}", chance.choice(_LABELS)) for other in others)
    said = [f"{name.split()[0]} {facts[0].written}."] if facts else [_filler(chance)]
    said += [_filler(chance), _filler(chance)]
    said += [f"Also {fact.written}." for fact in facts[1:]]
    said += [_filler(chance) for _ in range(chance.randint(2, 6))]
    related = [
        f"- [[{_slug(names[other][2])}]]{' - ' if label else ''}{label}"
        for other, (_key, label) in zip(others, links, strict=True)
    ]
    text = "\n\n".join(
        [
            f"# {name}",
            f"Lives in {town}." if facts else f"In {town}.",
            " ".join(said[:2]),
            *said[2:],
            "## Relationships",
            "\n".join(related),
        ]
    )
    return MadeNote(
        key=f"e{number}",
        type=kind,
        name=name,
        path=f"Brain/entities/{folder}/{_slug(name)}.md",
        aliases=aliases,
        tags=(town.lower(),),
        town=town,
        text=f"{text}\n",
        facts=facts,
        links=links,
    )


def _day(chance: random.Random, day: dt.date, people: Sequence[MadeNote]) -> MadeNote:
    facts = tuple(chance.sample(DAYS, 3))
    met = chance.sample(people, 2)
    parts = [f"# {hour:02d}:{chance.randrange(60):02d}" for hour in (8, 13, 20)]
    entries = [
        f"{heading}\n\n{_filler(chance)} Today {fact.written}. {_filler(chance)}"
        for heading, fact in zip(parts, facts, strict=True)
    ]
    entries.insert(1, f"Met {met[0].name}, and later {met[1].name}.")
    return MadeNote(
        key=f"d{day}",
        type="day",
        name=str(day),
        path=f"Daily/journals/{day}.md",
        text="\n\n".join(entries) + "\n",
        facts=facts,
        names=tuple(note.name for note in met),
    )


def _filler(chance: random.Random) -> str:
    sentence = chance.choice(_FILLER)
    return sentence.format(month=chance.choice(_MONTHS), town=chance.choice(_TOWNS))


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def _matter(note: MadeNote) -> str:
    if note.type == "day":
        return f"---\ndate: {note.name}\n---\n\n"
    return (
        f"---\npara_id: para:brain:{note.key:0>12}\ntype: {note.type}\n"
        f"aliases: [{', '.join(note.aliases)}]\ntags: [{', '.join(note.tags)}]\n---\n\n"
    )
