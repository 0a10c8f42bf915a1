"""Note codec: what crosses the pipe arrives as it was sent."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from parachuted.access.notes import (
    AppendSection,
    Note,
    NoteEdit,
    NoteLink,
    NoteSection,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    SetSection,
)
from parachuted.modules.hosting.codec import note_of, note_to_json

EDIT: TypeAdapter[NoteEdit] = TypeAdapter(NoteEdit, config=ConfigDict(extra="forbid", strict=True))
EDITS = [
    SetKey("a", 1),
    SetKey("a", value=True),
    SetKey("a", ["x", "y"]),
    RemoveKey("a"),
    SetSection("Log", "x"),
    AppendSection("A > B", "é"),
    ReplaceSpan(0, 2, "x"),
]
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def test_a_note_arrives_with_its_sections_and_links():
    section = NoteSection(heading="A", level=1, start=0, body=4, end=9)
    link = NoteLink(target="b", label=None, kind="embed", start=6, end=7, path="b.md")
    note = Note(
        path="a.md",
        digest="d",
        text="# A\n\nï[[b]]",
        frontmatter={"n": [1, None, {"x": "y"}]},
        title="A",
        tags=("t",),
        created=NOON,
        modified=NOON,
        body_start=0,
        find_sections=lambda _text: (section,),
        find_links=lambda _text: (link,),
    )

    there = note_of(json.loads(json.dumps(note_to_json(note))))
    assert there == note
    assert (there.sections, there.links) == ((section,), (link,))
    assert replace(section, end=8) != there.sections[0]


@pytest.mark.parametrize("edit", EDITS, ids=repr)
def test_an_edit_arrives_as_it_was_made(edit):
    assert EDIT.validate_json(EDIT.dump_json(edit)) == edit


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Everything", "value": {}},
        {"kind": "RemoveKey"},
        {"kind": "RemoveKey", "value": {"key": 1}},
        {"kind": "RemoveKey", "value": {"key": "a", "more": 1}},
        {"kind": "SetKey", "value": {"key": "a", "value": {"b": 1}}},
        {"kind": "SetKey", "value": {"key": "a", "value": [1]}},
        {"kind": "ReplaceSpan", "value": {"start": "0", "end": 1, "text": ""}},
        {"kind": "RemoveKey", "value": {"key": "a"}, "more": 1},
        ["SetKey", "a", 1],
    ],
)
def test_what_is_not_an_edit_is_not_read(body):
    with pytest.raises(ValidationError):
        EDIT.validate_json(json.dumps(body))


def test_what_is_not_an_edit_is_not_sent():
    with pytest.raises(PydanticSerializationError, match="dict is not one of SetKey, RemoveKey"):
        EDIT.dump_json({"kind": "SetKey"})
