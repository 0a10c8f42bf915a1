"""What an answer took is read from the answer, however its bytes are cut, and whatever a server
sends.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.gateway.prices import Meter, Tokens

STREAM = "text/event-stream; charset=utf-8"
START = {
    "type": "message_start",
    "message": {
        "model": "claude-haiku-4-5",
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 50,
            "cache_read_input_tokens": 7,
            "output_tokens": 1,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
        },
    },
}
DELTA = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": 'what is "usage"? ä' * 20},
}
END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 42, "server_tool_use": {"web_search_requests": 2}},
}
STOP = {"type": "message_stop"}
WHOLE = Tokens(input=10, output=42, cache_read=7, cache_write_5m=20, cache_write_1h=30, searches=2)


def events(*documents, end="\n"):
    return "".join(
        f"event: {one['type']}{end}data: {json.dumps(one)}{end}{end}" for one in documents
    ).encode()


def read(data, content_type=STREAM, cuts=()):
    meter = Meter(content_type)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in pairwise(places):
        meter.feed(data[begin:end])
    return meter.read()


@given(st.lists(st.integers(0, 5000), max_size=30), st.sampled_from(["\n", "\r\n"]))
def test_a_stream_is_read_however_it_is_cut(cuts, end):
    reading = read(events(START, DELTA, END, STOP, end=end), cuts=cuts)
    assert (reading.model, reading.tokens, reading.is_whole) == ("claude-haiku-4-5", WHOLE, True)


def test_an_answer_that_does_not_stream_is_read_likewise():
    body = {"model": "m", "usage": {**START["message"]["usage"], **END["usage"]}}
    reading = read(json.dumps(body).encode(), "application/json", cuts=(3, 50))
    assert (reading.model, reading.tokens, reading.is_whole) == ("m", WHOLE, True)


def test_an_answer_that_was_cut_off_counts_what_had_come_and_says_so():
    reading = read(events(START, *[DELTA] * 50))
    assert not reading.is_whole
    assert reading.tokens.input == 10
    assert 50 * 20 * 17 / 4 < reading.tokens.output < 50 * 20 * 40
    assert not read(events(START)).is_whole
    assert read(b"").tokens == Tokens()


def test_an_answer_that_its_server_ended_with_an_error_counts_what_had_come():
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    cut, reading = read(events(START, *[DELTA] * 50)), read(events(START, *[DELTA] * 50, failed))
    assert (reading.tokens, reading.is_whole, cut.is_whole) == (cut.tokens, True, False)


@pytest.mark.parametrize("value", [-5, 1.5, True, "9", None, [], {"a": 1}, 10**30])
def test_a_server_that_lies_about_its_usage_makes_no_money_back(value):
    lie = {
        "type": "message_delta",
        "usage": {
            "output_tokens": value,
            "input_tokens": value,
            "cache_creation": value,
            "server_tool_use": value,
        },
    }
    tokens = read(events(START, lie, STOP)).tokens
    assert all(
        0 <= getattr(tokens, name) <= 10**9
        for name in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    )


@given(st.binary(max_size=400), st.sampled_from([STREAM, "application/json", ""]))
def test_no_bytes_upset_it(data, content_type):
    read(b"data: {" + data, content_type)
    read(data, content_type)


def test_a_line_without_end_is_passed_over_and_takes_no_room():
    meter = Meter(STREAM)
    meter.feed(events(START))
    for _ in range(200):
        meter.feed(b"data: " + b"x" * 100_000)
    assert len(meter._rest) <= 4 << 20
    meter.feed(b"\n" + events(END, STOP))
    assert meter.read().tokens.output == 42
