"""Notes: what an author finds in a note, from values alone."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

from parachuted.access.notes import Note, NoteLink, NoteSection

TEXT = "---\nk: v\n---\n# Tea\n\n### Facts\n\nhot\n\n## Facts\n\ngreen\n\n"
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def section(heading, level):
    start = TEXT.index(f"\n{'#' * level} {heading}\n") + 1
    end = len(TEXT) if level == 2 else TEXT.index("## Facts\n\ngreen")
    return NoteSection(heading=heading, level=level, start=start, body=start + level + 7, end=end)


def note(**more):
    fields = {
        "path": "Tea.md",
        "digest": "d",
        "text": TEXT,
        "frontmatter": {"k": "v"},
        "title": "Tea",
        "tags": (),
        "created": NOON,
        "modified": NOON,
        "body_start": 13,
        "find_sections": lambda _text: (section("Facts", 3), section("Facts", 2)),
        "find_links": lambda _text: (),
    }
    return Note(**{**fields, **more})


def test_the_body_is_all_below_the_frontmatter():
    assert note().body == TEXT.partition("---\n# ")[2].join(["# ", ""])


def test_a_section_is_found_by_its_heading_level_2_first_in_any_case():
    found = note().section(" fACTS ")

    assert found is not None
    assert (found.level, found.content(note())) == (2, "green")
    assert note().section("Nothing") is None


def test_sections_and_links_are_looked_for_once_and_only_when_needed():
    looked = []

    def find(text):
        looked.append(text)
        return (NoteLink(target="a", label=None, kind="wiki", start=0, end=1, path=None),)

    made = note(find_links=find)
    assert looked == []
    assert (made.links, made.links[0].target, looked) == (made.links, "a", [TEXT])


def test_two_notes_of_the_same_read_are_equal_and_show_no_function():
    assert note() == note()
    assert "function" not in repr(note())


def test_they_load_no_vault():
    code = "import sys, parachuted.access.notes; print('parachuted.vault' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
