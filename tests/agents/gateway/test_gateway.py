"""Runs reach the model by the gateway alone: with its credential, within their budgets, streamed,
counted, and ended with them.
"""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web

from parachuted.agents.gateway.gateway import Endpoint
from parachuted.errors import AgentFailedError, AgentUnavailableError
from parachuted.testing import ApiRefusal, Delay, RecordedRequest, Reply, say
from tests.agents.conftest import until
from tests.agents.gateway.conftest import BODY, KEY, run_token, serving

MILLION = 1_000_000


def costing(usd: float) -> Reply:
    return Reply(
        blocks=(say("ok"),), usage={"input_tokens": round(usd * MILLION), "output_tokens": 0}
    )


async def test_a_run_s_requests_carry_the_credential_and_not_its_own_proof(gateway_rig, api):
    api.add([say("hello")], [say("hello")])
    async with gateway_rig.run(folder=gateway_rig.folder) as way:
        answers = [await gateway_rig.ask(way) for _ in range(2)]
        refused = [
            await gateway_rig.ask(way, token=token) for token in ("", "wrong", KEY, "x" * 4000)
        ]
    refused.append(await gateway_rig.ask(way))  # its token and its socket end with the run
    assert not way.socket.exists()

    assert [answer.status for answer in answers] == [200, 200]
    assert b"hello" in answers[0].body
    for request in api.asked:
        assert request.headers["x-api-key"] == KEY
        assert way.token not in json.dumps(dict(request.headers))
        assert request.body == BODY
    for answer in refused:
        assert (answer.status, answer.error["type"]) == (401, "authentication_error")
    assert len(api.requests) == 2


async def test_each_run_has_its_own_socket_which_asks_for_no_token(gateway_rig, api, tmp_path):
    api.add([say("one")], [say("two")])
    deep = tmp_path / ("deep" * 30)  # longer than a socket's name may be
    (tmp_path / "to").symlink_to(deep)
    for name in ("a", "b"):
        (deep / name).mkdir(parents=True)
    async with (
        gateway_rig.run("run-a", deep / "a") as one,
        gateway_rig.run("run-b", deep / "b") as two,
    ):
        assert stat.S_IMODE(one.socket.stat().st_mode) == 0o666
        for way, name in ((one, "a"), (two, "b")):
            near = Endpoint(
                url=way.url, token="", model="", socket=tmp_path / "to" / name / "gateway.sock"
            )
            assert (await gateway_rig.ask(near, by_socket=True)).status == 200
        counted = [gateway_rig.usage_store.spent(run).requests for run in ("run-a", "run-b")]
        assert counted == [1, 1]
    assert not list((deep / "a").iterdir())


async def test_a_process_s_requests_count_to_its_run_of_the_moment(gateway_rig, api):
    api.add([say("one")], [say("two")], [say("three")])
    token = "t" * 43
    for run, requests in (("run-1", 1), ("run-2", 2)):
        async with gateway_rig.gateway.open(run_token(run), token=token) as way:
            assert {(await gateway_rig.ask(way)).status for _ in range(requests)} == {200}
        assert (await gateway_rig.ask(way)).status == 401
    assert [gateway_rig.usage_store.spent(run).requests for run in ("run-1", "run-2")] == [1, 2]


async def test_a_look_is_answered(gateway_rig):
    async with gateway_rig.run() as way:
        assert (await gateway_rig.ask(way, "/", method="HEAD", body=b"")).status == 200


async def test_what_a_run_takes_is_counted_from_the_answers_and_written_down(gateway_rig, api):
    api.add(costing(0.5), Reply(blocks=(say("x"),), usage={"cache_read_input_tokens": 50}))
    async with gateway_rig.run(causes=("c1", "c2")) as way:
        await gateway_rig.ask(way, headers={"X-Claude-Code-Session-Id": "session-9"})
        await gateway_rig.ask(way, body={**BODY, "stream": False})
        spent = gateway_rig.usage_store.spent("run-1")
    assert spent.usd == pytest.approx(0.5 + (100 + 5 + 20 * 5) / MILLION)
    assert (spent.requests, spent.output_tokens, spent.prompt) == (2, 20, 500_000 + 150)
    report = gateway_rig.usage_store.report(gateway_rig.now[0], 7)
    assert {cause.name: cause.usd for cause in report.causes} == dict.fromkeys(
        ("c1", "c2"), pytest.approx(spent.usd)
    )
    assert report.sessions[0].name == "session-9"


