"""Vaults: generated folders of notes, the same at every run."""

from __future__ import annotations

import random
from pathlib import Path

_WORDS = tuple(
    "garden harvest bread river window letter music winter engine paper harbour lantern orchard "  # noqa: SIM905
    "signal thread compass "
    "market bridge meadow archive kettle summit voyage mirror anchor cobalt ember fabric granite "
    "hollow island jasmine".split()
)


def make_vault(folder: Path, notes: int, watchers: int = 300, folder_size: int = 25) -> Path:
    """A vault of so many notes of some 1 to 4 KB, a tenth with frontmatter, a context file a
    folder, so many of them watching others.
    """
    chance = random.Random(notes)  # noqa: S311  generated text needs no secrecy
    projects = max(1, notes // folder_size)
    for number in range(notes):
        project = number // folder_size
        place = folder / f"Area{project % 20:02d}" / f"project{project:05d}"
        name = "AGENTS.md" if number % folder_size == 0 else f"note-{number:06d}.md"
        if number % folder_size == 0:
            place.mkdir(parents=True)
        watching = number % folder_size == 0 and project < watchers
        (place / name).write_text(
            _text(chance, number, project, projects, watching=watching), "utf-8"
        )
    return folder


def _text(
    chance: random.Random, number: int, project: int, projects: int, *, watching: bool
) -> str:
    lines = []
    if watching:
        other = (project + 1) % projects
        lines = [
            "---",
            "watch:",
            '  - "./*.md"',
            f'  - "Area{other % 20:02d}/project{other:05d}"',
            "---",
        ]
    elif number % 10 == 0:
        lines = [
            "---",
            f"title: Note {number}",
            "tags: [one, two]",
            f"created: 2026-01-{number % 28 + 1:02d}",
            "---",
        ]
    lines += [
        f"# Note {number}",
        "",
        f"> About {chance.choice(_WORDS)}.",
        "",
        "## Current Focus",
        f"- {_sentence(chance)}",
        "",
    ]
    for part in range(chance.randint(2, 6)):
        lines += [
            f"## Part {part}",
            "",
            *(_sentence(chance) for _ in range(chance.randint(3, 9))),
            "",
        ]
    return "\n".join(lines)


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(6, 14))).capitalize() + "."


def make_text(chance: random.Random, size: int) -> str:
    """A note of about that many bytes: headings, paragraphs and lists."""
    lines, length = ["# A note", ""], 0
    while length < size:
        part = [
            f"## {chance.choice(_WORDS).capitalize()}",
            "",
            *(_sentence(chance) for _ in range(5)),
            "",
            *(f"- {_sentence(chance)}" for _ in range(4)),
            "",
        ]
        lines += part
        length += sum(map(len, part))
    return "\n".join(lines)
