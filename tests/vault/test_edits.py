"""Edits: the named part changes, every other byte stays, and what would touch more is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.vault.edits import (
    AppendToSection,
    DeleteKey,
    ReplaceAll,
    ReplaceSection,
    ReplaceSpans,
    SetFrontmatterKey,
    SeveralEdits,
    TextSpan,
    apply_edit,
)
from parachuted.vault.note import parse_note

PIECES = [
    *(
        "# A",
        "## B",
        "## C ##",
        "### D",
        "#### E",
        "A\n===",
        "C\n---",
        "text",
        "more  ",
        "- item",
        "> q",
        "```",
        "```\n# x\n```",
    ),
    *("<!-- c -->", "<!--", "", "", "  ", "---", "    code", "| a |", "é", "\xa0"),
]
ENDS = st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n", ""])
BODIES = st.lists(st.tuples(st.sampled_from(PIECES), ENDS), max_size=14).map(
    lambda parts: "".join(map("".join, parts)).encode()
)
FRONTS = st.sampled_from(
    [
        b"",
        b"",
        b"\xef\xbb\xbf",
        b"---\na: 1\n---\n",
        b"\xef\xbb\xbf---\r\na: 1\r\n---\r\n",
        b"---\na: b: c\n---\n",
        b"---\n",
    ]
)
NOTES = st.tuples(
    FRONTS, BODIES, st.sampled_from([b"", b"\n## A\n", b"\n## A\n", b"\r\n# A\r\n"]), BODIES
).map(b"".join)
MILD = [
    piece
    for piece in PIECES
    if piece not in {"# A", "## B", "```", "<!--", "A\n===", "C\n---", "## C ##"}
]
CONTENTS = st.lists(
    st.tuples(st.sampled_from([*MILD, *MILD, *MILD, *PIECES]), ENDS), max_size=5
).map(lambda parts: "".join(map("".join, parts)))
NAMES = st.sampled_from(["A", "A", "A", "B", "C", "D", "A > C"])


def replaced(data, section, content, *, create=False):
    return apply_edit(ReplaceSection(section=section, content=content, create=create), data)


def appended(data, section, content, *, create=False):
    return apply_edit(AppendToSection(section=section, content=content, create=create), data)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"## A\nold\n## B\n", "new", b"## A\nnew\n## B\n"),
        (b"## A\n\nold\n\n\n## B\n", "new\n", b"## A\n\nnew\n\n\n## B\n"),
        (
            b"## A\n\n  old\nold  \n\n## B\n",
            "\n\nnew\n\nmore\n\n",
            b"## A\n\nnew\n\nmore\n\n## B\n",
        ),
        (b"## A\n## B\n", "new", b"## A\n\nnew\n\n## B\n"),
        (b"## A\n\n## B\n", "new", b"## A\n\nnew\n\n## B\n"),
        (b"## A\n\n\n\n## B\n", "new", b"## A\n\nnew\n\n\n## B\n"),
        (b"## A\n", "new", b"## A\n\nnew\n"),
        (b"## A\n\n", "new", b"## A\n\nnew\n"),
        (b"## A", "new\n", b"## A\n\nnew"),
        (b"## A\nold", "new\n", b"## A\nnew"),
        (b"## A\nold\n", "new", b"## A\nnew\n"),
        (b"## A\nold\n### A1\nx\n## B\n", "new", b"## A\nnew\n## B\n"),
        (b"## A\nold\n## B\n", "new\n### A1\nx", b"## A\nnew\n### A1\nx\n## B\n"),
        (b"## A\nold\n\n## B\n", "", b"## A\n\n\n## B\n"),
        (b"## A\n\n## B\n", "", b"## A\n\n## B\n"),
        (b"## A\nold", "", b"## A\n"),
        (b"## A\r\nold\r\n## B\r\n", "new\nmore", b"## A\r\nnew\r\nmore\r\n## B\r\n"),
        (b"## A\nold\n", "new\r\nmore\r\n", b"## A\nnew\nmore\n"),
        (b"## A\r\rold\rolder \r## B\r", "new", b"## A\r\rnew\r## B\r"),
        (b"A\n---\nold\n", "new", b"A\n---\nnew\n"),
        (b"## A\nold\n\n---\n\n## B\n", "new\n\n---", b"## A\nnew\n\n---\n\n## B\n"),
        (b"\xff\n## A\nold\n## \xfe\n\xfd", "new", b"\xff\n## A\nnew\n## \xfe\n\xfd"),
        (b"## A\nold\n## B\n```\n# x", "new", b"## A\nnew\n## B\n```\n# x"),
        (b"## A\nold\n", "```\n## x\n```\n<!--\n-->", b"## A\n```\n## x\n```\n<!--\n-->\n"),
        (b"## A\nold\n", "new\n\n---\ndown", b"## A\nnew\n\n---\ndown\n"),
    ],
)
def test_a_section_is_replaced_between_its_blank_lines(before, content, after):
    assert replaced(before, "a", content) == after


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"## A\n- x\n\n\n## B\n", "- y", b"## A\n- x\n- y\n\n\n## B\n"),
        (b"## A\n- x\n", "\n<!-- stamp -->\n- y\n\n", b"## A\n- x\n\n<!-- stamp -->\n- y\n"),
        (b"## A\n- x", "- y\n", b"## A\n- x\n- y"),
        (b"## A\n- x  \n## B\n", "- y", b"## A\n- x  \n- y\n## B\n"),
        (b"## A\n- x\n\n### A1\nz\n## B\n", "- y", b"## A\n- x\n- y\n\n### A1\nz\n## B\n"),
        (b"## A\n### A1\n", "\n- y", b"## A\n\n- y\n\n### A1\n"),
        (b"## A\n", "- y", b"## A\n\n- y\n"),
        (b"## A", "- y", b"## A\n\n- y"),
        (b"## A\n\n\n## B\n", "- y", b"## A\n\n- y\n\n## B\n"),
        (b"## A\r- x\r\r## B\r", "- y", b"## A\r- x\n- y\r\r## B\r"),
        (
            b"## A\r\n- x\r\n\r\n## B\r\n",
            "\n- y\n- z",
            b"## A\r\n- x\r\n\r\n- y\r\n- z\r\n\r\n## B\r\n",
        ),
        (b"## A\n- x\n", "", b"## A\n- x\n"),
        (b"## A\n\xff\n", "- y", b"## A\n\xff\n- y\n"),
        (b"## A\n- x\n", "### A1\nz", b"## A\n- x\n### A1\nz\n"),
    ],
)
def test_text_is_added_below_a_sections_own_text(before, content, after):
    assert appended(before, "A", content) == after


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"", "x", b"## New\n\nx\n"),
        (b"\xef\xbb\xbf", "x", b"\xef\xbb\xbf## New\n\nx\n"),
        (b"# T\n", "x", b"# T\n\n## New\n\nx\n"),
        (b"# T", "x", b"# T\n\n## New\n\nx"),
        (b"# T\n\n\n", "\n\nx\n\ny\n\n", b"# T\n\n\n## New\n\nx\n\ny\n"),
        (b"# T\n   ", "x", b"# T\n   \n## New\n\nx"),
        (b"# T\r\n", "x\ny", b"# T\r\n\r\n## New\r\n\r\nx\r\ny\r\n"),
        (b"---\na: 1\n---", "x", b"---\na: 1\n---\n\n## New\n\nx"),
        (b"---\na: 1\n---\n", "", b"---\na: 1\n---\n\n## New\n"),
        (b"# T\n", "### Deeper\nx", b"# T\n\n## New\n\n### Deeper\nx\n"),
    ],
)
def test_a_missing_section_is_made_at_the_end(before, content, after):
    assert replaced(before, "New", content, create=True) == after
    assert appended(before, "## New", content, create=True) == after


def test_a_section_that_is_there_is_not_made_again():
    assert appended(b"### new\nx\n", "New", "y", create=True) == b"### new\nx\ny\n"


def test_a_missing_section_is_reported_with_those_that_are_there():
    with pytest.raises(NotFoundError, match="no section 'X'; there are 'A', 'B'"):
        replaced(b"# A\n## B\n", "X", "x")
    with pytest.raises(NotFoundError, match="has none"):
        appended(b"text\n", "X", "x")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("## A\n- x", "heading '## A'"),
        ("x\n# Top", "heading '# Top'"),
        ("x\n\ny\n---", "heading '## y'"),
        ("```\nx", "code fence open"),
        ("x\n<!-- y", "comment open"),
        ("<pre>\n", "HTML open"),
        ("a\0b", "NUL"),
        ("a\rb", "CR"),
        ("a\ud800b", "Unicode"),
    ],
)
@pytest.mark.parametrize("change", [replaced, appended])
def test_content_that_would_not_stay_in_its_section_is_refused(change, content, why):
    with pytest.raises(EditRefusedError, match=why):
        change(b"# T\n\n## A\n\nold\n", "A", content)


@pytest.mark.parametrize(
    ("change", "data", "content", "why"),
    [
        (appended, b"## A\nold\n", "---", "headings"),
        (appended, b"## A\nold\n", "new\n===", "headings"),
        (replaced, b"---\na: 1\n\n## A\nold\n", "x\n\n---", "frontmatter"),
        (replaced, b"## A\nx\xffy\n", "z", "not UTF-8"),
        (replaced, b"## A\nold\n## B\n```\nx\n```\n", "```\nx", "open"),
        (replaced, b"## A\nold\n## B\n<!-- c -->\n", "<!-- y", "headings"),
        (replaced, b"## A\nold\n## B\n<pre></pre>\n", "<pre>", "headings"),
        (replaced, b"## A\nx\n", "x" * (16 << 20), "too large"),
        (appended, b"# a\n" * 50_001, "y", "headings"),
    ],
    ids=["rule", "underline", "frontmatter", "bytes", "fence", "comment", "html", "size", "count"],
)
def test_what_would_change_more_than_the_section_is_refused(change, data, content, why):
    with pytest.raises(EditRefusedError, match=why):
        change(data, "A", content)


@pytest.mark.parametrize(
    ("data", "name", "content"),
    [
        *(
            (b"# T\n", name, "x")
            for name in ("", "  ", "A > B", "a\nb", "C #", "a\0", "a\rb", "## ")
        ),  # which could not be found again
        *((b"# T\n", "New", content) for content in ("# x", "## x", "```", "x\n---")),
        *((data, "New", "x") for data in (b"# T\n```\nx\n", b"<!--\n")),  # where it would be hidden
    ],
)
def test_a_section_that_would_not_be_found_with_its_content_is_not_made(data, name, content):
    with pytest.raises(EditRefusedError):
        replaced(data, name, content, create=True)
    with pytest.raises(EditRefusedError):
        appended(data, name, content, create=True)


@pytest.mark.parametrize(
    "edit",
    [
        ReplaceSection(section="A", content="x"),
        SetFrontmatterKey(key="a", value=1),
        DeleteKey(key="a"),
    ],
)
def test_a_note_too_large_is_replaced_whole_or_not_at_all(edit):
    data = b"---\na: 2\n---\n## A\n" + b"x" * (16 << 20)

    with pytest.raises(EditRefusedError, match="larger than 16 MB"):
        apply_edit(edit, data)
    assert apply_edit(ReplaceAll(data=b"x"), data) == b"x"


def test_keys_are_edited_too():
    made = apply_edit(SetFrontmatterKey(key="a", value=["x"]), b"# T\n")
    assert made == b"---\na:\n  - x\n---\n# T\n"
    deleted = apply_edit(DeleteKey(key="a"), b"---\na: 1\nb: 2\n---\n# T\n")
    assert deleted == b"---\nb: 2\n---\n# T\n"
    with pytest.raises(NotFoundError):
        apply_edit(DeleteKey(key="a"), b"# T\n")


def texts_but(note, *left_out):
    """The opening text, then each section's heading and own text, but of those left out."""
    starts = {section.start for section in left_out}
    sections = [section for section in note.sections if section.start not in starts]
    return [
        note.data[: note.preamble.stop],
        *(note.data[section.start : section.own_stop] for section in sections),
    ]