@pytest.mark.parametrize(
    ("limits", "parts", "says"),
    [
        ({}, {"max_cost_usd": 0.9}, "agent.max_cost_usd"),
        ({"usd_per_cause": 0.9}, {}, "budget.usd_per_cause"),
        ({"usd_per_hour": 0.9}, {}, "budget.usd_per_hour"),
        ({"usd_per_day": 0.9}, {}, "budget.usd_per_day"),
    ],
)
async def test_at_a_limit_the_model_is_not_asked_and_the_agent_learns_why(
    make_gateway_rig, api, limits, parts, says
):
    gateway_rig = make_gateway_rig(api.url, **limits)
    api.add(*[costing(0.5)] * 5)
    async with gateway_rig.run(**parts) as way:
        answers = [await gateway_rig.ask(way) for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 200, 400, 400]
    assert answers[2].headers["x-should-retry"] == "false"
    assert answers[2].error["type"] == "invalid_request_error"
    assert says in answers[2].error["message"]
    assert len(api.asked) == 2
    if "hour" in says:
        assert says in gateway_rig.reported["budget.usd_per_hour"]


async def test_another_run_of_the_same_cause_is_refused_one_of_another_is_not(
    make_gateway_rig, api
):
    gateway_rig = make_gateway_rig(api.url, usd_per_cause=1)
    api.add(costing(1), costing(1))
    async with gateway_rig.run("run-1") as way:
        await gateway_rig.ask(way)
    with pytest.raises(AgentFailedError, match="usd_per_cause"):
        async with gateway_rig.run("run-2"):
            pass
    async with gateway_rig.run("run-3", causes=("cause-2",)) as way:
        assert (await gateway_rig.ask(way)).status == 200


async def test_a_used_up_hour_is_waited_for_and_passes(make_gateway_rig, api):
    gateway_rig = make_gateway_rig(api.url, usd_per_hour=1)
    api.add(costing(1), costing(1))
    async with gateway_rig.run("run-1") as way:
        await gateway_rig.ask(way)
    with pytest.raises(AgentUnavailableError, match="usd_per_hour"):
        async with gateway_rig.run("run-2", causes=()):
            pass
    assert "budget.usd_per_hour" in gateway_rig.reported
    gateway_rig.now[0] += timedelta(hours=1, seconds=1)
    async with gateway_rig.run("run-2", causes=()) as way:
        assert (await gateway_rig.ask(way)).status == 200
    assert "budget.usd_per_hour" not in gateway_rig.reported


async def test_pieces_pass_as_they_come_and_end_with_who_reads_them(make_gateway_rig):
    """The first is here while the far side still waits for us to have it."""
    had, gone = asyncio.Event(), asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: one\n\n")
        await asyncio.wait_for(had.wait(), 30)
        try:
            while True:
                await answer.write(b'data: {"type": "content_block_delta"}\n\n')
                await asyncio.sleep(0.001)
        except (ConnectionError, asyncio.CancelledError):
            gone.set()
            raise
        return answer

    async with serving(endless) as url:
        gateway_rig = make_gateway_rig(url)
        async with gateway_rig.run() as way:
            async with aiohttp.ClientSession() as session:
                response = await session.post(
                    way.url + "/v1/messages", json=BODY, headers={"x-api-key": way.token}
                )
                assert await response.content.readany() == b"data: one\n\n"
                had.set()
                assert b"content_block_delta" in await response.content.readany()
                response.close()
            await asyncio.wait_for(gone.wait(), 30)


async def test_what_the_far_side_refuses_is_reported_in_its_words_with_no_secret(gateway_rig, api):
    refusal = ApiRefusal(
        status=400,
        kind="invalid_request_error",
        message=f"prompt is too long, {KEY}",
        headers={"request-id": "req_1"},
    )
    api.add(refusal)
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way)
        assert gateway_rig.usage_store.spent("run-1").requests == 0
    assert (answer.status, answer.error["message"]) == (400, "prompt is too long, [secret]")
    assert answer.headers["request-id"] == "req_1"
    assert answer.headers["x-should-retry"] == "false"


async def test_a_request_that_is_too_large_is_refused_before_it_is_sent_on(gateway_rig, api):
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way, body=b"x" * (33 << 20))
    assert answer.status == 413
    assert api.requests == []


@pytest.mark.parametrize("folder", ["none", "link"])
async def test_a_folder_that_is_not_there_or_a_link_is_a_reason_not_to_begin(
    gateway_rig, tmp_path, folder
):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(AgentUnavailableError):
        async with gateway_rig.run(folder=tmp_path / folder):
            pass


async def test_four_requests_of_a_run_are_in_memory_at_once_and_others_wait(make_gateway_rig):
    at_once = [0]

    async def answer(_request: web.Request) -> web.Response:
        at_once.append(at_once[-1] + 1)
        await asyncio.sleep(0.05)
        at_once.append(at_once[-1] - 1)
        return web.json_response({"usage": {"input_tokens": 1, "output_tokens": 1}})

    async with serving(answer) as url:
        gateway_rig = make_gateway_rig(url)
        async with gateway_rig.run() as way:
            answers = await asyncio.gather(*(gateway_rig.ask(way) for _ in range(12)))
    assert {answer.status for answer in answers} == {200}
    assert max(at_once) <= 4


