"""What Chat says without a model: titles and summaries in a conversation's own words, and answers
from the notes.
"""

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
from .session import FOLDER
from .write_back import StoredFact

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
_LONGEST: Final = 400
_NOTHING: Final = "Your notes say nothing about it that I can find."
_NOT_READ: Final = "This conversation may read no notes; its permissions change that."
_AGAIN: Final = "Ask again when there is a model; the question stays in this conversation."
_WORD: Final = re.compile(r"\w{4,}")
_TAG: Final = re.compile(r"</?mark>")
_PARA_ID: Final = re.compile(r"\bpara:[a-z]+:\w+\s*")
_MOST_WORDS, _MOST, _MOST_READ = 10, 5, 15


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
    found = _SENTENCE.match(line)
    return found[0] if found else line


def plain_lines(text: str) -> list[str]:
    text = _LINK.sub(lambda link: link[1] or link[2] or "", _COMMENT.sub(" ", text))
    lines = (" ".join(_MARKS.sub("", line).split()) for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    begin = text[: most - 1]
    return f"{begin.rpartition(' ')[0] or begin} …"[:most]


@dataclass(frozen=True, slots=True)
class Passage:
    title: str
    path: str
    text: str
    facts: tuple[str, ...] = ()
    is_generated: bool = False


async def answer_from_notes(
    module: Module, message: str, reach: Sequence[str] | None
) -> tuple[str, list[str]]:
    found = await _passages(module, message, reach)
    if not found:
        nothing = _NOT_READ if reach == () else _NOTHING
        return f"{NO_MODEL}\n\n{nothing}\n\n{_AGAIN}", []
    lines = [f"- {_said_in(one)} ({_link(one)})" for one in found]
    text = "\n".join([NO_MODEL, "", *lines, "", _AGAIN])
    return text, list(dict.fromkeys(one.path for one in found))


def remembered(stored: Sequence[StoredFact]) -> str:
    lines = []
    for one in stored:
        if one.status == "waiting":
            lines.append(
                f"Suggested for {one.path}: {one.text}\n\n"
                "`parachute suggestions` shows it, and it is written when you approve it."
            )
        else:
            back = f"`parachute undo {one.run}`" if one.run else f"Removing {one.path}"
            lines.append(f"Remembered in {one.path}: {one.text}\n\n{back} takes it back.")
    return "\n\n".join(lines)


def _said_in(passage: Passage) -> str:
    facts = _short("; ".join(fact for fact in passage.facts if fact not in passage.text))
    return "; ".join(
        filter(None, [_short(passage.text).rstrip(".") if facts else _short(passage.text), facts])
    )


def _link(passage: Passage) -> str:
    place = passage.path.removesuffix(".md")
    return f"[[{place}]]" if passage.title in {"", place} else f"[[{place}|{passage.title}]]"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


async def _passages(module: Module, message: str, reach: Sequence[str] | None) -> list[Passage]:
    """The best few, by Brain's recall or by search; what agents made of notes comes last."""
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
        for note in notes:
            hits.setdefault(note.path, note)
            weights[note.path] += 1_000 // len(notes)
    return [
        Passage(hits[path].title, path, _matching(hits[path].snippet))
        for path, _ in weights.most_common(_MOST_READ)
    ]


def _matching(snippet: str) -> str:
    """A heading only where no other line has a word that was looked for."""
    lines = [line for line in snippet.splitlines() if line.strip()]
    marked = [line for line in lines if _TAG.search(line) and not line.lstrip().startswith("#")]
    return html.unescape(_TAG.sub("", "\n".join(marked or lines)))


async def _cleaned(module: Module, passage: Passage, message: str) -> Passage:
    try:
        note = await module.vault.note(passage.path)
    except ParachuteError:  # it was removed meanwhile, or has no text
        return replace(passage, text=words_of(passage.text, passage.title))
    front = {line.strip() for line in note.text[: note.body_start].splitlines()}
    lines = [one for one in passage.text.splitlines() if one.strip() not in front]
    if sum(section.level == 1 for section in note.sections) > 1:
        lines = _best_entry(lines, message)
    text, title = "\n".join(lines), _plain(_title_above(note, lines) or passage.title)
    return replace(
        passage,
        title=re.sub(r"[\[\]|]", "", title),
        text=words_of(text, title),
        facts=tuple(" ".join(plain_lines(fact)) for fact in passage.facts),
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
    entries = [section for section in note.sections if section.level == 1]
    said = next((line.strip() for line in lines if line.strip() and not _is_heading(line)), "")
    at = note.text.find(said, note.body_start) if said and len(entries) > 1 else -1
    title = next((entry.heading for entry in entries if entry.start <= at < entry.end), "")
    return title if title in visible_to_agents(note.text) else ""


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
