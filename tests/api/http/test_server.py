"""The server against those who connect, and send and read as no one should."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from parachuted.api import HttpServer, ServerLimits
from parachuted.errors import DaemonError
from tests.api.calls import expect, get, spoken
from tests.stories.daemon_rig import DaemonRig

FEW = ServerLimits(connections=24)
QUICK = ServerLimits(connections=24, idle_s=0.5)
HEAD = b"GET /x HTTP/1.1\r\nHost: localhost\r\n"


async def answer(request: web.Request) -> web.Response:
    size = len(await request.read())
    return web.Response(text=str(size))


async def hang(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(30)
    return response


@contextlib.asynccontextmanager
async def serving(limits: ServerLimits = FEW) -> AsyncIterator[tuple[HttpServer, int]]:
    app = web.Application(client_max_size=1 << 24)
    app.add_routes([web.get("/x", answer), web.post("/x", answer), web.get("/hang", hang)])
    server = HttpServer(app, limits)
    port = await server.open("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.close()


async def said(port: int, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def gone(server: HttpServer, connections: int = 0) -> None:
    deadline = time.monotonic() + 120
    while len(server.connections) > connections:
        assert time.monotonic() < deadline, "a connection is still there"
        await asyncio.sleep(0.01)


def document_of(answer: bytes) -> dict[str, str]:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def test_a_port_that_is_taken_is_reported_by_its_number():
    async with serving() as (_, port):
        other = HttpServer(web.Application())
        with pytest.raises(DaemonError, match=f"port {port} cannot be used"):
            await other.open("127.0.0.1", port)
        await other.close()


async def test_a_head_that_does_not_come_to_its_end_is_refused():
    async with serving(QUICK) as (server, port):
        assert await said(port, HEAD) == b""
        assert await said(port) == b""
        await gone(server)


async def test_a_head_that_comes_a_byte_at_a_time_has_no_longer():
    async with serving(QUICK) as (server, port):
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in (HEAD + b"X: " + b"x" * 10_000).decode():
                writer.write(byte.encode())
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        assert time.monotonic() - began < 60  # sent whole, it takes 200 s
        await gone(server)


@pytest.mark.parametrize(
    "head",
    [
        *(
            b"".join(b"X-%d: %s\r\n" % (number, b"y" * 4_000) for number in range(20)),
            b"X: y\r\n" * 100_000,
            b"X: " + b"y" * 100_000,
        ),
        b"X: " + b"y" * 40_000_000,
    ],
    ids=["many long", "countless", "long", "endless"],
)
async def test_a_head_too_large_is_refused_whatever_makes_it_so(head):
    async with serving(QUICK) as (server, port):
        answered = await said(port, HEAD, head)
        assert not answered or answered.split(b" ")[1] in {b"400", b"431"}
        await gone(server)
        assert (await said(port, HEAD + b"Connection: close\r\n\r\n")).endswith(b"\r\n\r\n0")


async def test_a_long_query_is_refused():
    async with serving() as (_, port):
        answered = await said(port, b"GET /x?" + b"y" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 400 " in answered.partition(b"\r\n")[0]
        assert b"yyy" not in answered


async def test_there_is_room_for_so_many_answers_at_once_and_others_get_an_error():
    async with serving() as (server, port):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(24)]
        for reader, writer in kept:
            writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        assert document_of(await said(port, HEAD + b"\r\n"))["error"] == "Service Unavailable"
        for _, writer in kept:
            writer.close()
        await gone(server)
        assert b" 200 " in await said(port, HEAD + b"Connection: close\r\n\r\n")


@pytest.mark.parametrize(
    "held_with", [b"", b"GET /x HTTP/1.1\r\nHost: x\r\n"], ids=["nothing sent", "half a head sent"]
)
async def test_five_hundred_and_twenty_idle_connections_keep_no_one_out(held_with):
    """Also while they are made again as they are cut, and from this very machine, whose programs
    all have one address.
    """
    async with serving(ServerLimits()) as (server, port):
        held: list[asyncio.StreamWriter] = []

        async def hold(count: int) -> None:
            for _ in range(count):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(held_with)
                held.append(writer)

        await hold(520)
        spans = []
        for _ in range(20):
            began = time.monotonic()
            assert b" 200 " in await said(port, HEAD + b"Connection: close\r\n\r\n")
            spans.append(time.monotonic() - began)
            await hold(10)
        assert len(server.connections) <= server.most
        print(f"20 good requests took {max(spans) * 1e3:.1f} ms at most")  # noqa: T201  for -s
        for writer in held:
            writer.close()


async def test_an_answer_that_is_under_way_is_not_cut_to_make_room():
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nab"
        )
        await asyncio.sleep(0.05)
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        writer.write(b"cd")
        assert (await asyncio.wait_for(reader.read(), 30)).endswith(b"\r\n\r\n4")
        for _, other in (*idle, (None, writer)):
            other.close()


async def test_who_asks_far_ahead_of_being_answered_is_read_no_further():
    async with serving() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n" + (HEAD + b"\r\n") * 6_000)
        await reader.readuntil(b"\r\n\r\n")
        (connection,) = server.connections
        while connection._wire.is_reading():
            await asyncio.sleep(0)
        assert len(connection._messages) < 100
        writer.close()


async def test_what_is_not_http_gets_one_error_and_no_line_in_the_log(caplog):
    caplog.set_level(logging.INFO)
    async with serving() as (_, port):
        odd = b"GET /secret HTTP/1.1\r\nA\x00: b\r\n\r\n"
        for bytes_ in (
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"SSH-2.0-x\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            odd,
        ):
            answered = await said(port, bytes_)
            document = document_of(answered)
            assert set(document) == {"error", "message", "detail", "request_id"}
            assert b"secret" not in answered
    assert caplog.records == []


async def test_the_daemon_takes_no_compressed_body_however_it_is_said(daemon_rig: DaemonRig):
    for kind in ("gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip", "x"):
        sent = {"data": b'{"path": "a.md"}', "headers": {"Content-Encoding": kind}}
        await expect(daemon_rig, 415, "POST", "/api/bubble/plan", **sent)
    await get(daemon_rig, "/api/health")


async def test_a_body_that_breaks_off_or_is_not_chunked_is_not_the_daemons_fault(
    caplog, daemon_rig: DaemonRig
):
    head = b"POST /api/bubble/plan HTTP/1.1\r\nHost: localhost\r\n"
    nonsense = b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n"
    answered = await spoken(daemon_rig, head + nonsense)
    assert b" 400 " in answered.partition(b"\r\n")[0]
    _reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    writer.write(head + b"Content-Length: 10\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.transport.abort()
    await daemon_rig.until(lambda: not daemon_rig.daemon._server.connections)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_an_answer_that_waits_for_no_body_is_the_last_of_its_connection(
    daemon_rig: DaemonRig,
):
    head = b"POST /api/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    answered = await spoken(daemon_rig, head + b"[")
    assert b"\r\nConnection: close\r\n" in answered.partition(b"\r\n\r\n")[0] + b"\r\n"
    whole = head + b"[1,2]GET /api/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert (await spoken(daemon_rig, whole)).count(b"HTTP/1.1 ") == 2


async def test_nothing_of_what_was_refused_is_kept():
    async with serving() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not server.connections:
            await asyncio.sleep(0)
        (connection,) = server.connections
        for _ in range(4):
            connection.data_received(b"no request\r\n\r\n")
        assert len(connection._messages) > 1
        assert b" 400 " in await asyncio.wait_for(reader.read(), 30)
        writer.close()
        await gone(server)
        assert not connection._messages
