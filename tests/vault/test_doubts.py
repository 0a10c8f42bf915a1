"""Doubts: what readers of markdown take for different things is told with its line and the way out,
and nothing else is.
"""

from __future__ import annotations

import re

import pytest

from parachuted.vault.headings import read_outline


def doubts(text):
    data = text.encode()
    return [
        (doubt.problem.code, data[doubt.start : doubt.stop].decode())
        for doubt in read_outline(data, 0).doubts
    ]


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("x\n\n```\n# no\n", ("unclosed-fence", "```\n# no\n")),
        ("x\n\n<!-- y\n\n# no", ("unclosed-comment", "<!-- y\n\n# no")),
        ("x\n\n<?\n\n# no", ("unclosed-html", "<?\n\n# no")),
        (
            "| a | b |\n|---|---|\n| c | d |\n---\n\nx\n",
            ("table-or-heading", "| a | b |\n|---|---|\n| c | d |\n---\n"),
        ),
        ("a | b\n--|--\nc | d\n===\n", ("table-or-heading", "a | b\n--|--\nc | d\n===\n")),
        ("<script>\n</pre>\n# A\n", ("crossed-tags", "<script>\n</pre>\n# A\n")),
        (
            "<pre>\n</SCRIPT>\n\n# A\n</pre>\n# B\n",
            ("crossed-tags", "<pre>\n</SCRIPT>\n\n# A\n</pre>\n"),
        ),
        (">> s\n\t## T\n  x\n---\n", ("underline-below-list", ">> s\n\t## T\n  x\n---")),
        ("   - b\n    ## K\nx\r---\n", ("underline-below-list", "   - b\n    ## K\nx\r---")),
        ("> > r\n\tx\ny\n   \tz\n--\n", ("underline-below-list", "> > r\n\tx\ny\n   \tz\n--\n")),
        ("   - b\n    ---\nx\n===\n", ("underline-below-list", "   - b\n    ---\nx\n===\n")),
        ('- [a]: /u "t"\nx\n---\n', ("underline-below-list", '- [a]: /u "t"\nx\n---')),
        ("> [a]:\n> /u\nx\n===\n", ("underline-below-list", "> [a]:\n> /u\nx\n===\n")),
        ("[a]: /u\n---\nx\n=\n", ("rule-below-definition", "---\nx\n=\n")),
        ("[\na]: /u\n 't'\n---\n</b>\n# in\n", ("rule-below-definition", "---\n</b>\n# in\n")),
    ],
)
def test_what_may_be_read_in_two_ways_is_reported(text, doubt):
    assert doubts(text) == [doubt]
    assert doubts(f"# H\n\n{text}") == [doubt]


@pytest.mark.parametrize(
    "text",
    [
        "```\nx\n```",
        "<!-- c -->",
        "<pre>\nx\n</pre>",
        "<div>\nx",
        "- ```\n  x",
        "1. a\n   ```\n   x\n2. b",
        "| a | b |\n|---|---|\n| c | d |\n\n---",
        "| a |\n---",
        "- a\n    - b\n- c\n---",
        "- a\nb\n---",
        "> a\n---",
        "    code\n\nx\n---",
        "<pre>\n</pre>\n</script>",
        "- [a]: /u\n\nx\n---",
        "[a]: /u\n[b]: /v\n\n---\nx\n===",
        "[a]: /u\n---\n\n<b>",
        "- [a]: /u\n---",
        "<script>\nif (a </pre\n</script>",
    ],
)
def test_what_all_readers_agree_on_is_not_a_doubt(text):
    assert doubts(f" # H\n\n{text}\n") == doubts(f" # H\n\n{text}\n\n## B\n") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n````sh\nx\n", "line 3 is never closed.*close it with a line ````$"),
        ("<!-- a\n", "line 1 is never closed.*close it with -->"),
        ("<style>\n", "piece of HTML at line 1 is never closed"),
        ("\na | b\n--|--\n---\n", "table at line 2.*blank line between"),
        (
            "<pre>\n</style>\n",
            "line 1 is ended by another tag, </style>; close it with </pre> first",
        ),
        (
            "[l]: u\n    ## K\n===\n---\n",
            "line 2 stands right below a link's definition.*blank line above",
        ),
        ("[l]: u\n-\n---\n", "line 2 stands right below a link's definition.*blank line above"),
        ("[l]: u\n<b>\n", "line 2 stands right below a link's definition.*blank line above"),
        ("[a]: /u\n---\n=\n", "line 2 is a rule to some readers.*blank line above"),
        ("- a\n      b\nc\n---\n", "line 4 may underline a heading.*blank line above"),
    ],
)
def test_a_doubt_names_its_line_and_the_way_out(text, message):
    (problem,) = read_outline(text.encode(), 0).problems

    assert re.search(message, problem.message)
