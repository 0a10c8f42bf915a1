"""Extract: how a note describes itself, what a line of it comes to, how links are written, and what
is said of the difference between two texts.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.extract import extract_note, find_news, link, name_of, plain
from parachuted.agents.offline import BEGIN
from parachuted.vault import changed_units, meaning

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


def test_a_context_file_tells_title_description_and_some_of_its_focus():
    found = extract_note("Projects/garden/AGENTS.md", GARDEN)
    titled = extract_note("a.md", "---\ntitle: The Garden\n---\n# Another\n")

    assert (found.title, found.description) == ("Garden", "Something to eat")
    assert found.focus == ("Sow beans", "Build *the* bed with Ann", "Water")
    assert titled.title == "The Garden"


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\ndescription: By its key\n---\n# A\n\n> By its quote\n", "By its key"),
        ("# A\n\nThe first\nparagraph.\n\nThe second.\n", "The first paragraph."),
        ("# A\n> [!info] A callout\n> is left alone\n\nText.\n", "Text."),
        ("<div>\n</div>\n\nText.\n", "Text."),
        ("![[cover.png]]\n#book #reading\nrating:: 5\n- a list\n| a | table |\n\nText.\n", "Text."),
        ("<< [[2026-11-22]] | [[2026-11-24|next]] >>\n[up](../Home.md) →\n\nText.\n", "Text."),
        ("%% a comment %%\n```dataview\nLIST\n```\nSee [[Ann|her]].\n", "See her."),
        ("## Summary\nBelow a heading.\n", ""),
        ("# A\n\n## History\nold news\n", ""),
        ("---\ntitle: x\n---\n", ""),
    ],
)
def test_a_note_is_described_by_its_key_its_quote_or_its_first_paragraph(text, description):
    assert extract_note("a.md", text).description == description


@pytest.mark.parametrize(
    "line",
    ["#a" * 50_000 + " x", "![[" * 20_000, "a " * 50_000 + ":", "<" * 100_000, "> [!" * 20_000],
)
def test_no_line_takes_long(line):
    began = time.process_time()
    extract_note("a.md", f"# T\n{line}\n")

    assert time.process_time() - began < 20


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
        ("#tag is no tag here", "\\#tag is no tag here"),
        ("C# and (#x) and # alone", "C# and (\\#x) and # alone"),
        ("- [/] half done ^block-1", "half done"),
    ],
)
def test_marks_are_taken_off_or_escaped(text, line):
    assert plain(text) == line


def test_a_line_is_cut():
    assert plain("x" * 1000) == "x" * 199 + "…"
    assert len(plain("[" + "x" * 10_000_000)) <= 201


@pytest.mark.parametrize(
    ("path", "title", "style", "written"),
    [
        ("Projects/Allotment #2/AGENTS.md", "Two", "markdown", "[Two](Allotment%20%232/AGENTS.md)"),
        ("People/Ann Lee.md", "Ann", "wiki", "[[People/Ann Lee|Ann]]"),
        ("Ann.md", "Ann", "wiki", "[[Ann]]"),
        ("Ann.md", "\\[the\\] | cook", "wiki", "[[Ann|the cook]]"),
        ("a#b.md", "A", "wiki", "[A](../a%23b.md)"),
        ("a|b.md", "A", "wiki", "[A](../a%7Cb.md)"),
    ],
)
def test_a_link_is_written_as_the_vault_writes_them_where_it_can_be(path, title, style, written):
    assert link("Projects/AGENTS.md", path, title, style) == written


BEFORE = """---
status: lead
tags: [a, b]
updated: 2026-01-01
---
# Acme

Makes anvils.

## Current Focus
- Start the tomatoes indoors.
- [ ] Buy seeds
- [x] Call Bob

## Decisions
"""


def news(before: str, after: str) -> list[str]:
    old, new = before.encode(), after.encode()
    return list(find_news(old, new, changed_units(meaning(old), meaning(new)), "Acme"))


def test_a_key_is_reported_with_its_value_and_the_one_before():
    after = (
        BEFORE.replace("lead", "customer")
        .replace("[a, b]", "[a, c]")
        .replace("---\n# Acme", "due: 2026-03-01\n---\n# Acme")
    )

    assert news(BEFORE, after) == [
        "status: customer (was lead)",
        "tags: a, c (was a, b)",
        "due: 2026-03-01",
    ]
    assert "due: removed (was 2026-03-01)" in news(after, BEFORE)


LONG = "Once there lived a smith who made anvils for all. " * 3


@pytest.mark.parametrize(
    ("before", "after", "items"),
    [
        (BEFORE, BEFORE + "- We build with bricks.\n", ["Decisions: We build with bricks."]),
        (
            BEFORE,
            BEFORE.replace("indoors", "outdoors"),
            ["Current Focus: Start the tomatoes outdoors. (was: Start the tomatoes indoors.)"],
        ),
        (
            BEFORE,
            BEFORE.replace("[ ] Buy", "[x] Buy").replace("- [x] Call Bob", "Call [[Ann]]"),
            [
                "Current Focus",
                "  - [x] Buy seeds",
                "  - Call Ann",
                "  - gone: [ ] Buy seeds",
                "  - gone: [x] Call Bob",
            ],
        ),
        (f"# Acme\n{LONG}\n", "# Acme\nHe died.\n", ["He died.", f"gone: {LONG.strip()}"]),
        ("# Acme\n## Code\n```\na\n```\n", "# Acme\n## Code\n```\nb\n```\n", ["Code: changed"]),
    ],
    ids=["a new line", "a changed line", "tasks", "a long line", "what shows in no line"],
)
def test_a_line_is_reported_below_its_heading_with_what_it_was(before, after, items):
    assert news(before, after) == items


def test_what_is_cut_is_counted_and_that_a_section_is_generated_is_no_news():
    many = "".join(f"- thing {'x' * number}\n" for number in range(40))
    sections = "".join(f"## S{number}\n- {number}\n" for number in range(12))
    section = f"## Watching\n\n{BEGIN}\n\n- Kim Lee\n"

    assert news(BEFORE, BEFORE + many)[-1] == "  - and 34 more"
    assert news(BEFORE, BEFORE + sections)[-1] == "and 4 more parts"
    assert news("# Acme\n", f"# Acme\n\n{section}") == ["Watching: Kim Lee"]


@pytest.mark.parametrize(
    ("old", "new", "item"),
    [
        ("2026-01-01", "2026-01-02", "updated: 2026-01-02 (was 2026-01-01)"),
        (
            "status: lead",
            "para_id: para:brain:aaaabbbbcccc\nstatus: lead",
            "para_id: para:brain:aaaabbbbcccc",
        ),
    ],
)
def test_what_a_program_keeps_is_news_only_where_nothing_else_changed(old, new, item):
    stamped = BEFORE.replace(old, new)

    assert news(BEFORE, stamped) == [item]
    assert news(BEFORE, stamped.replace("lead", "customer")) == ["status: customer (was lead)"]


TEXTS = st.text(st.sampled_from("#-*+>`~<!%[]()|\\=: \n\r\tax1.^\u2028\0/")) | st.text()


@given(before=TEXTS, after=TEXTS)
def test_each_item_is_one_line_that_begins_nothing(before, after):
    old, new = (f"# Acme\n## A\n{text}".encode("utf-8", "replace") for text in (before, after))
    for item in find_news(old, new, changed_units(meaning(old), meaning(new)), "Acme"):
        assert "\n" not in item
        assert "<!--" not in item
        assert len(item) < 900
