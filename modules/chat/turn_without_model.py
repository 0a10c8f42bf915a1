"""Answers without a model: from the notes, and from the log of what agents did."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from parachuted.errors import ParachuteError
from parachuted.modules import Hit, Module

from .messages import Message
from .no_model import plain_lines
from .write_back import StoredFact

_WORD: Final = re.compile(r"\w{4,}")
_TAG: Final = re.compile(r"</?mark>")
_MOST_WORDS, _MOST_NOTES, _LONGEST_PASSAGE = 10, 5, 400
_NO_MODEL: Final = "No model can be asked now, so this is no answer but what your notes say."
_NOTHING: Final = "Your notes say nothing about it that I can find."
_AGAIN: Final = "Ask again when there is a model; the question stays in this conversation."
_ACCOUNT: Final = re.compile(
    r"\s*(so\s+)?what\s+(exactly\s+)?(did|have)\s+you\s+(just\s+|really\s+)*(do|done|change|changed)"
    r"(\s+(so\s+far|here|in\s+this\s+(chat|conversation)|just\s+now))?\s*[?.!]*\s*",
    re.IGNORECASE,
)
_FATES: Final[dict[str, str]] = {
    "kept": "remembered in",
    "waiting": "suggested for",
    "approved": "suggested, and approved, for",
    "rejected": "suggested, and rejected, for",
    "undone": "remembered, and taken back, in",
}
_PATH_NAMES: Final = ("path", "file_path", "source", "target", "query", "command", "title")


@dataclass(frozen=True, slots=True)
class Passage:
    """What a note says, and where."""

    title: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class NotesAnswer:
    """An answer, and the notes that it quotes."""

    text: str
    sources: tuple[str, ...]


async def answer_from_notes(module: Module, message: str) -> NotesAnswer:
    """What the notes say of a message: by Brain's recall where there is Brain, else by search."""
    found = await _recalled(module, message) or await _searched(module, message)
    own = [one for one in found if not one.path.startswith("Chat/sessions/")][:_MOST_NOTES]
    if not own:
        return NotesAnswer(f"{_NO_MODEL}\n\n{_NOTHING}\n\n{_AGAIN}", ())
    lines = [f"- {_short(_words_of(one))} ({_link(one)})" for one in own]
    text = "\n".join([_NO_MODEL, "", *lines, "", _AGAIN])
    return NotesAnswer(text, tuple(dict.fromkeys(one.path for one in own)))


def asks_for_account(message: str) -> bool:
    """Whether a message asks what the agent did, and nothing else."""
    return _ACCOUNT.fullmatch(message) is not None


def remembered(stored: Sequence[StoredFact]) -> str:
    """What was kept in Brain, where, and how to take it back."""
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


def account_of(messages: Sequence[Message], stored: Sequence[StoredFact] = ()) -> str:
    """What the agents of a conversation did, by the records of their runs. No model is asked: it
    would tell what it believes. `stored` are the facts that the conversation left in Brain.
    """
    lines: list[str] = []
    for one in messages:
        run = one.meta.get("run")
        if one.role != "assistant" or not run:
            continue
        failed = one.meta.get("failed")
        wrong = set(map(str, failed)) if isinstance(failed, list) else set()
        lines.append(f"Run `{run}`, {one.at or 'at an unknown time'}: {_outcome(one)}")
        lines += [
            f"- {tool.name}{_argument(tool.input)}{' (failed)' if tool.id in wrong else ''}"
            for tool in one.tools
        ]
    for fact in stored:
        run = f"Run `{fact.run}`, {fact.at}" if fact.run else fact.at
        lines += [f"{run}: {_FATES[fact.status]} {fact.path}", f"- {fact.text}"]
    if not lines:
        return "By the log of runs, no agent has run in this conversation yet."
    return "\n".join(
        [
            "By the log of runs, not by a model's memory:",
            "",
            *lines,
            "",
            "`parachute undo RUN` takes back what a run wrote.",
        ]
    )


async def _recalled(module: Module, message: str) -> list[Passage]:
    brain: Any = module.get_interface("BrainInterface")
    if brain is None:
        return []
    try:
        found = await brain.recall(message, _MOST_NOTES)
    except ParachuteError as error:
        module.log.warning("Brain was not asked", extra={"why": error.message})
        return []
    return [
        Passage(str(one["title"]), str(one["path"]), str(one["text"]))
        for one in found["results"]
        if one["is_match"]
    ]


async def _searched(module: Module, message: str) -> list[Passage]:
    """The notes that have most of the words, of which rare ones count most."""
    hits: dict[str, Hit] = {}
    weights: Counter[str] = Counter()
    for word in list(dict.fromkeys(_WORD.findall(message.casefold())))[:_MOST_WORDS]:
        found = await module.vault.search(word, 20)
        for one in found:
            hits.setdefault(one.path, one)
            weights[one.path] += 1_000 // len(found)
    return [
        Passage(hits[path].title, path, _matching(hits[path].snippet))
        for path, _ in weights.most_common(2 * _MOST_NOTES)
    ]


def _matching(snippet: str) -> str:
    """The lines of a search's snippet that have a word that was looked for, as they stand in the
    note; a heading is one only where there is no other.
    """
    lines = [line for line in snippet.splitlines() if line.strip()]
    marked = [line for line in lines if _TAG.search(line) and not line.lstrip().startswith("#")]
    return html.unescape(_TAG.sub("", "\n".join(marked or lines)))


def _words_of(passage: Passage) -> str:
    """Its text in one line without markup, and without the title at its beginning."""
    text = " ".join(plain_lines(passage.text))
    title = passage.title
    begins = title and text.startswith(f"{title} ")
    return text[len(title) :].strip() if begins else text


def _link(passage: Passage) -> str:
    place = passage.path.removesuffix(".md")
    title = passage.title or passage.path
    return f"[[{place}]]" if title == place else f"[[{place}|{title}]]"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_PASSAGE else f"{words[:_LONGEST_PASSAGE]}…"


def _outcome(message: Message) -> str:
    if message.meta.get("aborted"):
        return "stopped by you"
    return str(message.meta.get("outcome") or "ended")


def _argument(arguments: object) -> str:
    if not isinstance(arguments, dict):
        return ""
    for name in _PATH_NAMES:
        if isinstance(arguments.get(name), str):
            return f" `{_short(arguments[name])[:120]}`"
    return ""
