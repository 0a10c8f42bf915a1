"""The digest: what it tells, and that nothing in another note can break the note it is put into."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.agents import ChangedNote
from parachuted.agents.digest import (
    KEPT,
    extract_note,
    is_foreign,
    is_same,
    name_of,
    plain,
    with_what_stands_below,
    write_digest,
    write_history,
)
from parachuted.vault import parse_note

GARDEN = """---
watch: "../"
---
# Garden

> Something to eat
> by summer.

## Facts
> not this quote
## Current Focus
<!-- what is actively worked on -->
- [ ] Sow beans

- Build *the* bed with [Ann](../people/ann.md)
```
- not this
```
1. Water
- One too many
## History
"""
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_bullet_tells_title_description_and_the_first_lines_of_the_focus():
    extracts = [extract_note("Projects/Allotment #2/AGENTS.md", GARDEN), extract_note("Areas/Müller/AGENTS.md", "no marks at all")]

    assert write_digest("Projects/AGENTS.md", extracts) == (
        "- [Müller](../Areas/Müller/AGENTS.md)\n"
        "- [Garden](Allotment%20%232/AGENTS.md) — Something to eat\n"
        "  - Sow beans\n"
        "  - Build *the* bed with Ann\n"
        "  - Water\n"
        "<!-- kept by parachuted (offline, no model): edits above are overwritten -->"
    )


def test_many_notes_are_counted_and_none_is_said_so():
    many = [extract_note(f"P/{number:03}/AGENTS.md", "") for number in range(203)]

    assert write_digest("AGENTS.md", many).splitlines()[-2:] == ["- and 3 more", KEPT]
    assert write_digest("AGENTS.md", []).splitlines() == ["- nothing yet", KEPT]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Projects/garden/AGENTS.md", "garden"),
        ("a/CLAUDE.md", "a"),
        ("AGENTS.md", "the vault"),
        ("Notes/Beans.md", "Beans"),
        ("x", "x"),
        ("\udcff/AGENTS.md", "a note"),
    ],
)
def test_a_note_without_a_title_goes_by_its_place(path, name):
    assert name_of(path) == name


def test_history_tells_what_changed_where_and_stops_at_ten():
    changes = [
        ChangedNote(path="P/a/AGENTS.md", kind="modified", units=("Facts", "@status")),
        ChangedNote(path="P/b/AGENTS.md", kind="created"),
        ChangedNote(path="P/c/AGENTS.md", kind="deleted"),
        ChangedNote(path="P/d/AGENTS.md", kind="moved"),
        ChangedNote(path="P/e/AGENTS.md", kind="modified"),
        ChangedNote(path="P/f/AGENTS.md", kind="modified", units=tuple(f"S{number}" for number in range(10))),
        *[ChangedNote(path=f"P/{number}/AGENTS.md", kind="created") for number in range(6)],
    ]
    lines = write_history("P/AGENTS.md", changes, {"P/a/AGENTS.md": "Alpha"}, NOON).splitlines()

    assert lines[:6] == [
        "- 2026-11-21: [Alpha](a/AGENTS.md): Facts, @status changed",
        "- 2026-11-21: [b](b/AGENTS.md): created",
        "- 2026-11-21: c: deleted",
        "- 2026-11-21: [d](d/AGENTS.md): moved",
        "- 2026-11-21: [e](e/AGENTS.md): changed",
        "- 2026-11-21: [f](f/AGENTS.md): S0, S1, S2, S3, S4, S5, S6, S7 and 2 more changed",
    ]
    assert lines[10:] == ["- and 2 more"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("## History", "History"),
        ("> - 1. # deep", "deep"),
        ("- [x] done", "done"),
        ("> [!note]- Callout", "Callout"),
        ("<!-- hidden", "hidden"),
        ("<!<!---- x", "\\<! x"),
        ("a -> b", "a -> b"),
        ("a --> b", "a b"),
        ("a -%%-> b", "a b"),
        ("<[](x)!--y", "y"),
        ("`%%``x", "x"),
        ("%%# %%# x", "x"),
        ("a %% b", "a b"),
        ("```python", "python"),
        ("~~~~", ""),
        ("---", ""),
        ("===", ""),
        ("| --- |", ""),
        ("<details>", "\\<details>"),
        ("a](http://evil) [b", "a\\](http://evil) \\[b"),
        ("[[Garden|the garden]] and ![[pic.png]]", "the garden and pic.png"),
        ("![pixel](http://evil/x.png) see [this](a(b).md", "pixel see \\[this\\](a(b).md"),
        ("[x]: http://evil", "\\[x\\]: http://evil"),
        ("back\\", "back\\\\"),
        ("one `tick", "one 'tick"),
        ("a\u2028## b\x00\x1b[31m\u202ec\ud800", "a ## b \\[31mc"),
        ("👩\u200d🌾 farmer", "👩\u200d🌾 farmer"),
        ("#tag stays", "#tag stays"),
    ],
)
def test_marks_are_taken_off_or_escaped(text, line):
    assert plain(text) == line


def test_a_line_is_cut():
    assert plain("x" * 1000) == "x" * 199 + "…"
    assert len(plain("[" + "x" * 10_000_000)) <= 201


def test_a_section_is_kept_until_a_person_takes_the_mark_away():
    content = write_digest("AGENTS.md", [extract_note("a/AGENTS.md", GARDEN)])
    kept, windows = f"# V\n## Watching\n\n{content}\n\n## History\n", f"# V\r\n## Watching\r\n{content}\r\n".replace("\n", "\r\n")

    assert is_same(parse_note(kept.encode()), content)
    assert is_same(parse_note(windows.replace("\r\r", "\r").encode()), content)
    assert not is_same(parse_note(b"# V\n"), content)
    assert not is_foreign(parse_note(kept.encode()))
    assert not is_foreign(parse_note(b"# V\n## Watching\n\n"))
    assert is_foreign(parse_note(kept.replace(KEPT, "").encode()))


HOSTILE = st.text(st.sampled_from("#-*+>`~<!%[]()|\\=: \n\r\tax1.\u2028\u202e\ufeff\udcff\0/")) | st.text()


@given(title=HOSTILE, description=HOSTILE, focus=HOSTILE, folder=HOSTILE, unit=HOSTILE)
@settings(max_examples=150, deadline=None)
def test_no_text_of_another_note_breaks_the_structure(title, description, focus, folder, unit):
    path = f"P/{folder.replace('/', '').replace(chr(0), '') or 'x'}/AGENTS.md"
    extract = extract_note(path, f"# {title}\n> {description}\n## Current Focus\n{focus}")
    change = ChangedNote(path=path, kind="modified", units=(unit, "Facts"))
    digest = write_digest("AGENTS.md", [extract])
    history = write_history("AGENTS.md", [change], {path: extract.title}, NOON)
    note = parse_note(f"# V\n\n## Watching\n{digest}\n\n## History\n{history}\n".encode("utf-8", "surrogateescape"))

    assert [section.title for section in note.sections] == ["V", "Watching", "History"]
    assert is_same(note, digest)
    assert [line for line in digest.split("\n") if not line.startswith(("- [", "  - "))] == [KEPT]
    assert (digest + history).count("<!--") == 1
    assert len(history.split("\n")) == 1
    assert digest.count("](") >= 1
    digest.encode()


def test_what_a_person_added_below_our_line_stays():
    note = parse_note(f"# All\n\n## Watching\n\n- old\n{KEPT}\nmy quick note\n".encode())

    assert with_what_stands_below(note, f"- new\n{KEPT}") == f"- new\n{KEPT}\n\nmy quick note"
