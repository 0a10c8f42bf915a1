"""What crosses the pipe is whole, bounded and nothing else."""

from __future__ import annotations

import json
import struct

import pytest

from parachuted.json_limits import MOST_VALUES
from parachuted.modules.hosting.framing import (
    MOST_ASKED_VALUES,
    MOST_BYTES,
    AnswerFrame,
    AskFrame,
    CancelFrame,
    LogFrame,
    RefusalFrame,
    Unpacker,
    WireError,
    pack,
    parse_frame,
)

FRAMES = [
    AskFrame(
        id=1,
        verb="call",
        body={"handler": "hello", "arguments": {"n": [1, 2.5, None, True, "ü\n\x00😀"]}},
        of=7,
    ),
    AnswerFrame(id=2, value={"a": [{}]}),
    AnswerFrame(id=3),
    RefusalFrame(id=4, error="NotFoundError", message="not there", details={"problems": ["x"]}),
    CancelFrame(id=5),
    LogFrame(level=20, text="hello"),
]


def framed(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def test_what_is_packed_comes_out_as_it_was():
    packed = b"".join(map(pack, FRAMES))

    assert list(Unpacker().feed(packed)) == FRAMES


def test_frames_may_come_byte_by_byte():
    unpacker, found = Unpacker(), []

    for byte in b"".join(map(pack, FRAMES)):
        found += unpacker.feed(bytes([byte]))

    assert found == FRAMES


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"kind":"ask"}',
        b'{"kind":"other","id":1}',
        b'{"kind":"ask","id":"1","verb":"x","body":{}}',
        b'{"kind":"ask","id":1,"verb":"x","body":[]}',
        b'{"kind":"ask","id":1,"verb":"x","body":{},"more":1}',
        b'{"kind":"answer","id":true}',
        b'{"kind":"answer","id":1,"value":NaN}',
        b'{"kind":"answer","id":1,"value":Infinity}',
        b'{"kind":"answer","id":1,"value":1e999}',
        b'{"kind":"answer","id":1,"value":99999999999999999999999}',
        b'{"kind":"answer","id":1,"value":"\\ud800"}',
        b'{"kind":"answer","id":1,"value":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"kind":"answer","id":1,"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"kind":"ask","id":1,"verb":"publish","body":{"data":NaN}}',
        b'{"kind":"said","level":1}',
    ],
)
def test_what_is_not_a_frame_is_an_error(text):
    with pytest.raises(WireError):
        list(Unpacker().feed(framed(text)))


def test_a_length_beyond_the_limit_is_an_error_before_any_of_it_is_there():
    with pytest.raises(WireError, match="longer than"):
        list(Unpacker().feed(struct.pack(">I", MOST_BYTES + 1)))


def test_what_is_too_long_is_not_packed():
    with pytest.raises(WireError, match="more than"):
        pack(AnswerFrame(id=1, value="x" * MOST_BYTES))


@pytest.mark.parametrize(
    "value", [object(), "\ud800", {1: object()}], ids=["object", "lone surrogate", "number as key"]
)
def test_what_json_has_not_is_not_packed(value):
    with pytest.raises(WireError):
        pack(AnswerFrame(id=1, value=value))


@pytest.mark.parametrize(
    "value",
    [
        b"[" + b"[]," * 60_000 + b"[]]",
        b"[" + b"1," * MOST_VALUES + b"1]",
        b"{" + b'"a":1,' * MOST_VALUES + b'"a":1}',
    ],
    ids=["lists", "numbers", "keys"],
)
def test_a_frame_that_holds_too_much_is_an_error_before_anything_is_made_of_it(value):
    with pytest.raises(WireError):
        parse_frame(b'{"kind":"answer","id":1,"value":' + value + b"}")


def test_what_is_asked_holds_less_than_what_is_answered_may():
    many = list(range(MOST_ASKED_VALUES))

    assert parse_frame(pack(AnswerFrame(id=1, value=many))[4:]) == AnswerFrame(id=1, value=many)
    for refused in (
        lambda: pack(AskFrame(id=1, verb="x", body={"a": many})),
        lambda: parse_frame(asked(many)),
    ):
        with pytest.raises(WireError, match="send it in parts"):
            refused()


def asked(value):
    return json.dumps({"kind": "ask", "id": 1, "verb": "x", "body": {"a": value}}).encode()


def test_a_frame_is_plain_json_after_its_length():
    packed = pack(CancelFrame(id=5))

    assert json.loads(packed[4:]) == {"kind": "cancel", "id": 5}
