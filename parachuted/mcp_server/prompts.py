"""Prompts: a few that a person can choose in their client. They name tools, and hold no note."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parachuted.errors import EditRefusedError, NotFoundError

_LONGEST = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPrompt:
    """One prompt; `{argument}` in its text stands for the one thing that it asks for."""

    name: str
    description: str
    argument: str
    says: str
    text: str


PROMPTS = (
    McpPrompt(
        name="journal",
        description="Write what happened into today's journal.",
        argument="what",
        says="What happened.",
        text=(
            "Write this into my journal of today, in my own words. Use daily-create where there is "
            "such a tool, else append it to Daily/journals/ with today's date:\n\n{argument}"
        ),
    ),
    McpPrompt(
        name="recall",
        description="Answer a question from the notes, with the notes it comes from.",
        argument="question",
        says="The question.",
        text=(
            "Answer from my notes alone. Search them with several wordings, read what you find, "
            "and name the path of each note that you rely on. Where the notes do not say, say "
            "so.\n\n{argument}"
        ),
    ),
    McpPrompt(
        name="why",
        description="Explain where a note's lines come from.",
        argument="path",
        says="The note.",
        text=(
            "Explain with the tools `why` and `history` who wrote what stands in the note "
            "{argument}, in which runs and because of what. Name the run that I would undo to take "
            "the last change back, and do not undo it yourself."
        ),
    ),
)


def filled(name: str, arguments: Mapping[str, str] | None) -> tuple[McpPrompt, str]:
    """The prompt and its text with the argument in it.

    Raises NotFoundError, or EditRefusedError where the argument is missing or too long.
    """
    found = next((one for one in PROMPTS if one.name == name), None)
    if found is None:
        raise NotFoundError(f"there is no prompt {name[:80]}")
    value = (arguments or {}).get(found.argument, "").strip()
    if not 0 < len(value) <= _LONGEST:
        raise EditRefusedError(f"{found.argument} should be a text of 1 to {_LONGEST} characters")
    return found, found.text.replace("{argument}", value)
