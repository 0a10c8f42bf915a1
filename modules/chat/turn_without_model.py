"""Answers without a model: from the notes, and from the log of what agents did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from parachuted.modules import Module

from .messages import Message
from .no_model import NO_MODEL
from .passages import Passage, find_passages
from .write_back import StoredFact

_LONGEST: Final = 400
_NOTHING: Final = "Your notes say nothing about it that I can find."
_NOT_READ: Final = "This conversation may read no notes; its permissions change that."
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
class NotesAnswer:
    """An answer, and the notes that it quotes."""

    text: str
    sources: tuple[str, ...]


async def answer_from_notes(
    module: Module, message: str, reach: Sequence[str] | None = None
) -> NotesAnswer:
    """What the notes within `reach` (patterns; None: all) say of a message: by Brain's recall where
    there is Brain, else by search.
    """
    found = await find_passages(module, message, reach)
    if not found:
        nothing = _NOT_READ if reach == () else _NOTHING
        return NotesAnswer(f"{NO_MODEL}\n\n{nothing}\n\n{_AGAIN}", ())
    lines = [f"- {_said_in(one)} ({_link(one)})" for one in found]
    text = "\n".join([NO_MODEL, "", *lines, "", _AGAIN])
    return NotesAnswer(text, tuple(dict.fromkeys(one.path for one in found)))


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


def _said_in(passage: Passage) -> str:
    """Its words, and the facts of an entity that these lack."""
    facts = _short("; ".join(one for one in passage.facts if one not in passage.text))
    return "; ".join(
        filter(None, [_short(passage.text).rstrip(".") if facts else _short(passage.text), facts])
    )


def _link(passage: Passage) -> str:
    place = passage.path.removesuffix(".md")
    return f"[[{place}]]" if passage.title in {"", place} else f"[[{place}|{passage.title}]]"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


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
