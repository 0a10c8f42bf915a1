"""Runs reach the model by the gateway alone: with its credential, within their budgets, streamed,
counted, and ended with them.
"""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import Awaitable
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web

from parachuted.agents.gateway.gateway import Endpoint
from parachuted.errors import AgentFailedError, AgentUnavailableError
from parachuted.testing import ApiRefusal, Delay, RecordedRequest, Reply, say
from tests.agents.gateway.conftest import BODY, KEY, run_token, serving

MILLION = 1_000_000


def costing(usd: float) -> Reply:
    return Reply(
        blocks=(say("ok"),), usage={"input_tokens": round(usd * MILLION), "output_tokens": 0}
    )


async def test_a_run_s_requests_carry_the_credential_and_not_its_own_proof(gateway_rig, api):
    api.add([say("hello")], [say("hello")])
    async with gateway_rig.run() as way:
        answers = [
            await gateway_rig.ask(way),
            await gateway_rig.ask(way, token="", headers={"Authorization": f"Bearer {way.token}"}),
        ]

    assert [answer.status for answer in answers] == [200, 200]
    assert b"hello" in answers[0].body
    for request in api.asked:
        assert request.headers["x-api-key"] == KEY
        assert way.token not in json.dumps(dict(request.headers))
        assert request.body == BODY


async def test_each_run_has_its_own_socket_which_asks_for_no_token(gateway_rig, api, tmp_path):
    api.add([say("one")], [say("two")])
    folders = [
        tmp_path / ("deep" * 30) / name for name in ("a", "b")
    ]  # longer than a socket's name may be
    for folder in folders:
        folder.mkdir(parents=True)
    async with (
        gateway_rig.run("run-a", folders[0]) as one,
        gateway_rig.run("run-b", folders[1]) as two,
    ):
        assert stat.S_IMODE(one.socket.stat().st_mode) == 0o666
        for way, folder in ((one, folders[0]), (two, folders[1])):
            near = Endpoint(url=way.url, token="", socket=_short(folder, tmp_path))
            assert (await gateway_rig.ask(near, by_socket=True)).status == 200
        counted = [gateway_rig.usage_store.spent(run).requests for run in ("run-a", "run-b")]
        assert counted == [1, 1]
    assert not list(folders[0].iterdir())


def _short(folder, tmp_path):
    link = tmp_path / f"to-{folder.name}"
    link.symlink_to(folder)
    return link / "gateway.sock"


@pytest.mark.parametrize("token", ["", "wrong", KEY, "x" * 4000])
async def test_who_has_no_token_of_a_run_gets_nothing(gateway_rig, api, token):
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way, token=token)
    assert (answer.status, answer.error["type"]) == (401, "authentication_error")
    assert api.requests == []


async def test_an_ended_run_s_token_and_socket_lead_nowhere(gateway_rig, api):
    async with gateway_rig.run(folder=gateway_rig.folder) as way:
        pass
    assert (await gateway_rig.ask(way)).status == 401
    assert not way.socket.exists()
    assert api.requests == []


async def test_a_process_s_requests_count_to_its_run_of_the_moment(gateway_rig, api):
    api.add([say("one")], [say("two")], [say("three")])
    token = "t" * 43
    for run, requests in (("run-1", 1), ("run-2", 2)):
        async with gateway_rig.gateway.open(run_token(run), token=token) as way:
            assert {(await gateway_rig.ask(way)).status for _ in range(requests)} == {200}
        assert (await gateway_rig.ask(way)).status == 401
    assert [gateway_rig.usage_store.spent(run).requests for run in ("run-1", "run-2")] == [1, 2]


async def test_tokens_can_be_counted_and_cost_nothing(gateway_rig):
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way, "/v1/messages/count_tokens")
        head = await gateway_rig.ask(way, "/", method="HEAD", body=b"")
        assert json.loads(answer.body) == {"input_tokens": 100}
        assert head.status == 200
        assert gateway_rig.usage_store.spent("run-1").requests == 0


async def test_what_a_run_takes_is_counted_from_the_answers_and_written_down(gateway_rig, api):
    api.add(costing(0.5), Reply(blocks=(say("x"),), usage={"cache_read_input_tokens": 50}))
    async with gateway_rig.run(causes=("c1", "c2")) as way:
        await gateway_rig.ask(way, headers={"X-Claude-Code-Session-Id": "session-9"})
        await gateway_rig.ask(way, body={**BODY, "stream": False})
        spent = gateway_rig.usage_store.spent("run-1")
    assert spent.usd == pytest.approx(0.5 + (100 + 5 + 20 * 5) / MILLION)
    assert (spent.requests, spent.output_tokens, spent.prompt) == (2, 20, 500_000 + 150)
    report = gateway_rig.gateway.report(gateway_rig.now[0], 7)
    assert {cause.cause: cause.usd for cause in report.causes} == dict.fromkeys(
        ("c1", "c2"), pytest.approx(spent.usd)
    )
    assert report.sessions[0].session == "session-9"


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
    assert (answers[2].error["type"], says in answers[2].error["message"]) == (
        "invalid_request_error",
        True,
    )
    assert len(api.asked) == 2
    if "hour" in says:
        assert says in gateway_rig.reported["budget:usd_per_hour"]


