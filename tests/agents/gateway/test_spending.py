"""Spending: no agent makes the model do more than was counted, however it cuts its requests, and no
budget is overspent.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from parachuted.agents.gateway.prices import Tokens, cost_of
from parachuted.agents.gateway.usage import MoneyLimits, UsageStore
from parachuted.testing import ApiRefusal, Delay, RecordedRequest, Reply, say
from tests.agents.conftest import until
from tests.agents.gateway.conftest import BODY, MODEL, GatewayRig, serving

DEAREST = "claude-opus-4-1"


class Model:
    """A far side that works out the whole answer of each request before it sends any of it, as the
    real one does.
    """

    def __init__(self, answer: str = "x" * 1000) -> None:
        self.made = 0.0
        self.requests = 0
        self._answer = answer

    def __call__(self, request: RecordedRequest) -> Reply:
        """Every character of the prompt is a token; the answer is as long as was allowed."""
        self.requests += 1
        read, answered = len(json.dumps(request.body["messages"])), request.body["max_tokens"]
        tokens = Tokens(cache_write_5m=read, output=answered)
        self.made += cost_of(request.body["model"], tokens, may_cost=True)
        usage = {"input_tokens": 0, "cache_creation_input_tokens": read, "output_tokens": answered}
        return Reply(blocks=(say(self._answer),), usage=usage)

    def late(self, request: RecordedRequest) -> Delay:
        return Delay(seconds=30, then=self(request))

    def cut(self, request: RecordedRequest) -> Reply:
        reply = self(request)
        return Reply(blocks=reply.blocks, usage={**reply.usage, "output_tokens": 1}, cut=True)


def counted(gateway_rig: GatewayRig, run: str = "run-1") -> float:
    return gateway_rig.usage_store.spent(run).usd


async def test_forty_requests_cut_before_their_answer_count_as_what_they_made(
    make_gateway_rig, api
):
    gateway_rig, model = make_gateway_rig(api.url, usd_per_hour=2.0), Model()
    body = {**BODY, "model": DEAREST, "max_tokens": 4_000}
    api.add(*[model.late] * 40)
    sent = refused = 0
    async with (
        gateway_rig.run(model=DEAREST, max_cost_usd=100.0) as way,
        aiohttp.ClientSession() as session,
    ):
        for _ in range(40):
            before = model.requests
            asking = asyncio.ensure_future(  # noqa: TID251
                session.post(way.url + "/v1/messages", json=body, headers={"x-api-key": way.token})
            )
            await until(lambda: asking.done() or model.requests > before)  # noqa: B023
            if asking.done():
                refused += 1
                assert (await asking).status == 400
            else:
                sent += 1
                asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
    assert sent >= 2
    assert refused >= 30
    assert model.made <= counted(gateway_rig) <= 2.0 + 1e-9


@pytest.mark.parametrize("way_to_cut", ["far side", "run stopped", "far side silent"])
async def test_however_a_request_is_cut_no_less_is_counted_than_was_made(
    gateway_rig, api, way_to_cut
):
    model = Model()
    if way_to_cut == "far side":
        api.add(*[model.cut] * 3)
        async with gateway_rig.run() as way:
            for _ in range(3):
                assert (await gateway_rig.ask(way)).is_cut
    elif way_to_cut == "run stopped":
        api.add(*[model.late] * 3)
        async with gateway_rig.run() as way:
            asking = [asyncio.ensure_future(gateway_rig.ask(way)) for _ in range(3)]  # noqa: TID251
            await until(lambda: model.requests == 3)
        await asyncio.gather(*asking, return_exceptions=True)
    else:

        async def hang_up(request: web.Request) -> web.Response:
            model(RecordedRequest(method="POST", path="", headers={}, body=await request.json()))
            request.transport.abort()
            return web.Response()

        async with serving(hang_up) as url:
            gateway_rig.gateway._upstream.url = url
            async with gateway_rig.run() as way:
                assert (await gateway_rig.ask(way)).status == 502
        assert model.requests == 1
    assert 0 < model.made <= counted(gateway_rig)


async def test_tries_that_may_have_reached_the_model_stop_where_the_money_ends(gateway_rig, api):
    api.add(*[ApiRefusal(status=504)] * 9)
    async with gateway_rig.run(max_cost_usd=0.02) as way:
        body = {**BODY, "max_tokens": 1_000}
        answers = [await gateway_rig.ask(way, body=body) for _ in range(5)]
    assert counted(gateway_rig) <= 0.02
    assert [answer.status for answer in answers] == [504, 504, 400, 400, 400]
    assert len(api.asked) == 2


async def test_what_many_ask_for_at_once_is_reserved_for_each(make_gateway_rig, api):
    gateway_rig, model = make_gateway_rig(api.url, usd_per_hour=0.5), Model()
    api.add(*[model] * 60)
    dear = {**BODY, "max_tokens": 20_000}
    async with (
        gateway_rig.run("run-1") as one,
        gateway_rig.run("run-2", causes=("cause-2",)) as other,
    ):
        answers = await asyncio.gather(
            *(gateway_rig.ask(way, body=dear) for way in (one, other) for _ in range(20))
        )
    assert {answer.status for answer in answers} == {200, 400}
    assert model.made == pytest.approx(counted(gateway_rig) + counted(gateway_rig, "run-2"))
    assert model.made <= 0.5


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 0},
        {"input_tokens": "9"},
        {"output_tokens": 1.0},
        {"output_tokens": "7"},
        {"output_tokens": -1},
    ],
)
async def test_usage_that_does_not_say_what_both_sides_took_frees_no_money(
    gateway_rig, api, usage, streams
):
    """A server that says half of it, or says it in other kinds of numbers, makes nothing free."""
    api.add(Reply(blocks=(say("x"),), usage=usage))
    async with gateway_rig.run() as way:
        assert (await gateway_rig.ask(way, body={**BODY, "stream": streams})).status == 200
    assert counted(gateway_rig) >= cost_of(
        MODEL, Tokens(input=100, output=BODY["max_tokens"]), may_cost=True
    )


async def test_a_refusal_costs_nothing(gateway_rig, api):
    api.add(
        ApiRefusal(status=400, kind="invalid_request_error"),
        ApiRefusal(status=529, headers={"x-should-retry": "false"}),
    )
    async with gateway_rig.run() as way:
        assert [(await gateway_rig.ask(way)).status for _ in range(2)] == [400, 529]
    assert gateway_rig.usage_store.report(gateway_rig.now[0], 7).total.requests == 0


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-1", None, [MODEL], f"{MODEL} "],
)
async def test_a_run_asks_its_own_model_alone_and_gets_an_error_otherwise(gateway_rig, api, model):
    async with gateway_rig.run() as way:
        answer = await gateway_rig.ask(way, body={**BODY, "model": model})
    assert (answer.status, answer.headers["x-should-retry"]) == (400, "false")
    assert f"this run may ask {MODEL} (setting agent.model)" in answer.error["message"]
    assert api.requests == []


KILLED = """
import asyncio, sys, time
from pathlib import Path
from parachuted.agents.gateway.message_request import read_request
from parachuted.agents.gateway.usage import MoneyLimits, RunToken, UsageStore

