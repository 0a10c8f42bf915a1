"""What an answer took is read from it, however its bytes are cut; what tokens cost: known models by
their prices, others by the rule for those who do not know.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.gateway.prices import PRICES, Meter, Tokens, cost_of, price_of

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-haiku-4-5-20251001", 1),
        ("claude-haiku-4-5@20251001", 1),
        ("claude-3-5-haiku-latest", 0.8),
        ("claude-3-haiku-20240307", 0.25),
        ("claude-sonnet-4-5-20250929", 3),
        ("claude-sonnet-5-5", 2),
        ("claude-opus-4-20250514", 15),
        ("claude-opus-4-1-20250805", 15),
        ("claude-opus-4-5-20251101", 5),
        ("claude-opus-5", 5),
        ("claude-fable-5-2", 8),
    ],
)
def test_a_million_tokens_of_input_cost_what_the_table_says(model, usd):
    assert cost_of(model, Tokens(input=MILLION), may_cost=True) == pytest.approx(usd)


def test_each_kind_of_token_has_its_price():
    of_cache = {"cache_read": 30_000, "cache_write_5m": 4000, "cache_write_1h": 5000}
    tokens = Tokens(input=1000, output=2000, **of_cache)
    by_hand = (1000 * 3 + 2000 * 15 + 30_000 * 0.3 + 4000 * 3.75 + 5000 * 6) / MILLION
    assert cost_of("claude-sonnet-4-5", tokens, may_cost=True) == pytest.approx(by_hand)


def test_a_model_of_unknown_price_costs_the_dearest_or_nothing_at_home():
    tokens = Tokens(input=MILLION, output=MILLION)
    dearest = max(price.of(tokens) for price in PRICES.values())
    assert cost_of("claude-next-9", tokens, may_cost=True) == dearest
    assert cost_of("qwen3:8b", tokens, may_cost=False) == 0.0
    assert cost_of("claude-haiku-4-5", tokens, may_cost=False) == pytest.approx(6)
    for alike in ("claude-opus-45", "claude-haiku-4-50", ""):  # they are other models
        assert price_of(alike) is None


def test_long_prompts_and_a_place_of_ones_choice_cost_more():
    def cost(tokens, model="claude-opus-4-6", **how):
        return cost_of(model, tokens, may_cost=True, **how)

    short, long, many = Tokens(input=100_000), Tokens(input=100_000, cache_read=1), Tokens(output=9)
    assert cost(short, "claude-haiku-5-5") == pytest.approx(0.01)
    assert cost(long, "claude-haiku-5-5") == pytest.approx(0.05, rel=1e-3)
    assert cost(many, place="us") == pytest.approx(cost(many) * 1.1)


STREAM = "text/event-stream; charset=utf-8"
USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 50,
    "cache_read_input_tokens": 7,
    "output_tokens": 1,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
}
START = {"type": "message_start", "message": {"model": "claude-haiku-4-5", "usage": USAGE}}
WORDS = {"type": "text_delta", "text": 'what is "usage"? ä' * 20}
DELTA = {"type": "content_block_delta", "index": 0, "delta": WORDS}
FAILED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 42},
}
STOP = {"type": "message_stop"}
WHOLE = Tokens(input=10, output=42, cache_read=7, cache_write_5m=20, cache_write_1h=30)


def events(*documents, end="\n"):
    lines = (f"event: {one['type']}{end}data: {json.dumps(one)}{end}{end}" for one in documents)
    return "".join(lines).encode()


def read(data, content_type=STREAM, cuts=()):
    meter = Meter(content_type)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in pairwise(places):
        meter.feed(data[begin:end])
    meter.end()
    return meter


@given(st.lists(st.integers(0, 5000), max_size=30), st.sampled_from(["\n", "\r\n"]))
def test_a_stream_is_read_however_it_is_cut(cuts, end):
    reading = read(events(START, DELTA, END, STOP, end=end), cuts=cuts)
    assert (reading.model, reading.tokens(), reading.has_ended) == ("claude-haiku-4-5", WHOLE, True)


def test_an_answer_that_does_not_stream_is_read_likewise():
    body = {"model": "m", "usage": {**USAGE, **END["usage"]}}
    reading = read(json.dumps(body).encode(), "application/json", cuts=(3, 50))
    assert (reading.model, reading.tokens(), reading.has_ended) == ("m", WHOLE, True)


def test_an_answer_that_was_cut_off_or_failed_counts_what_had_come():
    cut, failed = (read(events(START, *[DELTA] * 50, *end)) for end in ((), (FAILED,)))
    assert [(it.has_ended, it.has_failed) for it in (cut, failed)] == [
        (False, False),
        (False, True),
    ]
    for it in (cut, failed):
        assert (it.has_started, it.has_ended, it.tokens().input) == (True, False, 10)
        assert it.tokens().output > 50 * 20 * 17 / 4
    assert not read(events(START)).has_ended
    assert read(b"").tokens() == Tokens()
    in_place_of_an_answer = read(events(FAILED))
    assert (in_place_of_an_answer.has_failed, in_place_of_an_answer.has_started) == (True, False)


@pytest.mark.parametrize("value", [-5, 1.5, True, "9", None, [], {"a": 1}, 10**30])
def test_a_server_that_lies_about_its_usage_makes_no_money_back(value):
    names = ("output_tokens", "input_tokens", "cache_creation")
    lie = {"type": "message_delta", "usage": dict.fromkeys(names, value)}
    tokens = read(events(START, lie, STOP)).tokens()
    for name in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h"):
        assert 0 <= getattr(tokens, name) <= 10**9


@given(st.binary(max_size=400), st.sampled_from([STREAM, "application/json", ""]))
def test_no_bytes_upset_it(data, content_type):
    read(b"data: {" + data, content_type)
    read(data, content_type)


def test_a_line_without_end_is_passed_over():
    meter = Meter(STREAM)
    meter.feed(events(START))
    for _ in range(200):
        meter.feed(b"data: " + b"x" * 100_000)
    meter.feed(b"\n" + events(END, STOP))
    assert meter.tokens().output == 42
