"""The far side: left alone when it is down or asks for a pause, and never followed elsewhere; what
of a request and of its answer passes, and what an answer says of the account.
"""

from __future__ import annotations

import json
from datetime import timedelta
from unittest.mock import patch

import pytest
from aiohttp import web

from parachuted.agents.credentials import RequestCredential
from parachuted.agents.gateway import upstream
from parachuted.agents.gateway.upstream import (
    UsageWindow,
    headers_down,
    headers_up,
    read_windows,
)
from parachuted.errors import AgentUnavailableError
from parachuted.testing import ApiRefusal, Reply, ScriptedMessages, say
from tests.agents.gateway.conftest import MODEL, serving


@pytest.mark.parametrize("status", [400, 408, 429, 500, 529])
async def test_a_request_is_sent_once_and_its_agent_tries_again(gateway_rig, api, status):
    kind = "overloaded_error"
    api.add(ApiRefusal(status=status, kind=kind, headers={"retry-after-ms": "1"}), [say("then")])
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way)
        assert (answer.status, answer.error["type"], len(api.asked)) == (status, kind, 1)
        assert answer.headers.get("x-should-retry") == ("false" if status == 400 else None)


def once(status, message="no"):
    return ApiRefusal(status=status, message=message, headers={"x-should-retry": "false"})


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (401, "invalid x-api-key", "invalid x-api-key; `parachute auth status` shows which login"),
        (402, "pay", f"answered 402 for {MODEL}: pay"),
        (400, "Your credit balance is too low", "answered 402"),
        (404, "model: x", "model: x; check the settings agent.model"),
        (429, "slow", ": slow; runs that need it wait"),
        (500, "broken", f"answered 500 for {MODEL}: broken; runs that need it wait"),
    ],
)
async def test_what_keeps_the_model_from_answering_is_reported_until_it_answers(
    gateway_rig, api, status, message, says
):
    api.add(once(status, message), [say("put right")])
    async with gateway_rig.run() as way:
        await gateway_rig.ask(way)
        assert says in gateway_rig.reported["model"]
        assert (await gateway_rig.ask(way)).status == 200
    assert gateway_rig.reported == {}


async def test_another_refusal_does_not_hide_what_is_wrong(gateway_rig, api):
    refusals = [once(402, "pay"), once(413, "too long")]
    api.add(*refusals)
    async with gateway_rig.run() as way:
        for _ in refusals:
            await gateway_rig.ask(way)
    assert "answered 402" in gateway_rig.reported["model"]


async def test_a_login_goes_before_a_name_and_password_in_the_address(make_gateway_rig, api):
    api.add([say("hi")])
    gateway_rig = make_gateway_rig(
        api.url.replace("://", "://someone:word@"), env={"ANTHROPIC_AUTH_TOKEN": "token"}
    )
    async with gateway_rig.run() as way:
        assert (await gateway_rig.ask(way)).status == 200
    assert api.asked[0].headers["Authorization"] == "Bearer token"


async def test_a_pause_that_the_far_side_asks_for_is_kept_by_every_run(gateway_rig, api):
    api.add(
        ApiRefusal(status=429, kind="rate_limit_error", headers={"retry-after": "3000"}),
        [say("asked too early")],
    )
    async with gateway_rig.run() as way:
        asked = await gateway_rig.ask(way)
        assert (asked.headers["retry-after"], asked.headers["x-should-retry"]) == ("3000", "false")
        again = await gateway_rig.ask(way)
        assert (again.status, 2990 < int(again.headers["retry-after"]) <= 3000) == (429, True)
    with pytest.raises(AgentUnavailableError, match=r"asked again in \d+ s") as refused:
        async with gateway_rig.run("run-2"):
            pass
    assert 2990 < refused.value.wait_s <= 3000
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("events", "requests", "output"),
    [(0, 0, 0), (1, 1, 1), (3, 1, 20)],
    ids=["nothing", "a beginning", "content"],
)
async def test_an_error_inside_a_stream_passes_and_costs_what_had_come(
    gateway_rig, api, events, requests, output
):
    overloaded = ApiRefusal(status=529, kind="overloaded_error", message="Overloaded")
    api.add(Reply(blocks=(say("one"),), error=overloaded, error_after=events))
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way)
        assert (answer.status, b"overloaded_error" in answer.body) == (200, True)
    spent = gateway_rig.usage_store.spent("run-1")
    assert (spent.requests, 0 < spent.output_tokens <= 100) == (requests, output > 0)