async def test_another_run_of_the_same_cause_is_refused_and_one_of_another_is_not(
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
    assert "budget:usd_per_hour" in gateway_rig.reported
    gateway_rig.now[0] += timedelta(hours=1, seconds=1)
    async with gateway_rig.run("run-2", causes=()) as way:
        assert (await gateway_rig.ask(way)).status == 200
    assert "budget:usd_per_hour" not in gateway_rig.reported


async def test_pieces_pass_as_they_come(make_gateway_rig):
    """The first is here while the far side still waits for us to have it."""
    had = asyncio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: one\n\n")
        await asyncio.wait_for(had.wait(), 30)
        await answer.write(b"data: two\n\n")
        return answer

    async with serving(slowly) as url:
        gateway_rig = make_gateway_rig(url)
        async with (
            gateway_rig.run() as way,
            aiohttp.ClientSession() as session,
            session.post(
                way.url + "/v1/messages", json=BODY, headers={"x-api-key": way.token}
            ) as response,
        ):
            assert await response.content.readany() == b"data: one\n\n"
            had.set()
            assert await response.content.read() == b"data: two\n\n"


async def test_who_goes_away_ends_it_at_the_far_side_too(make_gateway_rig):
    gone = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
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
                await response.content.readany()
                response.close()
            await asyncio.wait_for(gone.wait(), 30)


async def test_what_the_far_side_refuses_is_reported_in_its_words_and_without_a_secret(
    gateway_rig, api
):
    api.add(
        ApiRefusal(
            status=400,
            kind="invalid_request_error",
            message=f"prompt is too long, {KEY}",
            headers={"request-id": "req_1"},
        )
    )
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way)
        assert gateway_rig.usage_store.spent("run-1").requests == 0
    assert (answer.status, answer.error["message"]) == (400, "prompt is too long, [secret]")
    assert answer.headers["request-id"] == "req_1"
    assert answer.headers["x-should-retry"] == "false"


async def test_a_request_that_is_too_large_is_refused_before_it_is_sent_on(gateway_rig, api):
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way, body=b"x" * (33 << 20))
    assert (answer.status, answer.error["type"]) == (413, "request_too_large")
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


async def test_fifty_streams_at_once_all_arrive(gateway_rig, api):
    api.add(*[[say(f"<{number}>" + "x" * 100_000)] for number in range(50)])
    async with gateway_rig.run() as way:
        answers = await asyncio.gather(*(gateway_rig.ask(way) for _ in range(50)))
    assert all(
        answer.status == 200 and not answer.is_cut and b"message_stop" in answer.body
        for answer in answers
    )
    assert {
        text for answer in answers for text in [answer.body.partition(b"<")[2].partition(b">")[0]]
    } == {str(number).encode() for number in range(50)}


async def test_it_opens_neither_a_file_nor_a_port_before_it_is_used(gateway_rig):
    assert not list(gateway_rig.folder.iterdir())
    async with gateway_rig.run():
        assert (gateway_rig.folder / "usage.db").exists()


async def test_what_a_run_sends_at_once_takes_so_much_room_and_no_more(
    gateway_rig, api, monkeypatch
):
    monkeypatch.setattr("parachuted.agents.gateway.gateway._LARGEST_BUFFERED", 3 << 20)
    api.add(*[Delay(seconds=0.5, then=[say("x")])] * 6)
    big = {**BODY, "metadata": {"x": "y" * (1 << 20)}}
    async with gateway_rig.run() as way:
        answers = await asyncio.gather(
            *(gateway_rig.ask(way, body=big) for _ in range(4)), return_exceptions=True
        )
        statuses = [answer.status for answer in answers if not isinstance(answer, BaseException)]
        assert statuses.count(200) == len(api.asked) <= 3
        assert set(statuses) <= {200, 413}
        assert (await gateway_rig.ask(way)).status == 200  # what they took is free again


async def test_in_the_middle_of_its_work_an_agent_may_try_again_itself(gateway_rig, api):
    api.add([say("started")], ApiRefusal(status=529, headers={"retry-after": "60"}))
    async with gateway_rig.run() as way:
        answers = [await gateway_rig.ask(way) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 529, 429]
    assert [answer.headers.get("x-should-retry") for answer in answers] == [None] * 3


async def test_while_what_it_costs_cannot_be_written_down_the_model_is_not_asked(
    make_gateway_rig, api
):
    gateway_rig = make_gateway_rig(api.url)

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


