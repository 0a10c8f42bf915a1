from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.search.indexed_note import LARGEST, make_indexed_note
from parachuted.vault import parse_note

NOTE = """---
title: Winter garden
tags: [Plants, home/balcony]
rating: 4
---
# Another heading

Some #inline, a #1 and `#code`, a#b.

```
#fenced
```
See [[Seeds|the seeds]] and ![x](pic.png).
"""


def test_a_note_is_known_by_its_title_tags_fields_and_links():
    indexed_note = make_indexed_note("Garden/winter.md", NOTE.encode(), 1.0)

    assert indexed_note.title == "Winter garden"
    assert indexed_note.tags == ("Plants", "home/balcony", "inline")
    assert [(field.key, field.text, field.kind) for field in indexed_note.fields][-1] == (
        "rating",
        "4",
        "number",
    )
    assert [(link.kind, link.target) for link in indexed_note.links] == [
        ("wiki", "Seeds"),
        ("embed", "pic.png"),
    ]
    assert indexed_note.reason is None


def test_without_a_title_of_its_own_the_first_heading_counts_then_the_name():
    assert make_indexed_note("a.md", b"text\n# Heading\n", 0).title == "Heading"
    assert make_indexed_note("x/plain name.md", b"text", 0).title == "plain name"
    assert make_indexed_note("a.md", b"---\ntitle:\n---\n# Heading\n", 0).title == "Heading"


def test_malformed_frontmatter_is_no_reason_not_to_index_the_text():
    indexed_note = make_indexed_note("a.md", b"---\na: [\n---\nbeans", 0)

    assert "beans" in indexed_note.texts[2]
    assert (indexed_note.fields, indexed_note.reason) == ((), None)


def test_what_is_not_text_or_too_large_says_so():
    assert "NUL" in make_indexed_note("a.md", b"\x00\x01", 0).reason
    large = make_indexed_note("a.md", b"word " * (LARGEST // 5 + 1), 0)
    assert "larger than 10 MB" in large.reason
    assert len(large.texts[2]) == 1 << 20


def test_bytes_that_are_not_utf8_leave_the_rest_to_be_found():
    assert "beans" in make_indexed_note("a.md", b"caf\xe9 beans", 0).texts[2]


@given(
    st.lists(
        st.sampled_from(
            [
                "# One",
                "## Two ##",
                "  ### Three #",
                "    # no",
                "#no",
                "#",
                "# a#",
                "#\tTab",
                "text",
                "",
                "- item",
                "####### no",
                "# C# ##",
            ]
        )
    )
)
@example(["# a", "b", "===", "# c"])
@example(["# a", "```", "# b", "```"])
@example(["# a", "<!--", "# b", "-->"])
def test_the_headings_of_a_card_are_those_of_the_note(lines):
    data = "\n".join(lines).encode()

    assert make_indexed_note("a.md", data, 0).texts[1].split("\n") == (
        "\n".join(heading.title for heading in parse_note(data).outline.headings)
    ).split("\n")
