"""Note: every file gives a note whose spans are its bytes; what is odd about it is told."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.vault.frontmatter import MAX_NOTE_BYTES, Span
from parachuted.vault.note import parse_note, plain_title

NOTE = b"""\
---
watch:
  - "Projects/*"
status: active
---
# Name

> one line

---

## Facts
- a
### People
- b

## Current  Focus

text

## History
### People
- c
"""
PIECES = [
    *(
        "---",
        "---",
        "a: 1",
        "watch: [x]",
        "  - y",
        "# A",
        "## B",
        "### C ###",
        "text",
        "===",
        "```",
        "~~~",
        "<!--",
    ),
    *(
        "-->",
        "<!-- c -->",
        "",
        "",
        "  ",
        "- item",
        "> q",
        "| a |",
        "    code",
        "\ufeff",
        "\0",
        "\u2028",
        "é",
        "title: a: b",
        "{{x}}",
    ),
    *("#", "\t# t", "a\rb"),
]
TEXTS = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from(["\n", "\n", "\n", "\r\n", ""])), max_size=25
).map(lambda parts: "".join(piece + end for piece, end in parts).encode())
MARKED = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]), TEXTS, st.binary(max_size=6), TEXTS
).map(b"".join)
DATA = TEXTS | MARKED | st.binary(max_size=200)


def printed(note):
    """The note's parts one after the other."""
    block = note.frontmatter or Span(start=0, stop=0)
    spans = [
        Span(start=0, stop=block.start),
        block,
        Span(start=block.stop, stop=note.body.start),
        note.preamble,
    ]
    for section in note.sections:
        spans += [Span(start=section.start, stop=section.body_start), section.own]
    return b"".join(note.data[span.start : span.stop] for span in spans)


@given(DATA)
@example(b"")
@example(b"---\n---")
@example(b"\xef\xbb\xbf")
@example(b"\xef\xbb\xbfA\n---")
def test_to_parse_and_to_print_changes_nothing(data):
    assert printed(parse_note(data)) == data


@given(DATA)
def test_sections_nest_and_cover_the_body(data):
    note = parse_note(data)

    assert note.body.stop == len(data)
    assert note.preamble.start == note.body.start
    for section in note.sections:
        inside = [
            other
            for other in note.sections
            if section.body.start <= other.start < section.body.stop
        ]
        assert all(
            other.level > section.level and other.path[: len(section.path)] == section.path
            for other in inside
        )
        following = [other for other in note.sections if other.start >= section.stop]
        assert section.stop == (following[0].start if following else len(data))
        assert not following or following[0].level <= section.level
        assert section.path[-1] == section.title
        assert section.own.stop == (inside[0].start if inside else section.stop)


@given(DATA)
def test_keys_are_lines_of_the_frontmatter_in_order(data):
    note = parse_note(data)
    at = note.frontmatter.start if note.frontmatter else 0

    for key in note.keys:
        assert at <= key.span.start < key.span.stop <= note.frontmatter.stop
        assert data[key.span.start - 1 : key.span.start] == b"\n"
        assert data[key.span.stop - 1 : key.span.stop] == b"\n"
        assert (
            key.value is None or key.span.start < key.value.start <= key.value.stop < key.span.stop
        )
        at = key.span.stop
    if note.matter.readable and not note.matter.tangled:
        assert {key.name for key in note.keys} == set(note.values)


def test_a_context_file_is_distinguished():
    note = parse_note(NOTE)

    assert (note.title, note.eol, note.bom, note.problems) == ("Name", b"\n", False, ())
    assert note.text(note.frontmatter) == 'watch:\n  - "Projects/*"\nstatus: active\n'
    assert note.values == {"watch": ["Projects/*"], "status": "active"}
    assert [section.path for section in note.sections] == [
        ("Name",),
        ("Name", "Facts"),
        ("Name", "Facts", "People"),
        ("Name", "Current  Focus"),
        ("Name", "History"),
        ("Name", "History", "People"),
    ]
    facts = note.section("facts")
    assert note.data[facts.start : facts.body_start] == b"## Facts\n"
    assert note.text(facts.body) == "- a\n### People\n- b\n\n"
    assert note.text(facts.own) == "- a\n"
    assert note.text(facts.span) == "## Facts\n- a\n### People\n- b\n\n"


@pytest.mark.parametrize(
    "name",
    [
        "Current Focus",
        "current  focus",
        " CURRENT\tFOCUS ",
        "## Current Focus",
        "Name > current focus",
        ("Current Focus",),
    ],
)
def test_a_section_is_found_however_its_name_is_written(name):
    assert parse_note(NOTE).section(name).title == "Current  Focus"


def test_a_name_is_looked_for_at_level_two_first_then_anywhere():
    note = parse_note(b"# A\n### B\n## B\nx\n## A\n#### C\n### C\n")

    assert note.section("b").level == 2
    assert note.section("a").level == 2
    assert note.section("c").level == 4
    assert note.section("d") is None


