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
    line = JsonLines().format(record("%s is full", "the disk", path="a.md", count=3, thing={1}))
    document = json.loads(line)
    del document["at"]
    whole = {"level": "warning", "logger": "parachuted.x", "message": "the disk is full"}
    assert document == {**whole, "path": "a.md", "count": 3, "thing": "{1}"}


@pytest.mark.parametrize("text", ["a\nb", "\r\n", "\x1b[2J", "\u2028", "\udcff", "\0", '"}{'])
def test_nothing_in_a_record_ends_its_line_or_steers_a_terminal(text):
    line = JsonLines().format(record(text, failed=True, path=text))
    plain = PlainLines().format(record(text.replace("\n", ""), path=text))

    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == text
    assert not {"\x1b", "\0", "\r", "\u2028", "\udcff"} & set(line + plain)


def test_a_line_for_people_is_the_sentence_with_fields_and_traceback():
    plain, full = PlainLines(), record("it is full", path="a.md")
    assert plain.format(full) == "warning: it is full path='a.md'"
    assert plain.format(record("it is full")) == "warning: it is full"
    failed = record("x", failed=True)
    assert plain.format(failed).endswith("ValueError: why")
    assert "ValueError: why" in json.loads(JsonLines().format(failed))["traceback"]


def test_a_line_of_the_log_is_read_by_people_as_a_sentence():
    line = JsonLines().format(record("kept %s", "two\nlines", path="a b.md", n=3))

    assert read_line(line).endswith(" warning kept two lines path=a b.md n=3")
    for odd in ("", "not JSON\n", "[1]", "{}"):
        assert read_line(odd) == odd.strip()
