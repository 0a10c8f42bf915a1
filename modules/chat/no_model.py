"""What Chat answers without a model: passages of the notes, and what it remembered."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from parachuted.modules import Hit, Module

from .brain import FoundEntity, brain_of
from .plain_words import NO_MODEL, plain_lines, words_of
from .session import FOLDER
from .write_back import StoredFact

_LONGEST: Final = 400
_NOTHING: Final = "Your notes say nothing about it that I can find."
_NOT_READ: Final = "This conversation may read no notes; its permissions change that."
_AGAIN: Final = "Ask again when there is a model; the question stays in this conversation."
_WORD: Final = re.compile(r"\w{4,}")
_TAG: Final = re.compile(r"</?mark>")
_MOST_WORDS, _MOST = 10, 5


async def answer_from_notes(
    module: Module, message: str, reach: Sequence[str] | None
) -> tuple[str, list[str]]:
    """The best few passages, by Brain's recall or else by search, and the paths of their notes."""
    starts = tuple(one.removesuffix("**") for one in (("**",) if reach is None else reach))
    brain = brain_of(module)
    entities = await brain.find(message, 4 * _MOST) if brain is not None else []
    entities = [entity for entity in entities if entity.path.startswith(starts)]
    lines, paths = list[str](), dict[str, None]()
    for passage in entities or await _searched(module, message, starts):
        facts = await brain.facts(passage.path) if brain is not None and passage.type else []
        title = words_of(passage.name, "")
        text = _short(words_of(passage.passage or passage.description, title))
        others = [" ".join(plain_lines(fact)) for fact in facts if fact not in text]
        said = "; ".join(filter(None, [text.rstrip(".") if others else text, *others]))
        if said and len(lines) < _MOST:
            paths[passage.path] = None
            lines.append(f"- {_short(said)} ({_link(passage.path, title)})")
    if not lines:
        lines = [_NOT_READ if reach == () else _NOTHING]
    return "\n".join([NO_MODEL, "", *lines, "", _AGAIN]), list(paths)


def remembered(stored: Sequence[StoredFact]) -> str:
    lines = []
    for fact in stored:
        if fact.status == "waiting":
            lines.append(
                f"Suggested for {fact.path}: {fact.text}\n\n"
                "`parachute suggestions` shows it, and it is written when you approve it."
            )
        else:
            back = f"`parachute undo {fact.run}`" if fact.run else f"Removing {fact.path}"
            lines.append(f"Remembered in {fact.path}: {fact.text}\n\n{back} takes it back.")
    return "\n\n".join(lines)


def _link(path: str, title: str) -> str:
    place, title = path.removesuffix(".md"), re.sub(r"[\[\]|]", "", title)
    return f"[[{place}]]" if title in {"", place} else f"[[{place}|{title}]]"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


async def _searched(module: Module, message: str, starts: tuple[str, ...]) -> list[FoundEntity]:
    """The notes that have most of the words, of which rare ones count most."""
    hits: dict[str, Hit] = {}
    weights: Counter[str] = Counter()
    for word in list(dict.fromkeys(_WORD.findall(message.casefold())))[:_MOST_WORDS]:
        found = await module.vault.search(word, 40)
        mine = [one for one in found if one.path.startswith(starts)]
        notes = [hit for hit in mine if not hit.path.startswith(FOLDER)]
        for note in notes:
            hits.setdefault(note.path, note)
            weights[note.path] += 1_000 // len(notes)
    return [
        FoundEntity(
            name=hits[path].title, type="", path=path, description=_matching(hits[path].snippet)
        )
        for path, _ in weights.most_common(3 * _MOST)
    ]


def _matching(snippet: str) -> str:
    """A heading only where no other line has a word that was looked for."""
    lines = [line for line in snippet.splitlines() if line.strip()]
    marked = [line for line in lines if _TAG.search(line) and not line.lstrip().startswith("#")]
    return html.unescape(_TAG.sub("", "\n".join(marked or lines)))
