"""Notes, and changes of them, as JSON on the pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from parachuted.access.notes import (
    NOTE_EDITS,
    Note,
    NoteChange,
    NoteEdit,
    NoteLink,
    NoteRow,
    NoteSection,
)
from parachuted.modules.results import to_json

MOST_EDITS = 1_000
_EDITS = {kind.__name__: kind for kind in NOTE_EDITS}
_SECTION = tuple(one.name for one in fields(NoteSection))
_LINK = tuple(one.name for one in fields(NoteLink))


class _Edit(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _SetKey(_Edit):
    edit: Literal["SetKey"]
    key: str
    value: str | int | float | bool | list[str]


class _RemoveKey(_Edit):
    edit: Literal["RemoveKey"]
    key: str


class _Section(_Edit):
    edit: Literal["SetSection", "AppendSection"]
    section: str
    content: str


class _ReplaceSpan(_Edit):
    edit: Literal["ReplaceSpan"]
    start: int
    end: int
    text: str


EditBody: TypeAlias = Annotated[
    _SetKey | _RemoveKey | _Section | _ReplaceSpan, Field(discriminator="edit")
]
"""One change, as a module's process sends it."""


class ChangeBody(BaseModel):
    """What is to become of one note, as a module's process sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str
    edits: Annotated[list[EditBody], Field(max_length=MOST_EDITS)] | None
    base: str | None


def change_to_json(change: NoteChange) -> Mapping[str, object]:
    """Raises TypeError as `edit_to_json` does."""
    edits = None if change.edits is None else [edit_to_json(one) for one in change.edits]
    return {"path": change.path, "edits": edits, "base": change.base}


def change_of(body: ChangeBody) -> NoteChange:
    """The change again."""
    edits = None if body.edits is None else [edit_of(one) for one in body.edits]
    return NoteChange(body.path, edits, body.base)


def edit_to_json(edit: NoteEdit) -> Mapping[str, object]:
    """Raises TypeError for what is no change of a note."""
    if not isinstance(edit, NOTE_EDITS):
        raise TypeError(f"{type(edit).__name__} is no change of a note, such as SetKey")
    return {"edit": type(edit).__name__, **asdict(edit)}


def edit_of(body: EditBody) -> NoteEdit:
    """The change again."""
    given = body.model_dump()
    return _EDITS[given.pop("edit")](**given)


def note_to_json(note: Note) -> Mapping[str, object]:
    """All of it: the other end has no index to look links up in."""
    return {
        "path": note.path,
        "digest": note.digest,
        "text": note.text,
        "frontmatter": to_json(note.frontmatter),
        "title": note.title,
        "tags": list(note.tags),
        "created": note.created.isoformat(),
        "modified": note.modified.isoformat(),
        "body_start": note.body_start,
        "sections": [[getattr(one, name) for name in _SECTION] for one in note.sections],
        "links": [[getattr(one, name) for name in _LINK] for one in note.links],
    }


def row_of(value: Mapping[str, Any]) -> NoteRow:
    """A note of a list, as `to_json` sent it."""
    modified = datetime.fromisoformat(value["modified"])
    return NoteRow(**{**value, "tags": tuple(value["tags"]), "modified": modified})


def note_of(value: Mapping[str, Any]) -> Note:
    """The note again, as the daemon sent it."""
    given = dict(value)
    sections: Sequence[Sequence[Any]] = given.pop("sections")
    links: Sequence[Sequence[Any]] = given.pop("links")
    return Note(
        **{
            **given,
            "tags": tuple(given["tags"]),
            "created": datetime.fromisoformat(given["created"]),
            "modified": datetime.fromisoformat(given["modified"]),
        },
        find_sections=lambda _text: tuple(
            NoteSection(**dict(zip(_SECTION, one, strict=True))) for one in sections
        ),
        find_links=lambda _text: tuple(
            NoteLink(**dict(zip(_LINK, one, strict=True))) for one in links
        ),
    )
