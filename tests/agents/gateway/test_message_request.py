"""Message request: what a request may cost is read from it, and what would have the model's server
reach out is refused.
"""

from __future__ import annotations

import json

import pytest

from parachuted.agents.gateway.message_request import (
    RequestRefusedError,
    is_same_model,
    read_request,
)

MODEL = "claude-haiku-4-5"
HAIKU = "claude-haiku-4-5-20251001"
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
    return read_request(json.dumps({**PLAIN, **parts}, ensure_ascii=False).encode(), MODEL)


@pytest.mark.parametrize("part", REACHING, ids=str)
def test_a_request_reaches_nothing_but_the_model(part):
    with pytest.raises(RequestRefusedError, match="this gateway takes no"):
        read(**part)


@pytest.mark.parametrize("part", PASSING, ids=str)
def test_what_the_request_holds_itself_passes(part):
    assert read(**part).model == MODEL


def test_what_is_no_message_is_refused():
    for body in (
        json.dumps(PLAIN).encode("utf-16"),
        b"[" * 100_000,
        b"[]",
        b"not json",
        b"",
    ):
        with pytest.raises(RequestRefusedError):
            read_request(body, MODEL)


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


@pytest.mark.parametrize(
    "part",
    [
        {"model": ["claude-opus-4-1"]},
        {"model": None},
        {"fallbacks": [{"model": "a"}]},
        {"fallback_model": "b"},
        {"models": ["c"]},
        {"advisor": {"model": "d"}},
        {"tools": [{"name": "x", "model": "e"}]},
        {"service_tier": "priority"},
        {"service_tier": None},
        {"speed": "fast"},
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
        {"context_management": {"edits": ["compact"]}},
    ],
    ids=str,
)
def test_another_model_and_what_costs_otherwise_than_by_tokens_are_refused(part):
    with pytest.raises(RequestRefusedError):
        read(**part)


def test_the_same_words_in_texts_and_usual_options_pass():
    read(
        fallback_model=MODEL,
        tools=[{"name": "x", "input_schema": {"properties": {"model": "no"}}}],
        messages=[{"role": "user", "content": [{"model": "no"}]}],
        metadata={"model": "no"},
        service_tier="standard_only",
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
    )


def test_what_is_sent_is_what_was_read_with_the_length_that_was_paid_for():
    twice = b'{"model": "%s", "max_tokens": 9, "a": 1, "a": 2}' % MODEL.encode()
    assert json.loads(read_request(twice, MODEL).body(7)) == {
        "model": MODEL,
        "max_tokens": 7,
        "a": 2,
    }


@pytest.mark.parametrize(
    ("asked", "setting", "is_same"),
    [
        (HAIKU, HAIKU, True),
        (HAIKU, "claude-haiku-4-5", True),
        (HAIKU, "haiku", True),
        ("haiku", "haiku", True),
        ("claude-sonnet-5-5", "claude-sonnet-5-5[1m]", True),
        ("claude-opus-5", HAIKU, False),
        ("claude-opus-5", "haiku", False),
        ("evil-haiku", "haiku", False),
        ("claude-haiku-4-50", "claude-haiku-4-5", False),
        ("", HAIKU, False),
        ("qwen3:8b", "qwen3:8b", True),
        ("qwen3:70b", "qwen3:8b", False),
    ],
)
def test_a_setting_names_a_model_without_its_date_or_by_its_family(asked, setting, is_same):
    assert is_same_model(asked, setting) is is_same
