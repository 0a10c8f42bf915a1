"""The reach of an edit: a replaced section takes no heading with it that stands outside it, as
another CommonMark parser sees it.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from parachuted.errors import EditRefusedError
from parachuted.vault.edits import AppendToSection, ReplaceSection, apply_edit
from parachuted.vault.note import parse_note
from tests.vault.markdown_lines import MARKDOWN_LINES

SECOND_PARSER = MarkdownIt("commonmark")
LINES = st.sampled_from(
    [
        *MARKDOWN_LINES,
        "## B",
        "### C",
        "  # I",
        "   \t## M",
        "##",
        "#x",
        "A\n===",
        "B\n---",
        "1. ## N",
        ">\t# O",
        "* b",
        "+ c",
        "1.",
        "10) z",
        "-   u",
        "-     w",
        "-\t\tk",
        "- - d",
        "   - b",
        "     - c",
        "\t- d",
        ">",
        "> - a",
        ">> s",
        "> > r",
        "> <!--",
        "y z",
        "x  ",
        "  z",
        "    x",
        "```bash",
        "  ```",
        "\t```bash",
        "   ~~~",
        "1. ```",
        "```x`",
        "--",
        "=",
        "- - -",
        "___",
        "   ---",
        "    ---",
        "\t---",
        "\x0c",
        "\u2028",
        "- <!--",
        "  -->",
        "<script>",
        "</script>",
        "<style>",
        "<x y='z'>",
        "<!X",
        ">",
        "<![CDATA[",
        "]]>",
        "<textarea>",
        "</textarea>",
        "[l]: u 't",
        "t'",
        "[^1]: n",
        "a | b",
        "--|--",
        "c | d",
        "",
    ]
)
ENDS = st.sampled_from(["\n", "\n", "\n", "\n", "\n", "\n", "\r\n", "\r"])
NOTES = st.lists(st.tuples(LINES, ENDS), min_size=1, max_size=14).map(
    lambda lines: "".join(map("".join, lines))
)
CONTENTS = st.one_of(st.just("new"), st.lists(LINES, max_size=4).map("\n".join))


def replaced(data, content="new"):
    return apply_edit(ReplaceSection(section="A", content=content), data)


def headings_seen(data):
    """Level and first byte of each heading that the second parser sees, and whether it is a
    top-level one.
    """
    text = data.decode()
    starts = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", data))]
    tokens = [token for token in SECOND_PARSER.parse(text) if token.type == "heading_open"]
    return [(int(token.tag[1]), starts[token.map[0]], token.level == 0) for token in tokens]


def check_replacements(data, content):
    note = parse_note(data)
    if note.body.start or not note.outline.complete:
        return 0
    seen = headings_seen(data)
    replaced = 0
    for section in note.sections:
        same = note.sections_called(section.path)
        if section not in same:
            continue
        try:
            changed = apply_edit(
                ReplaceSection(
                    section=section.path, content=content, occurrence=1 + same.index(section)
                ),
                data,
            )
        except EditRefusedError:
            continue
        replaced += 1
        check_replacement(data, changed, section, seen)
    return replaced


def check_replacement(data, changed, section, seen):
    grown = len(changed) - len(data)
    stop = section.stop + grown
    assert changed[: section.body_start].rstrip(b"\r\n") == data[: section.body_start].rstrip(
        b"\r\n"
    )
    assert changed[stop:] == data[section.stop :]
    assert [
        one
        for one in seen
        if section.body_start <= one[1] < section.stop and one[2] and one[0] <= section.level
    ] == []

    after = headings_seen(changed)
    kept = {
        (level, start + grown * (start >= section.stop))
        for level, start, _ in seen
        if not section.body_start <= start < section.stop
    }
    assert kept <= {(level, start) for level, start, _ in after}


@settings(max_examples=5 * settings.default.max_examples)
@given(NOTES, CONTENTS)
def test_a_replaced_section_takes_no_other_heading_with_it(note, content):
    check_replacements(note.encode(), content)


def test_a_hundred_thousand_notes_lose_no_heading(torture):
    if not torture:
        pytest.skip("its small version is the test above")

    @settings(
        max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(NOTES, CONTENTS)
    def check(note, content):
        check_replacements(note.encode(), content)

    check()


@pytest.mark.parametrize(
    "part",
    ["1. Run:\n\n\t```bash\n   x\n   ```\n", "- a\n\n  b\n---\n", "> ```\n> x\n", "- <!-- c\n"],
)
def test_the_next_section_stays_whatever_stands_in_this_one(part):
    data = f"## A\n\n{part}\n## B\n\nkeep\n".encode()

    assert replaced(data) == b"## A\n\nnew\n\n## B\n\nkeep\n"


@pytest.mark.parametrize("part", ["1. x\n   ## H\n", "- ## H\n", "> ## H\n"])
def test_a_heading_in_an_item_or_a_quote_is_part_of_its_section(part):
    data = f"## A\n\n{part}\n## B\n\n{part}".encode()

    assert [section.title for section in parse_note(data).sections] == ["A", "B"]
    assert replaced(data) == f"## A\n\nnew\n\n## B\n\n{part}".encode()
    appended = apply_edit(AppendToSection(section="A", content="\nnew"), data)
    assert part.splitlines()[-1].encode() in appended


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("[l]: u\n    x\n===\n   ---\n", "line 4 stands right below a link's definition"),
        ("```sh\nx\n\n## B\n", "code fence at line 3 is never closed.*a line ```"),
        ("<script>\n</pre>\n\n## B\n", "line 3 is ended by another tag"),
    ],
)
def test_a_section_of_doubtful_reach_is_not_replaced_which_is_explained(part, why):
    with pytest.raises(EditRefusedError, match=f"how far the section 'A' reaches: .*{why}"):
        replaced(f"## A\n\n{part}".encode())


def test_text_may_be_added_to_a_section_of_doubtful_reach():
    data = b"## A\nx\n### C\n<!-- y\n\n## B\n"

    assert (
        apply_edit(AppendToSection(section="A", content="new"), data)
        == b"## A\nx\nnew\n### C\n<!-- y\n\n## B\n"
    )


@pytest.mark.parametrize(
    "content", ["<script>\n</pre>", "a | b\n--|--\nc | d\n---", "   - b\n    ---\nx\n==="]
)
def test_content_that_would_make_the_reach_doubtful_is_refused(content):
    with pytest.raises(EditRefusedError, match="the content"):
        replaced(b"# T\n\n# A\n\nx\n\n# B\n", content)
