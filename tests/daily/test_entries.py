"""Files of one entry: what others wrote is read, and an edit changes only its own lines."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.module_files import daily_file

entries = daily_file("entries")
lines = daily_file("entry")
Entry = daily_file("entry").Entry
layouts = daily_file("layouts")

PIECES = st.sampled_from(
    ["---\n", "---", "title: A\n", "\r\n", "\n", "# x\n", "a: [b\n", "- c\n", "text", " "]
)
TEXTS = st.builds(str.__add__, st.sampled_from(["", "\ufeff"]), st.lists(PIECES).map("".join))


def test_the_specifications_example_is_read():
    entry = entries.parse(
        "---\nentry_id: 2024-01-15-morning\nmentions:\n  - para:brain:a1b2c3d4e5f6  # Kevin\n"
        "brain_links: [para:brain:b2c3d4e5f6g7]\n---\n\nHad a call with [[Kevin]].\n",
        "2024-01-15-morning",
    )

    assert entry.mentions == ("para:brain:a1b2c3d4e5f6", "para:brain:b2c3d4e5f6g7")
    assert (entry.key, entry.para_id) == ("2024-01-15-morning", None)
    assert (entry.body, entry.link) == ("Had a call with [[Kevin]].", "Kevin")
    assert entry.at.date().isoformat() == "2024-01-15"


@pytest.mark.parametrize(
    ("created", "day"),
    [
        ("2026-02-24T23:30:00-05:00", "2026-02-24"),
        ("2026-02-25T00:30:00+09:00", "2026-02-25"),
        ("2026-02-24T23:30:00Z", "2026-02-24"),
    ],
)
def test_the_day_is_the_writers_own(created: str, day: str):
    (found,) = layouts.read("Daily/entries/x.md", f"---\ncreated_at: {created}\n---\nHi\n")

    assert (found.day, found.id) == (day, "x")


@pytest.mark.parametrize("title", ["A walk", "a: b", 'say "x"', "a --- b", "a # b", "- x", "no:"])
def test_what_is_composed_is_read_again(title: str):
    at = datetime.fromisoformat("2026-02-24T12:00:01.000002-05:00")
    entry = Entry(
        key="abc123def456",
        module="daily",
        title=title,
        body="a\n# b",
        kind="voice",
        audio="assets/a.wav",
        duration=42,
        created="12:00",
    )
    text = entries.compose(entry, at)
    found = entries.parse(text, "x")

    assert text.count("---") == 2, "the app ends frontmatter at any ---"
    assert (found.title, found.body, found.at) == (title, "a\n# b", at)
    assert (found.kind, found.audio, found.duration) == ("voice", "assets/a.wav", 42)
    assert found.para_id == "para:daily:abc123def456"
    assert entries.file_name(entry, at) == "2026-02-24-12-00-01-abc123.md"


def test_a_file_of_a_persons_own_keeps_all_but_what_is_changed():
    text = "\ufeff---\r\n# mine\r\ntitle: 'Old'\r\nmood: {a: 1}\r\n---\r\n\r\nText\r\n\r\n"

    assert entries.replace_body(text, "New\nwords") == text.replace("Text", "New\r\nwords")
    assert entries.replace_title(text, "New") == text.replace("'Old'", "New")
    assert entries.replace_title("Only text", "T") == "---\ntitle: T\n---\nOnly text"


@given(TEXTS, st.sampled_from(["new", "two\n\nlines", "# a"]))
def test_an_edit_leaves_the_frontmatter(text: str, body: str):
    changed = entries.replace_body(text, body)
    front = lines.front_end(lines.split(text))

    assert entries.parse(changed, "x").body.replace("\r", "") == body
    assert "".join(lines.split(changed)[:front]).rstrip() == (
        "".join(lines.split(text)[:front]).rstrip()
    )


@given(TEXTS)
def test_a_title_leaves_the_body(text: str):
    changed = entries.replace_title(text, "A new title")

    assert entries.parse(changed, "x").title == "A new title"
    assert entries.parse(changed, "x").body == entries.parse(text, "x").body
