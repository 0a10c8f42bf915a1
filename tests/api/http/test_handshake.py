"""The port of TLS against those who connect there and do not begin to speak."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from parachuted.addresses import listening_sockets
from parachuted.api import HttpServer, ServerLimits
from parachuted.tls import CertificateAuthority
from tests.api.http.test_server import answer, gone

LIMITS = ServerLimits(connections=16, head_s=60)


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path)
    made.make([], datetime.now(UTC))
    made.renew([], datetime.now(UTC))
    return made


@contextlib.asynccontextmanager
async def serving(
    authority: CertificateAuthority, limits: ServerLimits = LIMITS
) -> AsyncIterator[tuple[HttpServer, int]]:
    app = web.Application()
    app.add_routes([web.get("/x", answer)])
    server = HttpServer(app, limits)
    sockets = listening_sockets("127.0.0.1", 0)
    await server.open_at(sockets, authority.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
    try:
        yield server, sockets[0].getsockname()[1]
    finally:
        await server.close()


async def asked(port: int, authority: CertificateAuthority, *, times: int = 1) -> bytes:
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    reader, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
    for _ in range(times):
        writer.write(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
    writer.write(b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.transport.abort()


async def test_who_connects_and_says_nothing_keeps_nobody_out(authority):
    async with serving(authority) as (server, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        said = await asked(port, authority, times=3)

        assert said.count(b"HTTP/1.1 200 OK") == 4
        assert len(server._connections) <= server.most
        cut = [reader for reader, _writer in silent if reader.at_eof() or reader.exception()]
        assert len(cut) >= len(silent) - server.most
        for _reader, writer in silent:
            writer.transport.abort()
        await gone(server)
        assert not server._peers


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01", b""]
)
async def test_who_does_not_speak_tls_is_not_counted_any_more_once_gone(authority, said: bytes):
    async with serving(authority) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 30)
        writer.close()
        await gone(server)
        assert await asked(port, authority)


async def test_a_handshake_that_takes_too_long_is_cut(authority):
    async with serving(authority, ServerLimits(connections=16, head_s=0.3)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01")
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
        await gone(server)


async def test_the_server_ends_while_somebody_is_shaking_hands(authority):
    async with serving(authority) as (server, port):
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not server._connections:
            await asyncio.sleep(0.01)
    assert not server._handshakes
    writer.close()
