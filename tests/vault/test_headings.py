"""Headings: found where CommonMark has them, hidden ones not, and never slowly."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.vault.blocks import read_blocks
from parachuted.vault.headings import MAX_HEADINGS, read_outline
from tests.vault.markdown_lines import MARKDOWN_LINES


def headings(text):
    return [(heading.level, heading.title) for heading in read_outline(text.encode(), 0).headings]


def codes(text):
    return [problem.code for problem in read_outline(text.encode(), 0).problems]


@pytest.mark.parametrize(
    ("line", "level", "title"),
    [
        ("# A", 1, "A"),
        ("## A b", 2, "A b"),
        ("###### A", 6, "A"),
        ("   ## A", 2, "A"),
        ("## A ##", 2, "A"),
        ("## A ######  ", 2, "A"),
        ("## A#", 2, "A#"),
        ("## C # b", 2, "C # b"),
        ("##\tA", 2, "A"),
        ("##   A   ", 2, "A"),
        ("##", 2, ""),
        ("## ##", 2, ""),
        ("## A\r", 2, "A"),
        ("# **b** `c`", 1, "**b** `c`"),
    ],
)
def test_a_line_of_hashes_is_a_heading(line, level, title):
    assert (
        headings(line)
        == headings(f"text\n{line}\nmore")
        == headings(f"\n\n{line}\n")
        == [(level, title)]
    )


@pytest.mark.parametrize(
    "line",
    [
        "#A",
        "####### A",
        "    # A",
        "\t# A",
        "  \t# A",
        "\\# A",
        "> # A",
        "- # A",
        "1. # A",
        "a # A",
    ],
)
def test_what_only_looks_like_one_is_none(line):
    assert headings(line) == headings(f"\n{line}\n\n") == []


@pytest.mark.parametrize(
    ("text", "level", "title"),
    [
        ("A\n===", 1, "A"),
        ("A\n---", 2, "A"),
        ("A\n-", 2, "A"),
        ("A\n=", 1, "A"),
        ("A\r\n---\r\n", 2, "A"),
        ("  A\n   --- ", 2, "A"),
        ("A\nb\n---", 2, "A b"),
        ("A\n    b\n===", 1, "A b"),
        ("A\n2. b\n---", 2, "A 2. b"),
        ("#A\n---", 2, "#A"),
        ("***\nA\n---", 2, "A"),
        ("[l]: u\nA\n---", 2, "A"),
        ("    code\nA\n---", 2, "A"),
        ("`` ```x` ``\n---", 2, "`` ```x` ``"),
        ("```x`\n---", 2, "```x`"),
        ("<https://x.y>\n---", 2, "<https://x.y>"),
        ("<b>x</b> y\n---", 2, "<b>x</b> y"),
        ("===\n===", 1, "==="),
        ("--\n---", 2, "--"),
        ("- a\n\nA\n---", 2, "A"),
        ("<!-- c -->\nA\n---", 2, "A"),
    ],
)
def test_a_line_under_a_paragraph_makes_it_a_heading(text, level, title):
    assert headings(text) == headings(f"{text}\n\nmore") == [(level, title)]


@pytest.mark.parametrize(
    "above", ["", "\n", "- a", "* a", "1. a", "- a\nb", "> q", "> q\nb", "***"]
)
@pytest.mark.parametrize("under", ["---", "----", "- - -", "***"])
def test_a_rule_after_anything_else_is_a_rule(above, under):
    assert headings(f"{above}\n{under}\ntext\n") == []


@pytest.mark.parametrize(
    "above",
    [
        "<div>",
        "<div>\nx",
        "</p>",
        "<x y='z'>",
        "<!DOCTYPE html>",
        "    code",
        "[l]: u",
        "[^1]: note",
        "-",
        "- a\n===",
        "x\n\n-\n  a",
        "```\nx\n```",
    ],
)
def test_a_rule_after_other_blocks_is_a_rule(above):
    assert headings(f"{above}\n---\ntext\n") == []


def test_a_rule_after_a_heading_is_a_rule():
    assert headings("# A\n---\nB\n---\n---\n## C\n===\n") == [(1, "A"), (2, "B"), (2, "C")]


@pytest.mark.parametrize(
    "hidden",
    [
        "```\n# no\n```",
        "```py\n# no\n~~~\n# no\n```",
        "~~~\n# no\n```\n# no\n~~~~",
        "````\n```\n# no\n````",
        "  ```\n# no\n   ```",
        "```\n# no\n    ```\n# no\n```",
        "```\n# no\n``` x\n# no\n```",
        "```\n\n# no\n\n```",
        "```\r\n# no\r\n```",
        "- ```sh\n  # no\n  ```",
        "1. ```sh\n   # no\n   ```",
        "- - ~~~\n    # no\n    ~~~",
        "- ```\n  # no",
        "<!-- # no\n# no\n-->",
        "<!--\n\n# no\n\n--> # no",
        "<!-->\n    # no",
        "text\n<!--\n# no\n-->",
        "- <!-- c\n  # no\n  -->",
        "<!-- ```\n# no -->",
        "```\n<!--\n```",
        "<pre>\n# no\n\n# no\n</pre>",
        "<SCRIPT x>\n# no\n</script>",
        "<style>\n# no\n</style>",
        "<?php\n# no\n?>",
        "<!DOCTYPE\n# no\n>",
        "<![CDATA[\n# no\n]]>",
        "    # no\n\n    # no",
    ],
)
def test_what_a_fence_a_comment_or_an_indent_hides_is_not_a_heading(hidden):
    assert headings(f"{hidden}\n# A\n") == headings(f"x\n\n{hidden}\n\n\n# A\n") == [(1, "A")]
    assert codes(f"{hidden}\n# A\n") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```\n# no", "unclosed-fence"),
        ("~~~\n```\n# no\n~~", "unclosed-fence"),
        ("````\n```\n# no\n", "unclosed-fence"),
        ("<!-- x\n# no", "unclosed-comment"),
        ("<!--", "unclosed-comment"),
        ("<pre>\n# no", "unclosed-html"),
        ("<?\n# no", "unclosed-html"),
        ("<!X\n# no", "unclosed-html"),
    ],
)
def test_what_is_left_open_hides_the_rest_and_is_reported(text, code):
    assert headings(f"# A\n{text}") == [(1, "A")]
    assert codes(f"# A\n{text}") == [code]


@pytest.mark.parametrize(
    "line",
    [
        "a <!-- b",
        "`<!--`",
        "\\<!--",
        "    <!--",
        "``` a`b",
        "> ```",
        "- ```\n  # no",
        "<prefix",
        "    ```",
    ],
)
def test_what_opens_nothing_hides_nothing(line):
    assert headings(f"{line}\n# A") == [(1, "A")]
    assert codes(f"{line}\n# A") == []


def test_a_heading_has_its_whole_lines():
    data = b"\xef\xbb\xbf# A\r\ntext\r\n\r\none\r\ntwo\r\n---\r\nx\r\n## B"
    found = read_outline(data, 3).headings

    assert [data[heading.start : heading.stop] for heading in found] == [
        b"# A\r\n",
        b"one\r\ntwo\r\n---\r\n",
        b"## B",
    ]


def test_the_text_before_the_beginning_is_not_looked_at():
    assert [heading.start for heading in read_outline(b"# A\n# B\n", 4).headings] == [4]
    assert read_outline(b"text\n---\n", 5).headings == ()


def test_bytes_that_are_no_text_are_shown_as_such():
    assert [heading.title for heading in read_outline(b"# A\xff\0\n", 0).headings] == ["A\ufffd\0"]


def test_more_headings_than_any_note_has_are_not_distinguished():
    whole, more = (read_outline(b"# x\n" * (MAX_HEADINGS + many), 0) for many in (0, 1))

    assert (whole.complete, len(whole.headings), whole.problems) == (True, MAX_HEADINGS, ())
    assert (more.complete, len(more.headings)) == (False, 0)
    assert [problem.code for problem in more.problems] == ["too-many-headings"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## A\n\n1. Run:\n\n\t```bash\n   x\n   ```\n\n## B\n\nkeep\n", ["A", "B"]),
        ("## A\n\n- ```\n  x\n      ```\n\n## B\n", ["A", "B"]),
        ("- ```\n  x\n    ```\n\n## B\n", ["B"]),
        ("## A\n\n1. Run:\n\n   ```bash\n   x\n\t   ```\n\n## B\n", ["A", "B"]),
        ("## A\n\n1. Run\n   ```bash\n   x\n2. Next\n\n## B\n", ["A", "B"]),
        ("## A\n\n1. Run\n\n\t```bash\n\t# no\n\t```\n\n## B\n", ["A", "B"]),
        ("## A\n\n\t```\n\t# no\n\n## B\n", ["A", "B"]),
        ("- a\n\n  b\n---\n\n## B\n", ["B"]),
        ("1. x\n   ## H\n\n## B\n", ["B"]),
        ("- x\n\n  ## H\n## B\n", ["B"]),
        ("> ## H\n## B\n", ["B"]),
        ("<div>\n## no\n</div>\n\n## B\n", ["B"]),
        ("<!-- c -->\n## B\n", ["B"]),
        ("<pre>\nx\n</pre>\n## B\n", ["B"]),
        ("text\r## B\rmore\n", ["B"]),
        ("\x0b\n===\n", ["\x0b"]),
        ("é\n===\n<é>\n## B\n", ["é", "B"]),
        ("[l]: /u\n===\n## B\n", ["B"]),
        ("[l]: /u\nA\n===\n", ["A"]),
    ],
)
def test_lists_quotes_and_html_hide_and_hold_what_commonmark_says(text, expected):
    assert [title for _, title in headings(text)] == expected


SPEC = json.loads(
    (Path(__file__).parent / "commonmark.json").read_text()
)  # the examples of CommonMark 0.31.2, by John MacFarlane, CC BY-SA 4.0


def test_the_examples_of_the_standard_have_the_headings_it_says():
    found = {one["example"]: [level for level, _ in headings(one["markdown"])] for one in SPEC}

    assert found == {one["example"]: levels_in(one["html"]) for one in SPEC}
    assert len(found) > 600


def levels_in(html: str) -> list[int]:
    """The levels of the headings that stand in no quote and no list."""
    depth, levels = 0, []
    for tag in re.finditer(r"<(/?)(blockquote|ul|ol)\b|<h([1-6])>", html):
        if tag[3] is None:
            depth += -1 if tag[1] else 1
        elif depth == 0:
            levels.append(int(tag[3]))
    return levels


SHAPES = st.sampled_from(
    [
        *MARKDOWN_LINES,
        "```sh",
    ]
)
LINE_ENDS = st.sampled_from(["\n", "\n", "\n", "\n", "\r\n", "\r"])
TEXTS = st.lists(st.tuples(SHAPES, LINE_ENDS), max_size=14).map(
    lambda lines: "".join(map("".join, lines))
)


@settings(max_examples=5 * settings.default.max_examples)
@given(TEXTS)
def test_what_is_read_without_the_parser_is_what_the_parser_sees(text):
    data = text.encode()
    parsed = [
        (block.level, block.stop)
        for block in read_blocks(data, 0, len(data))
        if block.kind == "Heading"
    ]

    assert [(heading.level, heading.stop) for heading in read_outline(data, 0).headings] == parsed


def test_a_note_without_doubtful_headings_is_read_without_the_parser(monkeypatch):
    monkeypatch.setattr("parachuted.vault.headings.read_blocks", None)

    assert headings(
        "# T\n\n- a\n  - b\n\n\t```\n\n```sh\n# no\n```\n\n---\n\n<!-- c -->\n## B\n> q\n"
    ) == [(1, "T"), (2, "B")]


LINES = [
    *(
        "# h",
        "x",
        "",
        " ",
        "---",
        "===",
        "- a\n===",
        "a\n===",
        "-",
        "--",
        "```",
        "~~~\n```",
        "- ```",
        "  - ```",
        "<!--",
        "- <!--",
    ),
    *(
        "<pre>",
        "<?",
        "> a",
        "1. ",
        "| a |",
        "[a]: b",
        "    # x",
        "a\n \n---",
        "   - ~~~\n     - ```",
        "```a`",
        "\r",
        "- a\n--",
    ),
]


RUNS = ["#", "-", "=", "`", "~", " ", "\t", "- ", "1. ", "<!-- ", "<!--", "> ", "\r", "# ", "`` "]


@pytest.mark.parametrize("unit", [*(f"{line}\n" for line in LINES), *RUNS, "a ", "[", "|"])
def test_no_text_and_no_line_takes_long(unit):
    data = unit.encode() * ((1 << 15) // len(unit))
    began = time.process_time()
    read_outline(data, 0)
    read_outline(b"- a\n" + data, 0)
    read_outline(data + b"\n---\n" + data + b"x\n===\n", 0)

    assert time.process_time() - began < 3  # under 0.2 s; what is quadratic takes 15 s
