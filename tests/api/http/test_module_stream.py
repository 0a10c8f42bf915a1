"""Streams of modules, over HTTP: names, ids, where the reader was, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from tests.api.calls import Message, call, expect, key_of, messages, post
from tests.api.routes.test_modules import run_module
from tests.stories.daemon_rig import DaemonRig

OWN = "/api/ticker/own"

MODULE = """
import asyncio
from parachuted.modules import Module, ServerEvent, route

class TickerModule(Module):
    @route("GET", "/own")
    async def own(self, after: str = "0", event: str = "own"):
        yield ServerEvent({"after": after}, event, id=str(int(after) + 1))
        yield "plain"
        await asyncio.sleep(60)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon_rig(
    file_daemon: DaemonRig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DaemonRig]:
    await run_module(file_daemon, tmp_path_factory.mktemp("stream"), "ticker", MODULE, "trusted")
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


async def test_a_generator_names_its_events_and_learns_where_the_reader_was(daemon_rig: DaemonRig):
    first, second = await read(daemon_rig, OWN, 2, **{"Last-Event-ID": "7"})
    assert (first.id, first.event, first.data) == ("8", "own", {"after": "7"})
    assert second.data == "plain"
    (again,) = await read(daemon_rig, f"{OWN}?after=3", 1)
    assert again.id == "4"
    for name in ("a%0aid:%205", "a%0d%0adata:%20x", ""):
        status, reported = await call(daemon_rig, "GET", f"{OWN}?event={name}")
        assert status == 502, reported


async def test_a_stream_ends_with_its_key_and_with_its_module(
    daemon_rig: DaemonRig, session: aiohttp.ClientSession
):
    url, headers = daemon_rig.url + OWN, key_of(daemon_rig, "ticker:read")
    async with asyncio.timeout(20):
        async with session.get(url, headers=headers) as answer:
            assert await answer.content.readline() == b"id: 1\n"
            key = daemon_rig.daemon.authenticator.ring.keys[0]
            await expect(daemon_rig, 200, "DELETE", f"/api/auth/keys/{key.id}")
            with pytest.raises(aiohttp.ClientError):
                await answer.content.read()
        async with session.get(url) as answer:
            assert await answer.content.readline() == b"id: 1\n"
            await post(daemon_rig, "/api/modules/ticker/disable")
            assert b"event: error" in await answer.content.read()
    await expect(daemon_rig, 404, "GET", OWN)
    await post(daemon_rig, "/api/modules/ticker/enable")
