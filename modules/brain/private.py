"""Private parts of an entity, which Brain keeps and shows to no one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from parachuted.modules import Note, visible_to_agents

_KEPT: Final = ("para_id", "type")  # of an entity that is private as a whole


def without_private(note: Note) -> str:
    """The text that anyone may be given; its body begins where the note's does. Of a note that is
    private as a whole the frontmatter stays: visible_frontmatter says what of it.
    """
    visible = visible_to_agents(note.text)
    front = note.text[: note.body_start]
    return visible if visible.startswith(front) else front


def visible_frontmatter(note: Note) -> Mapping[str, object]:
    """Its keys; of a note that is private as a whole, its id and its type."""
    if visible_to_agents(note.text).startswith(note.text[: note.body_start]):
        return note.frontmatter
    return {key: note.frontmatter[key] for key in _KEPT if key in note.frontmatter}


def has_private(note: Note) -> bool:
    return without_private(note) != note.text