def test_a_path_is_looked_for_whole_first_then_in_part():
    note = parse_note(b"# X\n## A\n### B\n# A\n## B\n# Y\n## A\n### B\n")

    assert note.section("A > B").path == ("A", "B")
    assert note.section("X > A > B").path == ("X", "A", "B")
    assert note.section(["y", "a", "b"]).path == ("Y", "A", "B")
    assert note.section("Y>B") is None
    assert note.section("X > B") is None


def test_a_title_that_looks_like_a_path_is_found_as_a_title():
    assert parse_note(b"# A\n## B\n## A > B\n").section("A > B").title == "A > B"


def test_titles_are_the_same_however_they_are_composed():
    assert parse_note("## Cafe\u0301\n".encode()).section("caf\u00e9") is not None


def test_a_name_without_its_marks_is_its_title():
    assert [plain_title(name) for name in ("## Facts", " # A ", "#tag", "Facts")] == [
        "Facts",
        "A",
        "#tag",
        "Facts",
    ]


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"", []),
        (b"\n", []),
        (b"text", []),
        (b"\xef\xbb\xbftext\n", ["bom"]),
        (b"a\r\nb\r\n", ["crlf"]),
        (b"a\r\nb\n", ["mixed-line-ends"]),
        (b"a\rb\n", ["lone-cr"]),
        (b"a\xffb\n", ["not-utf8"]),
        (b"a\0b\n", ["nul"]),
        (b"---\na: 1\n", ["frontmatter-unterminated"]),
        (b"---\n", ["frontmatter-unterminated"]),
        (b"---\n- a\n---\n", ["frontmatter-not-mapping"]),
        (b"---\na: b: c\n---\n", ["frontmatter-malformed"]),
        (b"---\na: x --- y\n---\n", ["frontmatter-dashes"]),
        (b"---\na: 1\na: 2\n---\n", ["frontmatter-duplicate-key"]),
        (b"---\na: {{x}}\n---\n", ["frontmatter-complex-key"]),
        (b"# A\n```\n", ["unclosed-fence"]),
        (
            b"\xef\xbb\xbf---\r\na: \xff\r\n---\r\n<!--\0",
            ["bom", "not-utf8", "nul", "crlf", "frontmatter-not-utf8", "unclosed-comment"],
        ),
    ],
)
def test_what_is_odd_is_reported(data, codes):
    assert [problem.code for problem in parse_note(data).problems] == codes


@pytest.mark.parametrize(
    ("data", "eol"),
    [
        (b"", b"\n"),
        (b"a\r\n", b"\r\n"),
        (b"a\r\nb\r\nc\n", b"\r\n"),
        (b"a\r\nb\n", b"\n"),
        (b"a\rb\r", b"\n"),
    ],
)
def test_the_line_end_is_the_one_that_most_lines_have(data, eol):
    assert parse_note(data).eol == eol


def test_bytes_that_are_not_utf8_are_shown_as_such():
    note = parse_note(b"# A\nx\xffy\n")

    assert note.text(note.body) == "# A\nx\ufffdy\n"


def test_a_byte_order_mark_hides_neither_frontmatter_nor_heading():
    assert parse_note(b"\xef\xbb\xbf---\na: 1\n---\n").values == {"a": "1"}
    assert parse_note(b"\xef\xbb\xbf# A\n").title == "A"
    assert parse_note(b"\xef\xbb\xbfA\n===\n").title == "A"


def test_the_frontmatter_has_no_headings():
    assert [
        section.title for section in parse_note(b"---\n# no\na: 1\n---\n# A\n---\n# B\n").sections
    ] == ["A", "B"]


@pytest.mark.parametrize(
    "data", [b"x" * 100_000_000, b"---\na: 1\n---\n# A\n" + b"x\n" * (MAX_NOTE_BYTES // 2)]
)
def test_a_note_too_large_is_not_looked_into(data):
    began = time.process_time()
    note = parse_note(data)

    assert [problem.code for problem in note.problems] == ["too-large"]
    assert (
        note.sections,
        note.keys,
        note.frontmatter,
        note.title,
        note.section("A"),
        note.eol,
    ) == ((), (), None, None, None, b"\n")
    assert (note.body.start, note.body.stop) == (0, len(data))
    assert time.process_time() - began < 1


def test_a_million_headings_are_soon_given_up():
    began = time.process_time()
    note = parse_note(b"# h\n" * 1_000_000)

    assert note.sections == ()
    assert [problem.code for problem in note.problems] == ["too-many-headings"]
    assert time.process_time() - began < 10


def test_forty_thousand_headings_are_all_found():
    note = parse_note(b"# a\n## b\n### c\n## d\n" * 10_000)

    assert len(note.sections) == 40_000
    assert note.sections[-1].path == ("a", "d")


@pytest.mark.parametrize("size", [MAX_NOTE_BYTES - 8, MAX_NOTE_BYTES])
def test_one_line_of_sixteen_megabytes_is_a_line(size):
    note = parse_note(b"# " + b"x" * (size - 2))

    assert (note.is_read, len(note.title)) == (True, size - 2)
