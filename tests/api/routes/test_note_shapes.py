from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from parachuted.api.http.answers import json_bytes
from parachuted.api.routes.notes import NoteAnswer, NoteMap, answer_of, clean, json_text, map_of
from parachuted.texts.times import moment
from parachuted.vault import VaultPath, digest_of, parse_note

PATH = VaultPath("a.md")


def document_of(shape: type, value: object) -> dict:
    """The value as it is sent, which is of that shape."""
    data = TypeAdapter(shape).dump_json(value)
    TypeAdapter(shape).validate_json(data, strict=True)
    return json.loads(data)


@given(
    st.lists(
        st.sampled_from(
            [
                *(b"# A", b"## B\r", b"", b"---", b"k: v", b"[[x\xff]]", b"text \xff", b"```"),
                *(b"\xef\xbb\xbf", b"B\n==="),
            ]
        )
    )
)
def test_any_note_is_reported_as_it_is_declared_and_no_text_is_missing(lines: list[bytes]):
    data = b"\n".join(lines)
    note = parse_note(data)
    whole = document_of(NoteAnswer, answer_of(PATH, digest_of(data), 1.5, note))

    texts = whole["preamble"] + "".join(section["content"] for section in whole["sections"])
    headings = sum(section.body_start - section.start for section in note.sections)
    shown_bytes = data[note.body.start :].decode("utf-8", "replace")
    assert len(texts) >= len(shown_bytes) - headings
    lines_in_all = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))

    where = document_of(NoteMap, map_of(PATH, digest_of(data), note))
    assert where["lines"] == lines_in_all or not data
    for one in [*where["headings"], *where["keys"]]:
        assert one["first_line"] == data[: one["start"]].count(b"\n") + 1
        assert one["first_line"] <= one["last_line"] <= lines_in_all


def test_what_json_cannot_hold_is_shown_otherwise():
    values = {"a\udcff": ["\ud800", {"b": "\udc80x"}], "n": 5}

    assert json.loads(json_bytes(clean(values))) == {
        "a\ufffd\ufffd\ufffd": ["\ufffd\ufffd\ufffd", {"b": "\ufffd\ufffd\ufffdx"}],
        "n": 5,
    }
    assert json_text("é") == "é"


def test_a_time_that_no_calendar_has_is_the_beginning():
    assert moment(0.5) == "1970-01-01T00:00:00.500000Z"
    assert moment(1e18) == moment(-1e18) == "1970-01-01T00:00:00Z"