async def test_for_a_minute_an_agent_may_wait_and_try_again_itself(gateway_rig, api):
    api.add([say("started")], ApiRefusal(status=529, headers={"retry-after": "60"}))
    async with gateway_rig.run() as way:
        answers = [await gateway_rig.ask(way) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 529, 429]
    assert [answer.headers.get("x-should-retry") for answer in answers] == [None] * 3


async def test_while_what_it_costs_cannot_be_written_down_the_model_is_not_asked(gateway_rig, api):
    def lose_the_table(_request: RecordedRequest) -> Reply:
        gateway_rig.usage_store.database.rows("DROP TABLE usage")
        return costing(1)

    api.add(lose_the_table, costing(1))
    async with gateway_rig.run(max_cost_usd=1) as way:
        assert (await gateway_rig.ask(way)).status == 200
        answer = await gateway_rig.ask(way)
    assert (answer.status, "cannot be written down" in answer.error["message"]) == (503, True)
    assert len(api.asked) == 1
    assert "could not be read or written" in gateway_rig.reported["usage"]


POST = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n"
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n"
HOSTILE = [
    b"\0" * 5000,
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000,
    POST + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\n{}",
    POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nZZ\r\n",
    b"POST http://169.254.169.254/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    b"CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/messages/../../etc HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + UPGRADE,
    POST + b"Content-Length: 2\r\nX-Api-Key: a\r\n b\r\n\r\n{}",
    *(
        b"POST " + target + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        for target in (
            b"/v1/messages/",
            b"//v1/messages",
            b"/v1%2Fmessages",
            b"/V1/messages",
            b"/v1/messages?x=%0d%0aHost:",
            b"/v1/messages/batches",
            b"/v1/messages/count_tokens",
            b"/v1/files",
        )
    ),
]


@pytest.mark.parametrize("sent", HOSTILE)
async def test_bytes_that_are_no_request_of_the_api_s_reach_nothing(
    gateway_rig, api, tmp_path, sent
):
    api.add([say("still here")])
    (tmp_path / "s").mkdir()
    async with gateway_rig.run(folder=tmp_path / "s") as way:
        reader, writer = await asyncio.open_unix_connection(way.socket)
        writer.write(sent)
        writer.write_eof()
        said = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        assert KEY.encode() not in said
        assert api.requests == []
        assert (await gateway_rig.ask(way, by_socket=True)).status == 200


@pytest.mark.parametrize("by_socket", [True, False])
async def test_an_agent_can_neither_take_all_descriptors_nor_shut_others_out(
    gateway_rig, api, tmp_path, by_socket
):
    api.add([say("others")])
    (tmp_path / "s").mkdir()
    async with gateway_rig.run(folder=tmp_path / "s") as way, gateway_rig.run("run-2") as other:
        host, port = way.url.removeprefix("http://").split(":")
        held = []
        for number in range(400):
            held.append(
                await asyncio.open_unix_connection(way.socket)
                if by_socket
                else await asyncio.open_connection(host, int(port))
            )
            if number % 2:
                held[-1][1].write(POST + b"X-Slow: ")
        async with asyncio.timeout(120):
            while sum(reader.at_eof() for reader, _ in held) < 140:
                await asyncio.gather(
                    *(asyncio.wait_for(reader.read(1), 0.05) for reader, _ in held),
                    return_exceptions=True,
                )
        assert (await gateway_rig.ask(other)).status == 200
        for _, writer in held:
            writer.close()


async def test_a_run_that_ends_takes_its_requests_with_it(gateway_rig, api):
    api.add(Delay(seconds=30, then=[say("late")]))
    async with gateway_rig.run() as way:
        asking = asyncio.ensure_future(gateway_rig.ask(way))  # noqa: TID251
        await until(lambda: api.asked)
    with pytest.raises(aiohttp.ClientError):
        await asyncio.wait_for(asking, 30)


async def test_an_agent_that_leaves_before_its_answer_begins_is_no_error(gateway_rig, api, caplog):
    api.add(Delay(seconds=0.2, then=[say("late")]))
    async with gateway_rig.run() as way:
        leaving = asyncio.ensure_future(gateway_rig.ask(way, body=BODY))  # noqa: TID251
        await until(lambda: api.asked)
        leaving.cancel()
        await asyncio.wait([leaving])
        await until(lambda: gateway_rig.usage_store.spent("run-1").usd)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("most", [-1, 10**9, "1000", None], ids=str)
async def test_a_length_that_is_none_is_sent_as_the_length_that_was_paid_for(
    make_gateway_rig, api, most
):
    gateway_rig = make_gateway_rig(api.url, usd_per_hour=1.0)
    api.add(Reply(blocks=(say("ok " * 100),), cut=True))
    async with gateway_rig.run("run") as way:
        assert (await gateway_rig.ask(way, body={**BODY, "max_tokens": most})).is_cut

    sent = api.asked[-1].body["max_tokens"]
    assert type(sent) is int
    assert 1_000 < sent == gateway_rig.usage_store.spent("run").output_tokens
