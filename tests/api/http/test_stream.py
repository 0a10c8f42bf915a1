"""The event stream, as a reader has it: fast, slow, gone, and back again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import time
from datetime import UTC, datetime
from itertools import islice

import aiohttp
import pytest
from aiohttp import web

from parachuted.api.app import serve
from parachuted.api.http.authenticator import KeyAuthenticator
from parachuted.api.http.decorators import routes_of
from parachuted.api.http.host_guard import HostGuard
from parachuted.api.http.middleware import ApiMiddleware
from parachuted.api.http.stream import EventStreams, StreamLimits
from parachuted.audit.chain import NullAuditRecorder
from parachuted.events import Bus
from parachuted.keys import KeyFile, KeyRing
from parachuted.vault import VaultRoot
from tests.api.calls import Message, messages
from tests.stories.daemon_rig import DaemonRig, Live, note, save

START = datetime(2026, 2, 24, 12, tzinfo=UTC)
SHORT = StreamLimits(heartbeat_s=0.05)


class StreamServer:
    """A server that has nothing but the stream."""

    def __init__(
        self, bus: Bus, streams: EventStreams, session: aiohttp.ClientSession, port: int
    ) -> None:
        self.bus, self.streams, self._session, self.port = bus, streams, session, port

    @contextlib.asynccontextmanager
    async def read(self, last: str | None = None):
        """A reader's messages, from the moment on when it is listened for."""
        headers = {} if last is None else {"Last-Event-ID": last}
        async with self._session.get(
            f"http://127.0.0.1:{self.port}/api/events", headers=headers
        ) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/event-stream"
            stream = messages(answer)
            assert (await anext(stream)).comment == "parachuted"
            yield stream

    def publish(self, count: int) -> None:
        for number in range(count):
            self.bus.publish("vault.problem", subject=f"s{number}", problem="x" * 200)

    async def until(self, condition, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(
    tmp_path,
    patience: StreamLimits | None = None,
    bus: Bus | None = None,
    started: datetime = START,
):
    bus = bus or Bus(lambda: START)
    door = KeyAuthenticator(KeyRing(KeyFile(tmp_path), lambda: START), "remote", "t", lambda: START)
    streams = EventStreams(bus, tmp_path, started, door.holds, patience)
    front = ApiMiddleware(
        HostGuard(), door, VaultRoot(tmp_path), NullAuditRecorder(), lambda: START
    )
    app = web.Application(middlewares=[front.answer])
    serve(app, routes_of(streams))
    app.on_shutdown.append(lambda _app: streams.close())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        try:
            yield StreamServer(bus, streams, session, runner.addresses[0][1])
        finally:
            await runner.cleanup()


async def take(stream, count: int) -> list[Message]:
    return [await asyncio.wait_for(anext(stream), 20) for _ in range(count)]


async def test_a_change_of_a_file_is_reported_in_the_shape_that_all_share(
    vault, daemon_rig: DaemonRig
):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/events") as answer,
    ):
        stream = messages(answer)
        await anext(stream)
        save(vault / "a.md", note("A"))
        (message,) = await take(stream, 1)

    assert message.event == "file.created"
    assert list(message.data) == ["event", "timestamp", "vault_path", "module", "data"]
    head = {"event": "file.created", "vault_path": str(vault), "module": "core"}
    assert message.data == message.data | head
    reported = message.data["data"]
    assert set(reported) == {"path", "by", "run", "causes", "digest", "key"}
    assert reported == reported | {"path": "a.md", "by": "person", "run": None}
    assert datetime.fromisoformat(message.data["timestamp"]).tzinfo is not None
    assert message.data["timestamp"].endswith("Z")


async def test_a_burst_of_messages_comes_in_order_each_with_its_id(tmp_path):
    async with serving(tmp_path) as served, served.read() as stream:
        served.publish(20_000)
        got = await take(stream, 20_000)

    subjects = [message.data["data"]["subject"] for message in got]
    assert subjects == [f"s{number}" for number in range(20_000)]
    assert len({message.id for message in got}) == 20_000


async def test_what_stands_in_an_event_cannot_end_a_line_or_a_message(tmp_path):
    hostile = "a\n\nevent: file.deleted\ndata: {}\r\n\r\n\u2028\u2029\0\x85\x1b[31m" + "\udcff"
    async with serving(tmp_path) as served, served.read() as stream:
        served.bus.publish("vault.problem", subject=hostile, problem=None)
        served.publish(1)
        first, second = await take(stream, 2)

    assert (first.event, first.data["data"]["subject"]) == ("vault.problem", hostile)
    assert second.data["data"]["subject"] == "s0"


