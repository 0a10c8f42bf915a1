"""What of a request passes, and what of its answer."""

from __future__ import annotations

import pytest

from parachuted.agents.gateway.login import allowed, headers_down, headers_up, token_of

HERE = [
    "/v1/messages/",
    "//v1/messages",
    "/v1/messages/../files",
    "/v1/./messages",
    "/v1%2Fmessages",
    "/v1/%6Dessages",
    "/V1/messages",
    "http://api.anthropic.com/v1/messages",
    "/v1/messages#x",
    "/v1/messages?x=%0d%0aHost:",
    "/v1/messages?x=a b",
    "/v1/files",
    "/v1/models",
    "/v1/messages/batches",
    "/v1/complete",
    "/",
    "*",
    "",
    "/v1/messages;x",
    "/v1/messages\\..\\files",
    "/v1/messages?" + "a" * 300,
    "/api/oauth/claude_cli/roles",
    "/v1/organizations/usage_report/messages",
]


def test_the_messages_api_passes():
    assert allowed("POST", "/v1/messages") == ("/v1/messages", "")
    assert allowed("POST", "/v1/messages?beta=true") == ("/v1/messages", "beta=true")
    assert allowed("POST", "/v1/messages/count_tokens?beta=true") == (
        "/v1/messages/count_tokens",
        "beta=true",
    )
    assert allowed("HEAD", "/") == ("/", "")


@pytest.mark.parametrize("target", HERE)
def test_no_other_path_passes_however_it_is_spelled(target):
    assert allowed("POST", target) is None


@pytest.mark.parametrize(
    "method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "CONNECT", "post"]
)
def test_no_other_method_passes(method):
    assert allowed(method, "/v1/messages") is None


def test_the_agent_s_own_proof_is_dropped_and_ours_put_in_its_place():
    sent = {
        "X-Api-Key": "token",
        "Authorization": "Bearer token",
        "Cookie": "a=b",
        "Host": "x",
        "Proxy-Authorization": "y",
        "Anthropic-Beta": "a, b",
        "X-Stainless-Lang": "js",
        "X-Claude-Code-Session-Id": "s",
        "Accept-Encoding": "gzip",
        "Connection": "close",
        "User-Agent": "claude-cli",
        "X-Forwarded-For": "me",
        "Content-Length": "3",
        "Transfer-Encoding": "chunked",
    }
    up = headers_up(sent, {"authorization": "Bearer real"}, "oauth-2025-04-20")

    assert up["authorization"] == "Bearer real"
    assert up["anthropic-beta"] == "a,b,oauth-2025-04-20"
    assert up["accept-encoding"] == "identity"
    assert "token" not in str(up).replace("x-stainless", "")
    dropped = {
        "x-api-key",
        "cookie",
        "host",
        "proxy-authorization",
        "connection",
        "x-forwarded-for",
        "content-length",
        "transfer-encoding",
    }
    assert not dropped & set(up)
    assert (
        headers_up({"anthropic-beta": "oauth-2025-04-20"}, {}, "oauth-2025-04-20")["anthropic-beta"]
        == "oauth-2025-04-20"
    )
    assert "anthropic-beta" not in headers_up({}, {}, "")


def test_back_comes_what_the_agent_reads_and_nothing_that_names_the_account_s_cookies():
    sent = {
        "Content-Type": "text/event-stream",
        "Request-Id": "r",
        "Set-Cookie": "a=b",
        "anthropic-ratelimit-requests-remaining": "9",
    }
    down = headers_down(
        {
            **sent,
            "Retry-After": "3",
            "Transfer-Encoding": "chunked",
            "Content-Length": "5",
            "CF-Ray": "x",
            "Location": "http://x",
        }
    )
    assert set(down) == {
        "content-type",
        "request-id",
        "anthropic-ratelimit-requests-remaining",
        "retry-after",
    }


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"X-Api-Key": "t"}, "t"),
        ({"Authorization": "Bearer t"}, "t"),
        ({"Authorization": "bearer  t"}, "t"),
        ({"Authorization": "Basic t"}, ""),
        ({}, ""),
    ],
)
def test_a_token_is_found_wherever_the_cli_puts_it(headers, token):
    assert token_of(headers) == token
