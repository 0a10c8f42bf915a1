"""Answers of modules' commands, as a person reads them."""

from __future__ import annotations

import pytest

from parachuted.cli.module_commands import NOTHING, lines_of

ENTRY = {
    "id": "e1",
    "created_at": "10:30",
    "content": "Sowed.\n\nThen rain.",
    "metadata": {"type": "text", "is_private": False},
    "links": ["a", "b"],
    "audio": None,
    "tags": [],
}
LINES = """\
id: e1
created at: 10:30
content:
  Sowed.

  Then rain.
metadata:
  type: text
  is private: no
links:
  a
  b"""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ENTRY, LINES),
        ([ENTRY, {"id": "e2"}], f"{LINES}\n\nid: e2"),
        ({"path": "a.md", "count": 0}, "path: a.md\ncount: 0"),
        ("two\nlines", "two\nlines"),
        (["one", "two"], "one\ntwo"),
        ([[1, 2], [3]], "1\n2\n\n3"),
        (3, "3"),
        (True, "yes"),
        ([], NOTHING),
        (None, ""),
    ],
)
def test_an_answer_is_readable_without_json(answer: object, said: str):
    assert "\n".join(lines_of(answer)) == said