async def test_a_far_side_that_is_down_is_left_alone_reported_and_found_again(make_gateway_rig):
    async with ScriptedMessages() as gone:
        url = gone.url
    gateway_rig = make_gateway_rig(url)
    async with gateway_rig.run() as way:
        first, second = [await gateway_rig.ask(way) for _ in range(2)]
        assert (first.status, second.status) == (502, 429)
        assert "could not be reached: [Errno 111]" in first.error["message"]
        assert "ssl" not in first.error["message"]
        assert "asked again in" in second.error["message"]
        assert second.headers["retry-after"] == "10"
        assert "x-should-retry" not in second.headers  # its agent waits for so long itself
    assert "could not be reached" in gateway_rig.reported["model"]
    assert gateway_rig.usage_store.spent("run-1").requests == 0
    with pytest.raises(AgentUnavailableError, match="could not be reached") as refused:
        async with gateway_rig.run("run-2"):
            pass
    assert 0 < refused.value.wait_s <= 10

    gateway_rig.gateway._upstream._paused_until = 0.0
    async with ScriptedMessages([[say("back")]]) as api:
        gateway_rig.gateway._upstream.url = api.url
        async with gateway_rig.run() as way:
            assert (await gateway_rig.ask(way)).status == 200
    assert "model" not in gateway_rig.reported


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_takes_no_credential_elsewhere(gateway_rig, api, status):
    async with ScriptedMessages([[say("stolen")]]) as elsewhere:
        api.add(ApiRefusal(status=status, headers={"Location": elsewhere.url + "/v1/messages"}))
        async with gateway_rig.run() as way:
            answer = await gateway_rig.ask(way)
        assert elsewhere.requests == []
    assert (answer.status, "sends elsewhere" in answer.error["message"]) == (502, True)
    assert "Location" not in answer.headers


API, P, Q = "https://api.anthropic.com", "http://p:1", "http://q:1"


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        (API, {"HTTPS_PROXY": P}, P),
        (API, {"https_proxy": Q, "HTTPS_PROXY": P}, Q),
        (API, {"HTTP_PROXY": P}, None),
        (API, {"HTTPS_PROXY": P, "NO_PROXY": "x.test, .anthropic.com"}, None),
        (API, {"HTTPS_PROXY": P, "NO_PROXY": "thropic.com"}, P),
        (API, {"HTTPS_PROXY": P, "NO_PROXY": "*"}, None),
        ("http://127.0.0.1:11434", {"HTTP_PROXY": P}, None),
    ],
)
def test_the_proxy_of_the_environment_is_used_as_the_cli_used_it(url, env, proxy):
    with patch.dict("os.environ", env, clear=True):
        assert upstream.proxy_for(url) == proxy


@pytest.mark.parametrize(
    ("url", "is_it"),
    [
        ("https://api.anthropic.com", True),
        ("https://api.anthropic.com:443/x", True),
        ("http://api.anthropic.com", False),
        ("https://api.anthropic.com.evil.test", False),
        ("https://evilanthropic.com", False),
        ("https://x@evil.test/api.anthropic.com", False),
        ("https://api.anthropic.com@evil.test", False),
    ],
)
def test_a_login_s_only_destination_is_told_from_what_looks_like_it(url, is_it):
    assert upstream.is_anthropic(url) is is_it


async def test_a_stored_login_that_the_model_refuses_is_renewed_and_used(
    make_gateway_rig, tmp_path, monkeypatch
):
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/token":
            assert (await request.json())["grant_type"] == "refresh_token"
            fresh = {"access_token": "sk-ant-oat01-fresh", "refresh_token": "sk-ant-ort01-next"}
            return web.json_response({**fresh, "expires_in": 3600})
        seen.append(request.headers["authorization"])
        used = {"usage": {"input_tokens": 1}, "model": "claude-haiku-4-5"}
        return web.json_response(used, status=200 if "fresh" in seen[-1] else 401)

    file = tmp_path / "user" / ".claude" / ".credentials.json"
    file.parent.mkdir(parents=True)
    stale = {"accessToken": "sk-ant-oat01-stale", "refreshToken": "sk-ant-ort01-one"}
    file.write_text(json.dumps({"claudeAiOauth": stale}))
    async with serving(answer) as url:
        monkeypatch.setattr(upstream, "is_anthropic", lambda _url: True)
        monkeypatch.setattr("parachuted.agents.credentials.TOKEN_URL", f"{url}/token")
        gateway_rig = make_gateway_rig(url, env={})
        async with gateway_rig.run() as way:
            answers = [await gateway_rig.ask(way) for _ in range(2)]
            file.write_text(json.dumps({"claudeAiOauth": {**stale, "refreshToken": None}}))
            answers.append(await gateway_rig.ask(way))

    assert [answer.status for answer in answers] == [200, 200, 401]
    assert seen == [f"Bearer sk-ant-oat01-{it}" for it in ("stale", "fresh", "fresh", "stale")]
    assert "cannot be renewed" in answers[-1].error["message"]
    assert gateway_rig.usage_store.spent("run-1").requests == 2


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


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "tomorrow"])
async def test_a_pause_that_makes_no_sense_is_not_kept(gateway_rig, api, text):
    api.add(ApiRefusal(status=529, headers={"retry-after": text}), [say("then")])
    async with gateway_rig.run() as way:
        assert [(await gateway_rig.ask(way)).status for _ in range(2)] == [529, 200]