HOSTILE = [
    b"\0" * 5000,
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000,
    b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\n{}",
    (
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: "
        b"5\r\n\r\nZZ\r\n"
    ),
    b"POST http://169.254.169.254/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    b"CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/messages/../../etc HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    (
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: "
        b"Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ),
    b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-Api-Key: a\r\n b\r\n\r\n{}",
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
async def test_one_agent_cannot_take_the_daemon_s_descriptors_nor_shut_others_out(
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
                held[-1][1].write(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        deadline = time.monotonic() + 120
        while sum(reader.at_eof() for reader, _ in held) < 140:
            assert time.monotonic() < deadline
            await asyncio.gather(
                *(asyncio.wait_for(reader.read(1), 0.05) for reader, _ in held),
                return_exceptions=True,
            )
        assert (await gateway_rig.ask(other)).status == 200
        for _, writer in held:
            writer.close()


async def test_a_run_that_ends_takes_its_requests_with_it(gateway_rig, api):
    api.add(Delay(seconds=30, then=[say("late")]))
    async with asyncio.TaskGroup() as group:
        async with gateway_rig.run() as way:
            asking = group.create_task(_error_of(gateway_rig.ask(way)))
            while not api.asked:
                await asyncio.sleep(0.005)
        assert isinstance(await asyncio.wait_for(asking, 30), aiohttp.ClientError)


async def _error_of(asking: Awaitable[object]) -> BaseException | None:
    try:
        await asking
    except aiohttp.ClientError as error:
        return error
    return None


async def test_however_many_requests_come_at_once_a_budget_is_overspent_by_one_alone(
    make_gateway_rig, api
):
    gateway_rig = make_gateway_rig(api.url, usd_per_hour=2.0)
    api.add(*[costing(1.2)] * 60)
    dear = {
        **BODY,
        "max_tokens": 500_000,
        "messages": [{"role": "user", "content": "x" * 1_000_000}],
    }
    async with (
        gateway_rig.run("run-1") as one,
        gateway_rig.run("run-2", causes=("cause-2",)) as other,
    ):
        answers = await asyncio.gather(
            *(gateway_rig.ask(way, body=dear) for way in (one, other) for _ in range(20))
        )
    assert sorted(answer.status for answer in answers) == [200] * 2 + [400] * 38
    assert sum(
        gateway_rig.usage_store.spent(run).usd for run in ("run-1", "run-2")
    ) == pytest.approx(2.4)


async def test_an_agent_that_leaves_before_its_answer_begins_is_not_reported_as_an_error(
    gateway_rig, api, caplog
):
    api.add(Delay(seconds=0.2, then=[say("late")]))
    async with gateway_rig.run() as way:
        leaving = asyncio.ensure_future(gateway_rig.ask(way, body=BODY))  # noqa: TID251
        while not api.asked:
            await asyncio.sleep(0.005)
        leaving.cancel()
        await asyncio.wait([leaving])
        deadline = time.monotonic() + 120
        while not gateway_rig.usage_store.spent("run-1").usd:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_no_request_makes_the_model_s_server_reach_out(gateway_rig, api):
    async with gateway_rig.run() as way:
        for part in (
            {"mcp_servers": [{"url": "https://evil.example"}]},
            {"tools": [{"type": "web_fetch_20250910", "name": "x"}]},
        ):
            for path in ("/v1/messages", "/v1/messages/count_tokens"):
                answer = await gateway_rig.ask(way, path, body={**BODY, **part})
                assert (
                    answer.status,
                    "reach nothing but the model" in answer.error["message"],
                ) == (400, True)
    assert api.requests == []


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_that_repeats_the_credential_comes_without_it(make_gateway_rig, streams):
    async def parrot(request: web.Request) -> web.StreamResponse:
        kind = "text/event-stream" if streams else "application/json"
        key = request.headers["x-api-key"]
        answer = web.StreamResponse(
            headers={"Content-Type": kind, "request-id": f"req_{key}", "anthropic-echo": key}
        )
        await answer.prepare(request)
        for piece in (
            f"event: ping\ndata: {{'error': 'no {key}",
            key[:9],
            key[9:],
            f" and {key}'}}\n\n",
        ):
            await answer.write(piece.encode())
            await asyncio.sleep(0.01)
        return answer

    async with serving(parrot) as url:
        gateway_rig = make_gateway_rig(url)
        async with gateway_rig.run() as way:
            answer = await gateway_rig.ask(way)
    assert answer.status == 200
    assert KEY.encode() not in answer.body
    assert answer.body.endswith(b" and " + b"*" * len(KEY) + b"'}\n\n")
    assert KEY not in str(answer.headers)


@pytest.mark.parametrize("most", [-1, -(10**9), 10**9, 1e3, "1000", None, True, []], ids=str)
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
