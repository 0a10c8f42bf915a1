"""Streams of modules, over HTTP: names, ids, and readers who come back, in the daemon's process and
in one of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from tests.api.calls import Message, call, expect, get, key_of, messages, post
from tests.api.routes.test_modules import run_module
from tests.stories.daemon_rig import DaemonRig

TICKS = "/api/ticker/ticks"

MODULE = """
import asyncio
from parachuted.modules import Module, ServerEvent, Stream, route

class TickerModule(Module):
    async def on_enable(self):
        self.ticks = Stream(keep=5)
        self.readers = 0

    @route("POST", "/ticks")
    async def send(self, count: int, event: str = "tick"):
        return [self.ticks.send({"n": number}, event) for number in range(count)]

    @route("DELETE", "/ticks")
    async def close(self):
        self.ticks.close()

    @route("GET", "/ticks")
    async def follow(self) -> Stream:
        return self.ticks

    @route("GET", "/wrong")
    async def wrong(self) -> Stream:
        return {"not": "a stream"}

    @route("GET", "/own")
    async def own(self, after: str = "0", event: str = "own"):
        yield ServerEvent({"after": after}, event, id=str(int(after) + 1))
        yield "plain"
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["trusted"])
async def daemon_rig(
    request: pytest.FixtureRequest, file_daemon: DaemonRig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DaemonRig]:
    """The file's daemon with the module, in its own process and in one of the module's own."""
    folder = tmp_path_factory.mktemp("stream")
    await run_module(file_daemon, folder, "ticker", MODULE, str(request.param))
    yield file_daemon
    await expect(file_daemon, 200, "DELETE", "/api/modules/ticker")


async def read(daemon_rig: DaemonRig, path: str, number: int, **headers: str) -> list[Message]:
    """The first messages of a stream."""
    async with (
        asyncio.timeout(20),
        aiohttp.ClientSession() as session,
        session.get(daemon_rig.url + path, headers=headers) as answer,
    ):
        assert answer.content_type == "text/event-stream"
        found = []
        async for message in messages(answer):
            found += [] if message.comment else [message]
            if len(found) == number:
                break
        return found


async def test_who_lost_the_connection_gets_what_followed(daemon_rig: DaemonRig):
    ids = await post(daemon_rig, TICKS, {"count": 5})
    assert [one.id for one in await read(daemon_rig, TICKS, 5)] == ids
    late = await read(daemon_rig, TICKS, 2, **{"Last-Event-ID": ids[2]})
    assert [(one.id, one.event, one.data) for one in late] == [
        (ids[3], "tick", {"n": 3}),
        (ids[4], "tick", {"n": 4}),
    ]
    assert (await read(daemon_rig, f"{TICKS}?after={ids[3]}", 1))[0].id == ids[4]
    both = await read(daemon_rig, f"{TICKS}?after={ids[0]}", 1, **{"Last-Event-ID": ids[3]})
    assert both[0].id == ids[4]
    await post(daemon_rig, TICKS, {"count": 3})
    reset = await read(daemon_rig, f"{TICKS}?after={ids[0]}", 6)
    assert [one.event for one in reset] == ["reset", *["tick"] * 5]
    assert (await read(daemon_rig, f"{TICKS}?after=unknown", 1))[0].event == "reset"


async def test_readers_that_take_nothing_hold_up_no_one(daemon_rig: DaemonRig):
    slow = []
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        writer.write(b"GET /api/ticker/ticks HTTP/1.1\r\nHost: localhost\r\n\r\n")
        slow.append(writer)
    for _ in range(20):
        await post(daemon_rig, TICKS, {"count": 50})
    assert len(await read(daemon_rig, TICKS, 5)) == 5
    for writer in slow:
        writer.close()
    assert (await get(daemon_rig, "/api/modules/ticker"))["problem"] is None


async def test_a_generator_names_its_events_and_learns_where_the_reader_was(daemon_rig: DaemonRig):
    first, second = await read(daemon_rig, "/api/ticker/own", 2, **{"Last-Event-ID": "7"})
    assert (first.id, first.event, first.data) == ("8", "own", {"after": "7"})
    assert second.data == "plain"
    for name in ("a%0aid:%205", "a%0d%0adata:%20x", ""):
        status, reported = await call(daemon_rig, "GET", f"/api/ticker/own?event={name}")
        assert status == 502, reported
    await expect(daemon_rig, 502, "GET", "/api/ticker/wrong")
    await expect(daemon_rig, 502, "POST", TICKS, json={"count": 1, "event": "a\nb"})


async def test_a_stream_ends_with_its_module_and_with_its_key(
    daemon_rig: DaemonRig, session: aiohttp.ClientSession
):
    url, headers = daemon_rig.url + TICKS, key_of(daemon_rig, "ticker:read")
    async with asyncio.timeout(20):
        async with session.get(url, headers=headers) as answer:
            assert await answer.content.readline() == b": open\n"
            key = daemon_rig.daemon.authenticator.ring.keys[0]
            await expect(daemon_rig, 200, "DELETE", f"/api/auth/keys/{key.id}")
            with pytest.raises(aiohttp.ClientError):
                await answer.content.read()
        async with session.get(url) as answer:
            assert await answer.content.readline() == b": open\n"
            await post(daemon_rig, "/api/modules/ticker/disable")
            text = await answer.content.read()
            assert b"event: error" in text or text == b"\n"
    await expect(daemon_rig, 404, "GET", TICKS)
    await post(daemon_rig, "/api/modules/ticker/enable")


async def test_a_stream_opens_before_anything_is_sent_and_ends_when_closed(
    daemon_rig: DaemonRig, session: aiohttp.ClientSession
):
    async with asyncio.timeout(30), session.get(daemon_rig.url + TICKS) as answer:
        assert await answer.content.readline() == b": open\n"
        await post(daemon_rig, TICKS, {"count": 1})
        await expect(daemon_rig, 200, "DELETE", TICKS)
        assert (await answer.content.read()).endswith(b'data: {"n":0}\n\n')
