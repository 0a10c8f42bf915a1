"""What of a request passes, what of its answer, and what an answer says of the account."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parachuted.agents.credentials import RequestCredential
from parachuted.agents.gateway.upstream import (
    UsageWindow,
    asked_wait_s,
    headers_down,
    headers_up,
    read_windows,
)
from parachuted.testing import ApiRefusal


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
    passing = ("Request-Id", "Retry-After", limit)
    others = ("Set-Cookie", "Transfer-Encoding", "Content-Length", "CF-Ray", "Location")
    down = headers_down(dict.fromkeys(passing + others, "x"))
    assert down == {name.lower(): "x" for name in passing}


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
    assert [read_windows(headers) for headers in odd] == [{}] * len(odd)
    assert read_windows({f"{UNIFIED}7d-utilization": "2", f"{UNIFIED}7d-reset": "1e300"}) == {
        "7d": UsageWindow(200.0, None)
    }


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
