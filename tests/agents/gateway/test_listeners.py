"""Where the gateway listens: sockets in private folders, whatever is sent there."""

from __future__ import annotations

import asyncio
import logging
import stat
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from parachuted.agents.gateway.listeners import listen_in, start_server

NAME = "gateway.sock"


async def answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


async def get(url: str, socket: Path | None = None) -> str:
    connector = None if socket is None else aiohttp.UnixConnector(str(socket))
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
        return f"{response.status} {await response.text()}"


@asynccontextmanager
async def listening(folder: Path, serve=answer):
    runner = await start_server(serve, listen_in(folder, NAME))
    yield folder / NAME
    await runner.cleanup()


async def test_what_lies_in_the_socket_s_place_is_replaced(tmp_path):
    (tmp_path / NAME).write_text("left by a crash")
    async with listening(tmp_path) as path:
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert await get("http://localhost/", path) == "200 here"
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(OSError, match=r"gateway\.sock"):
        listen_in(tmp_path, NAME)


async def test_what_is_not_http_is_answered_so_and_fills_no_log(tmp_path, caplog):
    async with listening(tmp_path) as path:
        for wrong in (
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
            b"\x16\x03\x01\r\n\r\n",
            b"GET / HTTP/1.1\r\n\0: x\r\n\r\n",
        ):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + wrong)
            assert b" 400 Bad Request" in await asyncio.wait_for(reader.read(), 30)
            writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_fault_of_ours_is_logged(tmp_path, caplog):
    async def fail(_request: web.BaseRequest) -> web.Response:
        raise ValueError("ours")

    async with listening(tmp_path, fail) as path:
        assert (await get("http://x/", path)).startswith("500")
    assert "ours" in caplog.text
