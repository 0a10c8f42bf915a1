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


LEVELS = b"# A\n### B\n## B\nx\n## A\n#### C\n### C\n"
PATHS = b"# X\n## A\n### B\n# A\n## B\n# Y\n## A\n### B\n"


@pytest.mark.parametrize(
    ("data", "name", "found"),
    [
        (LEVELS, "b", (("A", "B"), 2)),
        (LEVELS, "a", (("A", "A"), 2)),
        (LEVELS, "c", (("A", "A", "C"), 4)),
        (LEVELS, "d", None),
        (PATHS, "A > B", (("A", "B"), 2)),
        (PATHS, "X > A > B", (("X", "A", "B"), 3)),
        (PATHS, ["y", "a", "b"], (("Y", "A", "B"), 3)),
        (PATHS, "Y>B", None),
        (PATHS, "X > B", None),
        (b"# A\n## B\n## A > B\n", "A > B", (("A", "A > B"), 2)),
        ("## Cafe\u0301\n".encode(), "caf\u00e9", (("Cafe\u0301",), 2)),
    ],
)
def test_a_name_is_looked_for_at_level_two_and_a_path_whole_first(data, name, found):
    section = parse_note(data).section(name)

    assert (section and (section.path, section.level)) == found


def test_a_name_without_its_marks_is_its_title():
    names = ("## Facts", " # A ", "#tag", "Facts")

    assert [plain_title(name) for name in names] == ["Facts", "A", "#tag", "Facts"]


@pytest.mark.parametrize(
    ("data", "codes", "eol"),
    [
        (b"", [], b"\n"),
        (b"\n", [], b"\n"),
        (b"text", [], b"\n"),
        (b"\xef\xbb\xbftext\n", ["bom"], b"\n"),
        (b"a\r\nb\r\n", ["crlf"], b"\r\n"),
        (b"a\r\nb\r\nc\n", ["mixed-line-ends"], b"\r\n"),
        (b"a\r\nb\n", ["mixed-line-ends"], b"\n"),
        (b"a\rb\n", ["lone-cr"], b"\n"),
        (b"a\rb\r", ["lone-cr"], b"\n"),
        (b"a\xffb\n", ["not-utf8"], b"\n"),
        (b"a\0b\n", ["nul"], b"\n"),
        (b"---\na: 1\n", ["frontmatter-unterminated"], b"\n"),
        (b"---\n", ["frontmatter-unterminated"], b"\n"),
        (b"---\n- a\n---\n", ["frontmatter-not-mapping"], b"\n"),
        (b"---\na: x --- y\n---\n", ["frontmatter-dashes"], b"\n"),
        (b"# A\n```\n", ["unclosed-fence"], b"\n"),
        (
            b"\xef\xbb\xbf---\r\na: \xff\r\n---\r\n<!--\0",
            ["bom", "not-utf8", "nul", "crlf", "frontmatter-not-utf8", "unclosed-comment"],
            b"\r\n",
        ),
    ],
)
def test_what_is_odd_is_reported_and_the_line_end_is_that_of_most_lines(data, codes, eol):
    note = parse_note(data)

    assert ([problem.code for problem in note.problems], note.eol) == (codes, eol)
    assert note.text(note.body).count("\ufffd") == (data == b"a\xffb\n")


def test_a_byte_order_mark_hides_neither_frontmatter_nor_heading():
    assert parse_note(b"\xef\xbb\xbf---\na: 1\n---\n").values == {"a": "1"}
    for text in (b"# A\n", b"A\n===\n", b"---\n# no\na: 1\n---\n# A\n"):
        assert parse_note(b"\xef\xbb\xbf" + text).title == "A"


def test_the_frontmatter_has_no_headings():
    assert [
        section.title for section in parse_note(b"---\n# no\na: 1\n---\n# A\n---\n# B\n").sections
    ] == ["A", "B"]


@pytest.mark.parametrize(
    "data", [b"x" * 2 * MAX_NOTE_BYTES, b"---\na: 1\n---\n# A\n" + b"x\n" * (MAX_NOTE_BYTES // 2)]
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


@pytest.mark.parametrize("size", [MAX_NOTE_BYTES - 8, MAX_NOTE_BYTES])
def test_one_line_of_sixteen_megabytes_is_a_line(size):
    note = parse_note(b"# " + b"x" * (size - 2))

    assert (note.is_read, len(note.title)) == (True, size - 2)
