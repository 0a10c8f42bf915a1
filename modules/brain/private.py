"""Private parts of an entity: no list, no question and no context shows them.

Brain answers agents as well as people, so that it keeps none of these texts.
"""

from __future__ import annotations

from parachuted.modules import Note, visible_to_agents


def without_private(note: Note) -> str:
    """The text of an entity as everybody may see it. Of a note that is private as a whole the
    frontmatter stays, which has its id.
    """
    visible = visible_to_agents(note.text)
    front = note.text[: note.body_start]
    return visible if visible.startswith(front) else front


def has_private(note: Note) -> bool:
    """Whether something of it is private."""
    return without_private(note) != note.text
