"""Rebase: applies an edit that was based on one text to what the text is now."""

from __future__ import annotations

from parachuted.errors import ConflictError, NotFoundError
from parachuted.vault.edits import (
    AppendToSection,
    DeleteKey,
    Edit,
    ReplaceSection,
    SetKey,
    apply_edit,
    section_for,
)
from parachuted.vault.merge import merge_three
from parachuted.vault.note import Note, parse_note


def rebase(edit: Edit, base: bytes, current: bytes) -> bytes:
    """The current text with the edit in it.

    Raises ConflictError when both changed the same place.
    """
    if isinstance(edit, AppendToSection) or _same_place(
        edit, parse_note(base), parse_note(current)
    ):
        return apply_edit(edit, current)
    ours = apply_edit(edit, base)
    merged = merge_three(base, ours, current)
    if not merged.clean:
        raise ConflictError(base=base, ours=ours, theirs=current)
    return merged.data


def _same_place(edit: Edit, base: Note, current: Note) -> bool:
    """Whether what the edit names holds the same bytes in both texts."""
    if isinstance(edit, ReplaceSection):
        return _section_bytes(base, edit) == _section_bytes(current, edit)
    if isinstance(edit, SetKey | DeleteKey):
        return _key_bytes(base, edit.key) == _key_bytes(current, edit.key)
    return False


def _section_bytes(note: Note, edit: ReplaceSection) -> bytes | None:
    try:
        section = section_for(edit, note)
    except NotFoundError:
        return None
    return note.data[section.span.start : section.span.stop] if section else None


def _key_bytes(note: Note, name: str) -> bytes | None:
    return next(
        (note.data[key.span.start : key.span.stop] for key in note.keys if key.name == name), None
    )