async def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(tmp_path):
    async with serving(tmp_path) as served:
        async with served.read() as stream:
            served.publish(10)
            seen = await take(stream, 4)
        async with served.read(seen[-1].id) as stream:
            rest = await take(stream, 6)
            served.publish(1)
            rest += await take(stream, 1)

    assert [message.data["data"]["subject"] for message in seen + rest] == [
        *(f"s{number}" for number in range(10)),
        "s0",
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_a_reader_cut_off_anywhere_that_returns_has_each_message_once(
    tmp_path, seed, torture
):
    chance, count = random.Random(seed), 5_000 if torture else 300  # noqa: S311  the same at each run
    async with serving(tmp_path) as served:
        first = served.bus.publish("vault.problem", subject="first", problem="")
        last, got = served.streams.frame(first).partition(b"\n")[0].removeprefix(b"id: "), []
        published = connections = 0
        while len(got) < count:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            connections += 1
            head = b"GET /api/events HTTP/1.0\r\nHost: 127.0.0.1\r\nLast-Event-ID: "
            writer.write(head + last + b"\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            more = min(count, published + chance.randrange(40))
            for number in range(published, more):
                problem = "ä\n" * chance.randrange(200)
                served.bus.publish("vault.problem", subject=str(number), problem=problem)
            published = more
            whole = await some_bytes(reader, chance.randrange(20_000))
            writer.transport.abort()
            for frame in whole.split(b"\n\n")[:-1]:  # what was cut off does not count
                if frame.startswith(b"id: "):
                    fields = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
                    last = fields[b"id"]
                    got.append(json.loads(fields[b"data"])["data"]["subject"])

    assert got == [str(number) for number in range(count)]
    assert connections > 5


async def some_bytes(reader: asyncio.StreamReader, most: int) -> bytes:
    """What comes, up to so many bytes, until nothing does for a moment."""
    data = b""
    with contextlib.suppress(TimeoutError):
        while len(data) < most:
            async with asyncio.timeout(0.05):
                data += await reader.read(most - len(data))
    return data


@pytest.mark.parametrize("missed", [1000, 1001, 5000])
async def test_the_last_thousand_are_replayed_and_more_is_a_reset(tmp_path, missed):
    async with serving(tmp_path) as served:
        async with served.read() as stream:
            served.publish(1)
            last = (await take(stream, 1))[-1].id
        served.publish(missed)
        async with served.read(last) as stream:
            got = await take(stream, 1000)

    assert (got[0].event == "reset") == (missed > 1000)
    assert got[-1].data["data"]["subject"] == f"s{missed - 1 - (missed > 1000)}"


async def test_an_id_that_was_never_given_is_a_reset(tmp_path):
    async with serving(tmp_path) as served:
        async with served.read() as stream:
            served.publish(3)
            life = (await take(stream, 3))[0].id.partition("-")[0]
        forged = (
            *("0", "5", "-1", "x", "x-1", "9" * 4000, f"{life}-", f"{life}-x", f"{life}-99"),
            *(f"{life}--1", f"{life}-" + "9" * 4000, f"{life}-٣", f"{life}-1.0"),
        )
        for last in forged:
            async with served.read(last) as stream:
                got = await take(stream, 4)
            assert [message.event for message in got] == ["reset", *["vault.problem"] * 3], last


async def test_an_id_of_the_last_life_of_the_daemon_is_a_reset(tmp_path):
    async with serving(tmp_path) as served, served.read() as stream:
        served.publish(3)
        last = (await take(stream, 3))[-1].id
    async with serving(tmp_path, started=START.replace(second=5)) as served:
        served.publish(10)
        async with served.read(last) as stream:
            assert (await take(stream, 1))[0].event == "reset"


async def test_a_silent_stream_gives_signs_of_life(tmp_path):
    async with serving(tmp_path, SHORT) as served, served.read() as stream:
        assert [message.comment for message in await take(stream, 3)] == ["still here"] * 3
    assert StreamLimits().heartbeat_s == 15


def deaf(port: int) -> socket.socket:
    """A reader that never reads."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


async def test_a_reader_that_never_reads_is_dropped_while_the_others_are_served(tmp_path):
    async with serving(tmp_path) as served, served.read() as stream:
        with deaf(served.port) as idle:
            await served.until(lambda: len(served.streams._readers) == 2)
            for _ in range(200):
                served.publish(100)
                assert len(await take(stream, 100)) == 100
            await served.until(lambda: len(served.streams._readers) == 1)
            assert is_cut(idle)


def is_cut(connection: socket.socket) -> bool:
    """Whether what was sent ends, by an error or by silence."""
    connection.settimeout(10)
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionError:
        pass
    return True


async def test_a_reader_that_takes_nothing_for_long_is_dropped(tmp_path):
    async with serving(tmp_path, StreamLimits(write_s=0.05)) as served:
        with deaf(served.port):
            await served.until(lambda: served.streams._readers)
            served.publish(20_000)
            await served.until(lambda: not served.streams._readers)


async def test_two_hundred_readers_hear_the_same(tmp_path):
    async with serving(tmp_path) as served, contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(served.read()) for _ in range(200)]
        served.publish(20)
        got = [await take(stream, 20) for stream in streams]

    assert len({tuple(message.id for message in one) for one in got}) == 1
    assert all(len(one) == 20 for one in islice(got, 200))


async def test_the_daemon_ends_at_once_though_streams_are_open(live: Live):
    async with contextlib.AsyncExitStack() as stack:
        async with live() as daemon_rig:
            session = await stack.enter_async_context(aiohttp.ClientSession())
            answers = [
                await stack.enter_async_context(session.get(f"{daemon_rig.url}/api/events"))
                for _ in range(20)
            ]
            stack.enter_context(deaf(daemon_rig.daemon.port))
            for number in range(3000):
                daemon_rig.daemon.watched.bus.publish(
                    "vault.problem", subject=str(number), problem="x" * 2000
                )
            began = time.monotonic()
        assert time.monotonic() - began < 30
        for answer in answers:
            with contextlib.suppress(aiohttp.ClientPayloadError):
                await asyncio.wait_for(answer.read(), 30)


async def test_one_caller_has_so_many_streams_and_the_next_is_refused(tmp_path):
    few = StreamLimits(heartbeat_s=0.05, readers=8, readers_each=3)
    async with serving(tmp_path, few) as served, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(served.read())
        async with served._session.get(f"http://127.0.0.1:{served.port}/api/events") as refused:
            assert (refused.status, "too many event streams" in await refused.text()) == (503, True)
        await stack.aclose()
        await served.until(lambda: not served.streams._readers)
        async with served.read():
            pass
