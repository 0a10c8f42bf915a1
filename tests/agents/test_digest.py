"""The digest: what it tells, what it keeps of a person's, and that nothing in another note can
break the note it is put into.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.agents import ChangedNote
from parachuted.agents.digest import (
    BEGIN,
    compose,
    find_generated,
    is_foreign,
    is_same,
    is_switched_off,
    write_digest,
    write_history,
)
from parachuted.agents.extract import extract_note
from parachuted.agents.part_changes import PartChanges
from parachuted.vault import parse_note

GARDEN = "# Garden\n\n> Something to eat\n\n## Current Focus\n- Sow beans\n- Water\n"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def section(text: str, *, below: str = ""):
    return parse_note(f"# V\n\n## Watching\n{text}\n{below}\n## History\n".encode())


def generated(*names: str):
    digest = write_digest(
        "AGENTS.md", [extract_note(f"{name}/AGENTS.md", f"# {name}\n") for name in names]
    )
    return digest, compose(parse_note(b"# V\n"), digest, None)


def test_a_bullet_tells_title_description_and_the_first_lines_of_the_focus():
    extracts = [
        extract_note("Projects/Allotment #2/AGENTS.md", GARDEN),
        extract_note("Areas/Müller/AGENTS.md", "- no marks at all"),
    ]

    assert write_digest("Projects/AGENTS.md", extracts).split("\n") == [
        BEGIN,
        "",
        "- [Müller](../Areas/Müller/AGENTS.md)",
        "- [Garden](Allotment%20%232/AGENTS.md) — Something to eat",
        "  - Sow beans",
        "  - Water",
    ]


def test_of_many_notes_each_folder_is_one_item_and_what_is_left_out_is_counted():
    many = [extract_note(f"P/{number % 2}/n{number:03}.md", "") for number in range(203)]
    lines = write_digest("AGENTS.md", many, watched=300).splitlines()

    assert [line for line in lines if line.startswith("- ")] == [
        "- P/0 (102)",
        "- P/1 (98)",
        "- and 100 more",
    ]
    assert "  - [n000](P/0/n000.md)" in lines
    assert write_digest("AGENTS.md", []).splitlines() == [BEGIN, "", "- nothing yet"]


def test_history_tells_what_changed_and_stops_at_ten():
    changes = [
        ChangedNote(
            path="P/a/AGENTS.md",
            kind="modified",
            title="Alpha",
            news=(PartChanges(label="status", items=("customer (was lead)",)),),
        ),
        ChangedNote(
            path="P/b/AGENTS.md",
            kind="modified",
            news=(
                PartChanges(label="Focus", items=("closed [x] a", "b")),
                PartChanges(label="", items=("c",)),
                PartChanges(label="due", items=("today",)),
            ),
        ),
        ChangedNote(
            path="P/c/AGENTS.md",
            kind="created",
            news=(PartChanges(label="", items=("All of it",)),),
        ),
        ChangedNote(path="P/d/AGENTS.md", kind="deleted"),
        ChangedNote(path="P/e/AGENTS.md", kind="moved", source="P/old.md"),
        ChangedNote(path="P/f/AGENTS.md", kind="modified", units=("Facts",)),
        *[ChangedNote(path=f"P/{number}/AGENTS.md", kind="created") for number in range(6)],
    ]
    lines = write_history("P/AGENTS.md", changes, NOON).splitlines()

    assert lines[:10] == [
        "- 2026-11-21: [Alpha](a/AGENTS.md): status: customer (was lead)",
        "- 2026-11-21: [b](b/AGENTS.md)",
        "  - Focus",
        "    - closed [x] a",
        "    - b",
        "  - c",
        "  - due: today",
        "- 2026-11-21: [c](c/AGENTS.md): new: All of it",
        "- 2026-11-21: d: deleted",
        "- 2026-11-21: [e](e/AGENTS.md): moved from P/old.md",
    ]
    assert lines[10] == "- 2026-11-21: [f](f/AGENTS.md): changed"
    assert lines[-1] == "- and 2 more"


def test_a_folder_that_moved_is_one_line():
    changes = [
        ChangedNote(path=f"P/allotment/{name}.md", source=f"P/garden/{name}.md", kind="moved")
        for name in "abc"
    ]
    away = [
        ChangedNote(
            path=f"Old/shed/x/{name}.md", target=f"Archive/2026/shed/x/{name}.md", kind="moved"
        )
        for name in "ab"
    ]

    assert write_history("A.md", [*changes, *away], NOON).splitlines() == [
        "- 2026-11-21: 3 notes moved from P/garden to P/allotment",
        "- 2026-11-21: 2 notes moved from Old/shed to Archive/2026/shed, which is not watched",
    ]


def test_a_note_that_moved_out_of_what_is_watched_is_told_with_its_place():
    change = ChangedNote(path="P/a.md", target="Archive/a.md", kind="moved", title="Alpha")

    assert (
        write_history("A.md", [change], NOON)
        == "- 2026-11-21: [Alpha](Archive/a.md): moved to Archive/a.md, which is not watched"
    )


def test_the_section_says_first_that_it_is_generated_and_knows_itself_again():
    digest, text = generated("a")
    windows = parse_note(f"# V\n## Watching\n{text}\n".replace("\n", "\r\n").encode())

    assert text.startswith("*Generated by parachuted (offline, no model).")
    assert is_same(section(text), digest)
    assert is_same(windows, digest)
    assert not is_same(parse_note(b"# V\n"), digest)


def test_a_section_without_our_mark_is_a_persons():
    _digest, text = generated("a")

    assert not is_foreign(section(text))
    assert not is_foreign(section(""))
    assert is_foreign(section("The birds."))
    assert is_foreign(section(text.rpartition("\n")[0]))


@pytest.mark.parametrize(
    ("value", "is_off"), [("false", True), ("No", True), ("true", False), ("[a]", False)]
)
def test_it_is_switched_off_by_a_key(value, is_off):
    assert is_switched_off(parse_note(f"---\ndigest: {value}\n---\n".encode())) is is_off


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_person_wrote_in_the_section_moves_below_it(is_known):
    _digest, text = generated("a")
    note = section(
        text.replace("- [a]", "my *own* line\n\n- [x] done\n- [a]"), below="\nbelow already\n"
    )
    new, _text = generated("a", "b")
    composed = compose(note, new, find_generated(section(text)).inside if is_known else None)

    assert composed.startswith(f"{new}\n<!-- end")
    assert composed.partition("-->\n")[2] == "\nmy *own* line\n- [x] done\n\nbelow already"
    assert not find_generated(section(composed)).is_edited


def test_a_generated_line_that_a_person_changed_is_kept_as_they_wrote_it():
    digest, text = generated("a", "b")
    before = find_generated(section(text)).inside
    composed = compose(
        section(text.replace("[b](b/AGENTS.md)", "[b](b/AGENTS.md) is late!")), digest, before
    )

    assert composed.partition("-->\n")[2].strip() == "- [b](b/AGENTS.md) is late!"


def test_where_nothing_was_edited_old_lines_go():
    _old, text = generated("a", "b")
    new, _text = generated("a")

    assert compose(section(text), new, None).endswith(") -->")


HOSTILE = (
    st.text(st.sampled_from("#-*+>`~<!%[]()|\\=: \n\r\tax1.\u2028\u202e\ufeff\udcff\0/"))
    | st.text()
)


@given(title=HOSTILE, description=HOSTILE, focus=HOSTILE, folder=HOSTILE, item=HOSTILE)
@settings(max_examples=150, deadline=None)
def test_no_text_of_another_note_breaks_the_structure(title, description, focus, folder, item):
    path = f"P/{folder.replace('/', '').replace(chr(0), '') or 'x'}/AGENTS.md"
    extract = extract_note(path, f"# {title}\n> {description}\n## Current Focus\n{focus}")
    change = ChangedNote(
        path=path, kind="moved", title=extract.title, source=f"Q/{item.replace(chr(10), '')}"
    )
    for style in ("markdown", "wiki"):
        digest = write_digest("AGENTS.md", [extract], style=style)
        text = compose(parse_note(b"# V\n"), digest, None)
        history = write_history("AGENTS.md", [change], NOON, style)
        note = parse_note(
            f"# V\n\n## Watching\n{text}\n\n## History\n{history}\n".encode(
                "utf-8", "surrogateescape"
            )
        )

        assert [section.title for section in note.sections] == ["V", "Watching", "History"]
        assert is_same(note, digest)
        assert [line for line in digest.split("\n") if not line.startswith(("- [", "  - "))] == [
            BEGIN,
            "",
        ]
        assert (text + history).count("<!--") == 1
        assert len(history.split("\n")) == 1
        digest.encode()
