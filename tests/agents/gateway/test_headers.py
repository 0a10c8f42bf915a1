"""What of a request passes, what of its answer, and what an answer says of the account."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parachuted.agents.credentials import RequestCredential
from parachuted.agents.gateway.gateway import allowed, token_of
from parachuted.agents.gateway.upstream import (
    UsageWindow,
    asked_wait_s,
    headers_down,
    headers_up,
    read_windows,
)
from parachuted.testing import ApiRefusal

TARGETS = """
/v1/messages/  //v1/messages  /v1/messages/../files  /v1/./messages  /v1%2Fmessages
/v1/%6Dessages  /V1/messages  http://api.anthropic.com/v1/messages  /v1/messages#x
/v1/messages?x=%0d%0aHost:  /v1/files  /v1/models  /v1/messages/batches  /v1/complete  /  *
/v1/messages;x  /v1/messages\\..\\files  /api/oauth/claude_cli/roles
/v1/organizations/usage_report/messages
"""
HERE = [
    *TARGETS.split(),
    "",
    "/v1/messages/count_tokens",
    "/v1/messages?x=a b",
    "/v1/messages?" + "a" * 300,
]


@pytest.mark.parametrize("path", ["", "?beta=true"])
def test_the_messages_api_passes(path):
    assert allowed("POST", f"/v1/messages{path}")


@pytest.mark.parametrize("target", HERE)
def test_no_other_path_passes_however_it_is_spelled(target):
    assert not allowed("POST", target)


def test_no_other_method_passes():
    methods = "GET PUT DELETE PATCH OPTIONS HEAD CONNECT post"
    assert [method for method in methods.split() if allowed(method, "/v1/messages")] == []


def test_the_agent_s_own_proof_is_dropped_and_ours_put_in_its_place():
    names = (
        "X-Api-Key Cookie Host Proxy-Authorization Connection X-Forwarded-For Content-Length "
        "Transfer-Encoding X-Claude-Code-Session-Id"
    )
    dropped = dict.fromkeys(names.split(), "token")
    sent = {
        **dropped,
        "Authorization": "Bearer token",
        "Anthropic-Beta": "a, b",
        "X-Stainless-Lang": "js",
        "Accept-Encoding": "gzip",
        "User-Agent": "claude-cli",
    }
    credential = RequestCredential(
        headers={"authorization": "Bearer real"}, beta="oauth-2025-04-20"
    )
    up = headers_up(sent, credential)

    assert up["authorization"] == "Bearer real"
    assert up["anthropic-beta"] == "a,b,oauth-2025-04-20"
    assert up["accept-encoding"] == "identity"
    assert (up["user-agent"], up["x-stainless-lang"]) == ("claude-cli", "js")
    assert "token" not in str(up)
    assert not {name.lower() for name in dropped} & set(up)
    assert headers_up(up, credential)["anthropic-beta"] == up["anthropic-beta"]
    assert "anthropic-beta" not in headers_up({}, RequestCredential(headers={}))


def test_back_comes_what_the_agent_reads_and_no_cookie_of_the_account():
    limit = "anthropic-ratelimit-requests-remaining"
    passing = ("Content-Type", "Request-Id", "Retry-After", limit)
    others = ("Set-Cookie", "Transfer-Encoding", "Content-Length", "CF-Ray", "Location")
    down = headers_down(dict.fromkeys(passing + others, "x"))
    assert down == {name.lower(): "x" for name in passing}


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


UNIFIED = "anthropic-ratelimit-unified-"


async def test_what_an_answer_says_of_the_account_is_known_until_the_window_ends(gateway_rig, api):
    ends = gateway_rig.now[0] + timedelta(hours=2)
    reported = {
        f"{UNIFIED}5h-utilization": "0.425",
        f"{UNIFIED}5h-reset": str(int(ends.timestamp())),
        f"{UNIFIED}7D_next-utilization": "0.1",
    }
    api.add(ApiRefusal(status=400, headers=reported))
    async with gateway_rig.run() as way:
        await gateway_rig.ask(way)

    week = UsageWindow(10.0, None)
    windows = gateway_rig.gateway.windows(gateway_rig.now[0])
    assert windows == {"5h": UsageWindow(42.5, ends.replace(microsecond=0)), "7d_next": week}
    assert gateway_rig.gateway.windows(ends) == {"7d_next": week}


def test_headers_that_make_no_sense_say_nothing():
    odd = [{}, *({f"{UNIFIED}5h-utilization": text} for text in ("", "much", "nan", "inf", "-1"))]
    odd += [
        {f"{UNIFIED}{name}": "1"} for name in ("x" * 41 + "-utilization", "-utilization", "reset")
    ]
    assert [read_windows(headers) for headers in odd] == [{}] * len(odd)
    assert read_windows({f"{UNIFIED}7d-utilization": "1e300", f"{UNIFIED}7d-reset": "1e300"}) == {
        "7d": UsageWindow(1000.0, None)
    }
    many = {f"{UNIFIED}{number}-utilization": "1" for number in range(1000)}
    assert len(read_windows(many)) == 20


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        *(({"retry-after": text}, 0.0) for text in ("", "-1", "nan", "inf", "tomorrow")),
    ],
)
def test_the_wait_that_an_answer_asks_for_is_read(headers, seconds):
    assert asked_wait_s(headers) == seconds