def paths(sections):
    return [section.path for section in sections]


def family(note, section):
    return [other for other in note.sections if section.start <= other.start < section.stop]


@given(NOTES, NAMES, CONTENTS)
def test_a_replaced_section_is_all_that_changes(data, name, content):
    before = parse_note(data)
    old = before.section(name)
    try:
        after = parse_note(replaced(data, name, content))
    except NotFoundError:
        assert old is None
        return
    except EditRefusedError:
        return

    new = next(section for section in after.sections if section.start == old.start)
    assert after.data[: old.body.start].startswith(data[: old.body.start].rstrip(b"\n"))
    assert data[old.stop :] == after.data[new.stop :]
    assert texts_but(before, *family(before, old)) == texts_but(after, *family(after, new))
    assert (
        after.text(new.body).replace("\r\n", "\n").strip() == content.replace("\r\n", "\n").strip()
    )


@given(NOTES, NAMES, CONTENTS)
def test_an_addition_loses_nothing(data, name, content):
    before = parse_note(data)
    try:
        changed = appended(data, name, content)
    except (NotFoundError, EditRefusedError):
        return

    old, grown = before.section(name), len(changed) - len(data)
    assert any(
        changed[:at] == data[:at] and changed[at + grown :] == data[at:]
        for at in range(old.body_start, old.own_stop + 1)
    )
    found = iter(texts_but(parse_note(changed), old))
    assert all(text in found for text in texts_but(before, old))


