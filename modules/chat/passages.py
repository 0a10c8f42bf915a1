"""Passages: what notes say of a message, in clean words, each with its title."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from parachuted.errors import ParachuteError
from parachuted.modules import Hit, Module, Note, visible_to_agents

from .brain_access import brain_of
from .no_model import plain_lines
from .session import FOLDER

_WORD: Final = re.compile(r"\w{4,}")
_TAG: Final = re.compile(r"</?mark>")
_PARA_ID: Final = re.compile(r"\bpara:[a-z]+:\w+\s*")
_MOST_WORDS, _MOST, _MOST_READ = 10, 5, 15


@dataclass(frozen=True, slots=True)
class Passage:
    """What a note says, and where; `facts` are the lines of facts of an entity's note."""

    title: str
    path: str
    text: str
    facts: tuple[str, ...] = ()
    is_generated: bool = False


async def find_passages(
    module: Module, message: str, reach: Sequence[str] | None = None
) -> list[Passage]:
    """The best few: by Brain's recall where there is Brain, else by search. Conversations are left
    out, as is what is not within `reach` (patterns such as `Garden/**`; None: all), and what agents
    made of notes comes after the notes.
    """
    starts = tuple(one.removesuffix("**") for one in (("**",) if reach is None else reach))
    recalled = [one for one in await _recalled(module, message) if one.path.startswith(starts)]
    found = recalled or await _searched(module, message, starts)
    read = [await _cleaned(module, one, message) for one in found[:_MOST_READ]]
    said = [one for one in read if one.text or one.facts]
    return sorted(said, key=lambda one: one.is_generated)[:_MOST]


async def _recalled(module: Module, message: str) -> list[Passage]:
    brain = brain_of(module)
    found: list[Passage] = []
    for one in await brain.find(message, 4 * _MOST) if brain else ():
        facts = await brain.facts(one.path) if brain and one.type else []
        found.append(Passage(one.name, one.path, one.passage or one.description, tuple(facts)))
    return found


async def _searched(module: Module, message: str, starts: tuple[str, ...]) -> list[Passage]:
    """The notes that have most of the words, of which rare ones count most."""
    hits: dict[str, Hit] = {}
    weights: Counter[str] = Counter()
    for word in list(dict.fromkeys(_WORD.findall(message.casefold())))[:_MOST_WORDS]:
        found = await module.vault.search(word, 40)
        mine = [one for one in found if one.path.startswith(starts)]
        notes = [one for one in mine if not one.path.startswith(FOLDER)]
        for one in notes:
            hits.setdefault(one.path, one)
            weights[one.path] += 1_000 // len(notes)
    return [
        Passage(hits[path].title, path, _matching(hits[path].snippet))
        for path, _ in weights.most_common(_MOST_READ)
    ]


def _matching(snippet: str) -> str:
    """The lines of a search's snippet that have a word that was looked for, as they stand in the
    note; a heading is one only where there is no other.
    """
    lines = [line for line in snippet.splitlines() if line.strip()]
    marked = [line for line in lines if _TAG.search(line) and not line.lstrip().startswith("#")]
    return html.unescape(_TAG.sub("", "\n".join(marked or lines)))


async def _cleaned(module: Module, passage: Passage, message: str) -> Passage:
    """The passage without markup, ids and frontmatter, below the title that it stands under."""
    try:
        note = await module.vault.note(passage.path)
    except ParachuteError:  # it was removed meanwhile, or has no text
        return replace(passage, text=words_of(passage.text, passage.title))
    front = {line.strip() for line in note.text[: note.body_start].splitlines()}
    lines = [one for one in passage.text.splitlines() if one.strip() not in front]
    if sum(one.level == 1 for one in note.sections) > 1:
        lines = _best_entry(lines, message)
    text, title = "\n".join(lines), _plain(_title_above(note, lines) or passage.title)
    return replace(
        passage,
        title=re.sub(r"[\[\]|]", "", title),
        text=words_of(text, title),
        facts=tuple(" ".join(plain_lines(one)) for one in passage.facts),
        is_generated="generated_at" in note.frontmatter,
    )


def _best_entry(lines: list[str], message: str) -> list[str]:
    """Of a passage that runs over several entries, the one with most words of the message."""
    entries: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("# "):
            entries.append([])
        entries[-1].append(line)
    asked = set(re.findall(r"\w+", message.casefold()))
    return max(
        entries, key=lambda one: len(asked & set(re.findall(r"\w+", " ".join(one).casefold())))
    )


def _title_above(note: Note, lines: list[str]) -> str:
    """In a note of several entries, the title of that with the first of these lines of text; else
    "".
    """
    entries = [one for one in note.sections if one.level == 1]
    said = next((one.strip() for one in lines if one.strip() and not _is_heading(one)), "")
    at = note.text.find(said, note.body_start) if said and len(entries) > 1 else -1
    title = next((one.heading for one in entries if one.start <= at < one.end), "")
    return title if title in visible_to_agents(note.text) else ""


def words_of(text: str, title: str) -> str:
    """The words of a passage in one line: no headings, where there is other text, and not the title
    again.
    """
    lines = text.splitlines()
    prose = [one for one in lines if not _is_heading(one)]
    words = _plain("\n".join(prose)) or _plain("\n".join(lines))
    return words[len(title) :].strip() if title and words.startswith(f"{title} ") else words


def _plain(text: str) -> str:
    return " ".join(_PARA_ID.sub("", " ".join(plain_lines(text))).split())


def _is_heading(line: str) -> bool:
    return line.lstrip().startswith("#")
