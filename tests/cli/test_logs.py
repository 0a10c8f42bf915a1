from __future__ import annotations

import json
import logging

import pytest

from parachuted.cli.logs import JsonLines, PlainLines, read_line


def record(
    message: str, *args: object, failed: bool = False, **fields: object
) -> logging.LogRecord:
    made = logging.LogRecord("parachuted.x", logging.WARNING, "x.py", 1, message, args, None)
    if failed:
        made.exc_info = (ValueError, ValueError("why"), None)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_line_for_machines_is_one_json_object_with_the_fields():
    document = json.loads(
        JsonLines().format(record("%s is full", "the disk", path="a.md", count=3))
    )

    assert {**document, "at": ""} == {
        "at": "",
        "level": "warning",
        "logger": "parachuted.x",
        "message": "the disk is full",
        "path": "a.md",
        "count": 3,
    }


@pytest.mark.parametrize("text", ["a\nb", "\r\n", "\x1b[2J", "\u2028", "\udcff", "\0", '"}{'])
def test_nothing_in_a_record_ends_its_line_or_steers_a_terminal(text):
    lines = [
        JsonLines().format(record(text, failed=True, path=text)),
        PlainLines().format(record(text.replace("\n", ""), path=text)),
    ]

    assert len(lines[0].splitlines()) == 1
    assert json.loads(lines[0])["message"] == text
    assert not {"\x1b", "\0", "\r", "\u2028", "\udcff"} & set("".join(lines))


def test_a_line_for_people_is_the_sentence_with_the_fields():
    assert (
        PlainLines().format(record("it is full", path="a.md")) == "warning: it is full path='a.md'"
    )
    assert PlainLines().format(record("it is full")) == "warning: it is full"


def test_a_failure_has_its_traceback():
    assert (
        "ValueError: why" in json.loads(JsonLines().format(record("x", failed=True)))["traceback"]
    )
    assert PlainLines().format(record("x", failed=True)).endswith("ValueError: why")


def test_a_field_that_is_not_json_is_reported_as_text():
    assert json.loads(JsonLines().format(record("x", thing={1})))["thing"] == "{1}"


def test_a_line_of_the_log_is_read_by_people_as_a_sentence():
    line = JsonLines().format(record("kept %s", "two\nlines", path="a b.md", n=3))

    said = read_line(line)
    assert said.endswith(" warning kept two lines path=a b.md n=3")
    assert [read_line(odd) for odd in ("", "not JSON\n", "[1]", "{}")] == [
        "",
        "not JSON",
        "[1]",
        "{}",
    ]
