"""Note values: every part of a note is where the value says it is."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.notes import ReplaceSpan, SetKey
from parachuted.errors import EditRefusedError
from parachuted.runs.note_values import make_note, vault_edit
from parachuted.vault import FileContent, digest_of

TEXT = """---
title: Tée
count: 3
price: 1.10
done: false
due: 2026-02-01
nothing:
quoted: "3"
list: [1, a, true]
created: 2026-01-02T03:04:05+02:00
tags: [drink]
---
# Ünder

sée [[Ann|her]] and ![[pic.png]] #warm

## Facts

[cup](<../Cup 1.md#a>)

### Deep

dée

## End
"""


def content(data: bytes, at: float = 1_700_000_000.0) -> FileContent:
    status = os.stat_result([0] * 8 + [int(at)] * 2, {"st_mtime_ns": int(at * 1e9)})
    return FileContent(data=data, digest=digest_of(data), status=status)


def made(text: str, **more):
    return make_note(
        "Notes/Tea.md", content(text.encode(), **more), None, lambda links: [None] * len(links)
    )


def test_a_note_holds_what_its_bytes_say():
    note = made(TEXT)

    assert (note.path, note.title, note.text) == ("Notes/Tea.md", "Tée", TEXT)
    assert note.digest == digest_of(TEXT.encode())
    assert note.frontmatter == {
        "title": "Tée",
        "count": 3,
        "price": "1.10",
        "done": False,
        "due": "2026-02-01",
        "nothing": None,
        "quoted": "3",
        "list": [1, "a", True],
        "created": "2026-01-02T03:04:05+02:00",
        "tags": ["drink"],
    }
    assert note.tags == ("drink", "warm")
    assert note.created == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert note.modified == datetime.fromtimestamp(1_700_000_000, UTC)
    assert note.body == TEXT.partition("[drink]\n---\n")[2]
    with pytest.raises(EditRefusedError, match="not UTF-8 text"):
        make_note("a.md", content(b"\xff"), None, lambda _links: [])


def test_sections_and_links_are_given_in_characters():
    note = made(TEXT)

    assert [(section.heading, section.level) for section in note.sections] == [
        ("Ünder", 1),
        ("Facts", 2),
        ("Deep", 3),
        ("End", 2),
    ]
    facts, deep = note.section("Facts"), note.section("Deep")
    assert note.text[facts.start : facts.body] == "## Facts\n"
    assert facts.content(note).endswith("### Deep\n\ndée")
    assert note.text[deep.start : deep.end] == "### Deep\n\ndée\n\n"
    assert [
        (link.kind, link.target, link.label, note.text[link.start : link.end])
        for link in note.links
    ] == [
        ("wiki", "Ann", "her", "Ann"),
        ("embed", "pic.png", None, "pic.png"),
        ("markdown", "../Cup 1.md", "cup", "../Cup 1.md"),
    ]


@given(st.text(alphabet="aé\N{GRINNING FACE}#[]\n -:\r", max_size=200))
def test_every_offset_is_one_of_the_text_whatever_it_holds(text):
    note = made(text)

    assert 0 <= note.body_start <= len(text)
    for section in note.sections:
        assert 0 <= section.start <= section.body <= section.end <= len(text)
    for link in note.links:
        assert 0 <= link.start < link.end <= len(text)


@pytest.mark.parametrize("said", ["never", "[2026]", "99999-01-01", ""])
def test_a_note_that_names_no_moment_was_made_when_it_was_last_changed(said):
    note = made(f"---\ncreated: {said}\n---\n", at=5.0)

    assert note.created == note.modified == datetime.fromtimestamp(5, UTC)
    assert made("x", at=float(1 << 60)).modified.year == 1970  # a year that no calendar has


@pytest.mark.parametrize(
    ("edits", "base", "why"),
    [
        ([], None, "1 to 1000"),
        ([SetKey("a", "b")] * 1001, None, "1 to 1000"),
        ([ReplaceSpan(0, 1, "x")], None, "base=note.digest"),
        ([SetKey("a", {"b": 1})], None, "a key takes"),
        (["a: b"], None, "str is not a change of a note"),
    ],
)
def test_what_is_not_an_edit_is_refused(edits, base, why):
    with pytest.raises(EditRefusedError, match=why):
        vault_edit(edits, base)