async def main():
    limits = MoneyLimits(usd_per_cause=1, usd_per_hour=1, usd_per_day=1)
    run_token = RunToken(run="r", agent="a", causes=("c",), session=None, max_cost_usd=1, model="m")
    request = read_request(b'{"model": "m", "max_tokens": 1000}', "m")
    store = UsageStore(Path(sys.argv[1]), time.time, limits)
    async with store.charge(run_token, request) as charge:
        print(charge.usd, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_what_a_killed_daemon_had_on_its_way_is_spent_when_it_starts_again(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "usage.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        reserved = float(process.stdout.readline())
        process.kill()
    limits = MoneyLimits(usd_per_cause=1, usd_per_hour=1, usd_per_day=1)
    usage_store = UsageStore(tmp_path / "usage.db", time.time, limits)
    (cause,) = usage_store.report(datetime.now(UTC), 1).causes
    assert usage_store.last()[0] == cause.usd == pytest.approx(reserved)
    assert reserved > 0
    usage_store.database.close()


async def test_a_server_in_one_s_own_network_is_asked_for_all_and_costs_nothing(gateway_rig, api):
    api.add([say("x")])
    body = {**BODY, "model": "qwen3:8b", "max_tokens": 100_000}
    async with gateway_rig.run(max_cost_usd=0.01, model="qwen3:8b") as way:
        assert (await gateway_rig.ask(way, body=body)).status == 200
    assert (api.asked[0].body["max_tokens"], counted(gateway_rig)) == (100_000, 0.0)