@given(NOTES, CONTENTS)
def test_a_made_section_follows_all_that_was_there(data, content):
    before = parse_note(data)
    try:
        changed = replaced(data, "new", content, create=True)
    except EditRefusedError:
        return

    after = parse_note(changed)
    assert changed.startswith(data)
    made = after.sections[len(before.sections)]
    assert paths(after.sections[: len(before.sections)]) == paths(before.sections)
    assert (made.title, made.level) == ("new", 2)
    assert after.matter.values == before.matter.values


@given(
    NOTES,
    st.sampled_from(["a", "b", "é"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9),
)
def test_a_set_key_leaves_the_body(data, key, value):
    before = parse_note(data)
    try:
        after = parse_note(apply_edit(SetFrontmatterKey(key=key, value=value), data))
    except EditRefusedError:
        return

    assert after.data[after.body.start :] == data[before.body.start :]
    assert paths(after.sections) == paths(before.sections)
    assert not after.matter.readable or after.values[key] == value


@pytest.mark.parametrize("content", ["p", "p\nq\n\nr", "- a\n- b"])
def test_the_same_replacement_again_changes_no_file_of_mixed_line_ends(content):
    data = b"y\r\ny\r\ny\n# A\n- a\r\n- a\r\n## B\r\nx\n"
    for section in ("A", "B"):
        once = apply_edit(ReplaceSection(section=section, content=content), data)
        assert apply_edit(ReplaceSection(section=section, content=content), once) == once


def test_spans_are_replaced_where_they_were_whatever_their_order():
    spans = (
        TextSpan(start=5, stop=5, text="!"),
        TextSpan(start=0, stop=1, text="Öl"),
        TextSpan(start=3, stop=5, text=""),
    )

    assert apply_edit(ReplaceSpans(spans=spans), "éabcde".encode()) == "Ölab!e".encode()


@given(
    st.text(max_size=30),
    st.lists(st.tuples(st.integers(-2, 32), st.integers(-2, 32), st.text(max_size=3)), max_size=4),
)
def test_a_span_changes_nothing_outside_itself(text, given_spans):
    spans = tuple(TextSpan(start=one, stop=two, text=new) for one, two, new in given_spans)
    try:
        made = apply_edit(ReplaceSpans(spans=spans), text.encode()).decode()
    except EditRefusedError:
        return
    expected, at = "", 0
    for span in sorted(spans, key=lambda one: (one.start, one.stop)):
        expected += text[at : span.start] + span.text
        at = span.stop
    assert made == expected + text[at:]


def test_characters_are_not_counted_in_what_is_not_text():
    with pytest.raises(EditRefusedError, match="not UTF-8"):
        apply_edit(ReplaceSpans(spans=()), b"\xff")


def test_several_edits_are_all_made_or_none_is():
    edits = (
        SetFrontmatterKey(key="a", value=1),
        AppendToSection(section="B", content="x", create=True),
    )

    assert apply_edit(SeveralEdits(edits=edits), b"") == b"---\na: 1\n---\n\n## B\n\nx\n"
    with pytest.raises(NotFoundError):
        apply_edit(SeveralEdits(edits=(*edits, DeleteKey(key="none"))), b"")
